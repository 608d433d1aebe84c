"""A program and its controller: output, exit codes, signals, and a controller that dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from autotrascale.domain.errors import EngineError, InputError
from autotrascale.execute.spark.common.program_environment import ProgramOptions
from autotrascale.execute.spark.controller.program_command import DRIVER, parse_command
from autotrascale.execute.spark.controller.program_process import ProgramProcess

SECONDS = 60.0
Start = Callable[[str], ProgramProcess]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def started(source: str) -> ProgramProcess:
        script = tmp_path / "app.py"
        script.write_text(textwrap.dedent(source))
        return ProgramProcess.start(
            parse_command([str(script), "one", "--two"]), tmp_path / "p", ProgramOptions(apply=True)
        )

    return started


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("print('done')", 0),
        ("import sys; sys.exit(7)", 7),
        ("raise ValueError('no')", 1),
        ("import sys; sys.exit('a last word')", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("syntax error here", 1),
    ],
)
def test_the_exit_code_of_the_program_is_reported(start: Start, source: str, code: int) -> None:
    program = start(source)
    assert program.wait(SECONDS) == code
    assert ProgramProcess.find(program.folder).exit_code() == code  # a later controller


def test_a_script_sees_the_same_as_without_autotrascale(
    start: Start, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "client.py").write_text("NAME = 'its own module'")  # we have one of that name
    program = start(
        """
        import sys, pickle, __main__
        import client
        class Thing: pass
        assert pickle.loads(pickle.dumps(Thing())).__class__ is Thing
        assert __main__.__file__ == __file__ == sys.argv[0]
        print(sys.argv[1:], __name__, client.NAME, sys.path[0])
        def deep(): raise ValueError("its own error")
        deep()
        """
    )
    assert program.wait(SECONDS) == 1
    said = capfd.readouterr()
    assert said.out == f"['one', '--two'] __main__ its own module {tmp_path}\n"
    lines = said.err.splitlines()
    script = tmp_path / "app.py"
    assert lines[0] == "Traceback (most recent call last):"
    assert [line.strip() for line in lines if line.startswith("  File")] == [
        f'File "{script}", line 9, in <module>',
        f'File "{script}", line 8, in deep',
    ]
    assert lines[-1] == "ValueError: its own error"


def test_a_module_sees_the_same_as_without_autotrascale(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "names.py").write_text("NAME = 'its own'")
    source = """
        import sys, pickle, __main__
        from .names import NAME
        class Thing: pass
        assert pickle.loads(pickle.dumps(Thing())).__class__ is Thing
        print(NAME, __name__, __package__, __main__.__file__ == __file__ == sys.argv[0], sys.argv[1:], sys.path[0])
        raise ValueError("its own error")
    """
    (tmp_path / "jobs" / "shop.py").write_text(textwrap.dedent(source))
    monkeypatch.chdir(tmp_path)
    alone = subprocess.run(
        [sys.executable, "-m", "jobs.shop", "one", "-m"], capture_output=True, text=True, check=False
    )
    program = ProgramProcess.start(
        parse_command([sys.executable, "-m", "jobs.shop", "one", "-m"]), tmp_path / "p", ProgramOptions(apply=True)
    )
    assert (program.wait(SECONDS), program.name) == (alone.returncode, "shop") == (1, "shop")
    said = capfd.readouterr()
    assert said.out == alone.stdout
    assert said.err.splitlines()[-1] == alone.stderr.splitlines()[-1] == "ValueError: its own error"
    assert str(DRIVER) not in said.err
    missing = ProgramProcess.start(
        parse_command([sys.executable, "-m", "jobs.none"]), tmp_path / "q", ProgramOptions(apply=True)
    )
    assert missing.wait(SECONDS) == 1
    assert capfd.readouterr().err.endswith("No module named jobs.none\n")


def test_a_program_that_does_not_decide_on_ctrl_c_ends_without_a_traceback(
    start: Start, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """While threads of ours ask a JVM that is gone, as py4j says at length; what others ask is logged as ever."""
    program = start(
        f"""
        import contextlib, logging, sys, threading, time
        from py4j.java_gateway import GatewayParameters, JavaGateway
        logging.basicConfig()
        nobody = JavaGateway(gateway_parameters=GatewayParameters(port=1))
        def ask():
            with contextlib.suppress(Exception):
                nobody.jvm.java.lang.System.currentTimeMillis()
        for name in ("autotrascale agent", "query 1"):
            thread = threading.Thread(target=ask, name=name)
            thread.start()
            thread.join()
        print("asked", file=sys.stderr, flush=True)
        ask()
        print("asked by itself", file=sys.stderr, flush=True)
        open({str(tmp_path / "up")!r}, "w").close()
        time.sleep(600)
        """
    )
    _await(tmp_path / "up")
    program.send_signal(signal.SIGINT)
    assert program.wait(SECONDS) == 130
    ours, _, rest = capfd.readouterr().err.partition("asked\n")
    its_own, _, end = rest.partition("asked by itself\n")
    assert ours == end == ""
    assert "ConnectionRefusedError" in its_own


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 9)])
def test_the_program_decides_on_signals(start: Start, tmp_path: Path, number: int, code: int) -> None:
    program = start(
        f"""
        import sys, time
        open({str(tmp_path / "up")!r}, "w").close()
        try:
            time.sleep(600)
        except KeyboardInterrupt:
            sys.exit(9)
        """
    )
    _await(tmp_path / "up")
    with program.forward_signals():
        os.kill(os.getpid(), number)
        assert program.wait(SECONDS) == code


def test_a_program_outlives_its_controller_and_is_found_again(tmp_path: Path) -> None:
    script = tmp_path / "app.py"
    script.write_text(
        f"import time\nwhile not __import__('os').path.exists({str(tmp_path / 'end')!r}): time.sleep(0.05)\n"
    )
    starting = f"""
from pathlib import Path
from autotrascale.execute.spark.common.program_environment import ProgramOptions
from autotrascale.execute.spark.controller.program_command import parse_command
from autotrascale.execute.spark.controller.program_process import ProgramProcess
command, folder = parse_command([{str(script)!r}]), Path({str(tmp_path / "p")!r})
program = ProgramProcess.start(command, folder, ProgramOptions(apply=True))
program.client({SECONDS})
Path({str(tmp_path / "up")!r}).touch()
program.wait()
"""
    controller = subprocess.Popen([sys.executable, "-c", starting])
    _await(tmp_path / "up")
    controller.kill()
    controller.wait()
    program = ProgramProcess.find(tmp_path / "p")
    with program.client(SECONDS) as client:
        assert client.application().pid == program.record.program
        assert client.queries() == ()
        with pytest.raises(EngineError, match="has not opened Spark"):
            client.executors()
    with program.client(SECONDS):
        assert program.exit_code() is None
    (tmp_path / "end").touch()
    assert program.wait(SECONDS) == 0


def test_a_failed_start_is_reported_in_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = ProgramProcess.start(
        parse_command([str(tmp_path / "none.py")]), tmp_path / "p", ProgramOptions(apply=True)
    )
    assert program.wait(SECONDS) == 2
    assert capfd.readouterr().err.count("\n") == 1
    with pytest.raises(EngineError, match="could not be started"):
        ProgramProcess.start(
            parse_command([str(tmp_path / "python3"), "app.py"]), tmp_path / "q", ProgramOptions(apply=True)
        )
    with pytest.raises(InputError, match="holds another program"):
        ProgramProcess.start(parse_command(["app.py"]), tmp_path / "p", ProgramOptions(apply=True))
    with pytest.raises(InputError, match="holds no program"):
        ProgramProcess.find(tmp_path / "r")


def test_a_python_without_autotrascale_is_reported_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", str(DRIVER), "app.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.endswith("lacks autotrascale: install it for that Python\n")
    assert done.stderr.count("\n") == 1


def test_an_agent_in_a_folder_with_a_long_name_is_for_its_owner_alone(tmp_path: Path) -> None:
    script = tmp_path / "app.py"
    script.write_text("import time; time.sleep(600)")
    folder = tmp_path / ("long" * 30)
    program = ProgramProcess.start(parse_command([str(script)]), folder, ProgramOptions())
    with program.client(SECONDS):
        assert folder.stat().st_mode & 0o777 == 0o700
    program.kill()
    assert program.exit_code() == 1  # the supervisor was killed with the exit code


def _await(sign: Path) -> None:
    until = time.monotonic() + SECONDS
    while not sign.exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_an_attached_program_is_found_by_its_folder(tmp_path: Path) -> None:
    script = tmp_path / "notebook.py"
    script.write_text(
        f"import sys, time, autotrascale\nautotrascale.attach({str(tmp_path / 'p')!r})\n"
        f"open({str(tmp_path / 'up')!r}, 'w').close()\ntime.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, str(script)]) as process:
        try:
            _await(tmp_path / "up")
            program = ProgramProcess.find(tmp_path / "p")
            assert (program.exit_code(), program.name) == (None, "notebook")
            with program.client(SECONDS) as client:
                assert client.application().pid == process.pid
        finally:
            process.kill()
    assert program.exit_code() is not None
