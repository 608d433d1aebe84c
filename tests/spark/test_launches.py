"""Launches of a program under its supervisor: one at a time, and always one to go on with after any crash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from autotrascale.execute.spark.common.launches import NextLaunch
from autotrascale.execute.spark.common.program_folder import NEXT_FILE, READY_FILE, STOPPING_FILE
from autotrascale.execute.spark.controller.program_process import ProgramProcess

SECONDS = 60.0
# Each launch logs its number, settings and process id, then runs the code for its number.
SCRIPT = """
    import json, os, pathlib, subprocess, sys, time
    folder, log = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    path = folder / "launch.json"
    launch = json.loads(path.read_text()) if path.exists() else {"number": 1, "settings": {}}
    with log.open("a") as file:
        file.write(json.dumps([launch["number"], launch["settings"].get("size", ""), os.getpid()]) + "\\n")
    def stop():
        (folder / "stopping.json").write_text(json.dumps({"launch": launch["number"], "at": 5.0}))
    def ready():
        (folder / "ready.json").write_text(json.dumps({"at": 7.0}))
    exec(sys.argv[2 + launch["number"]])
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text(textwrap.dedent(SCRIPT))
    (tmp_path / "p").mkdir()
    return path


def started(script: Path, *launches: str, following: NextLaunch | None = None) -> ProgramProcess:
    folder = script.parent / "p"
    supervisor = [sys.executable, "-m", "autotrascale.execute.spark.controller.supervisor", str(folder)]
    if following is not None:
        (folder / NEXT_FILE).write_text(json.dumps(vars(following)))
    program = [sys.executable, str(script), str(folder), str(script.parent / "log"), *launches]
    child = subprocess.Popen(
        [*supervisor, *program], start_new_session=True, env={**os.environ, "AUTOTRASCALE_PROGRAM": str(folder)}
    )
    _await(folder / "program.json")
    return ProgramProcess(folder, ProgramProcess.find(folder).record, child)


def lived(script: Path) -> list[tuple[int, str]]:
    lines = (script.parent / "log").read_text().splitlines()
    return [(number, size) for number, size, _ in map(json.loads, lines)]


SMALL = NextLaunch(3, {"size": "small"}, 30.0, 30.0)


def test_a_launch_that_stops_is_followed_by_the_next(script: Path) -> None:
    program = started(script, "stop()", "ready(); sys.exit(0)", following=SMALL)
    assert program.wait(SECONDS) == 0
    assert not program.ensure_supervised()
    assert lived(script) == [(1, ""), (2, "small")]
    launch = program.launch
    assert (launch.number, launch.action, launch.settings, launch.former, launch.left_at) == (
        2,
        3,
        {"size": "small"},
        {},
        5.0,
    )
    assert not (program.folder / NEXT_FILE).exists()
    assert not (program.folder / STOPPING_FILE).exists()


@pytest.mark.parametrize("end", ["sys.exit(3)", "os.kill(os.getpid(), 9)", "ready(); time.sleep(1); sys.exit(3)"])
def test_a_launch_that_fails_on_trial_is_followed_by_the_former_settings(script: Path, end: str) -> None:
    program = started(script, "stop()", end, "sys.exit(4)", following=SMALL)
    assert program.wait(SECONDS) == 4  # the third is no trial: its end is the program's
    assert lived(script) == [(1, ""), (2, "small"), (3, "")]
    assert program.launch.why == f"the program ended with exit code {137 if 'kill' in end else 3}"
    assert (program.launch.action, program.launch.former) == (3, None)


def test_a_launch_without_batches_is_followed_by_the_former_settings(script: Path) -> None:
    late = NextLaunch(3, {"size": "huge"}, 1.0, 30.0)
    program = started(script, "stop()", "time.sleep(600)", "sys.exit(0)", following=late)
    assert program.wait(SECONDS) == 0
    assert lived(script) == [(1, ""), (2, "huge"), (3, "")]
    assert program.launch.why == "no batch was done within 1 s"


@pytest.mark.parametrize(
    ("first", "code"),
    [("sys.exit(0)", 0), ("sys.exit(3)", 3)],  # written, and no controller asked for a stop
)
def test_settings_that_were_only_written_have_no_effect(script: Path, first: str, code: int) -> None:
    program = started(script, first, "sys.exit(9)", following=SMALL)
    assert program.wait(SECONDS) == code
    assert lived(script) == [(1, "")]


def test_a_launch_that_is_killed_while_it_stops_is_followed_by_the_next(script: Path) -> None:
    program = started(script, "stop(); os.kill(os.getpid(), 9)", "sys.exit(0)", following=SMALL)
    assert program.wait(SECONDS) == 0
    assert lived(script) == [(1, ""), (2, "small")]


def test_lost_settings_keep_the_present_settings(script: Path) -> None:
    program = started(script, "stop()", "sys.exit(0)")
    assert program.wait(SECONDS) == 0
    assert lived(script) == [(1, ""), (2, "")]


@pytest.mark.parametrize("launch", [1, 2])
def test_no_launch_follows_a_signal(script: Path, launch: int) -> None:
    """Neither while a launch stops nor while it is on trial."""
    first = "stop(); time.sleep(600)" if launch == 1 else "stop()"
    program = started(script, first, "time.sleep(600)", "sys.exit(9)", following=SMALL)
    until = time.monotonic() + SECONDS
    while not (script.parent / "log").exists() or len(lived(script)) < launch:
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(0.3)  # it logs before it stops
    program.send_signal(signal.SIGTERM)
    assert program.wait(SECONDS) == 143
    assert len(lived(script)) == launch


def test_no_process_of_a_launch_runs_beside_the_next(script: Path) -> None:
    left = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); stop()"
    alone = (
        "import psutil; kin = [p for p in psutil.process_iter() if os.getsid(p.pid) == os.getsid(0)"
        " and p.status() != 'zombie']; sys.exit(len(kin))"
    )
    program = started(script, left, alone, "sys.exit(9)", following=SMALL)
    assert program.wait(SECONDS) == 9  # the program counts two: supervisor and itself
    assert program.launch.why == "the program ended with exit code 2"


def kill_supervisor(program: ProgramProcess) -> None:
    assert program._child is not None
    program._child.kill()
    program._child.wait()


LONG = "time.sleep(600)"
WAITS = "while not (folder / 'go').exists(): time.sleep(0.02)\n"


@pytest.mark.parametrize("when", ["before the stop", "during the stop", "after the stop"])
@pytest.mark.parametrize("killed", [False, True])
def test_another_supervisor_replaces_a_killed_one(script: Path, when: str, *, killed: bool) -> None:
    """At any moment of the kill, one launch follows, with the requested settings."""
    last = "os.kill(os.getpid(), 9)" if killed else "sys.exit(0)"
    first = {
        "before the stop": f"{WAITS}stop(); {last}",
        "during the stop": f"stop()\n{WAITS}{last}",
        "after the stop": f"stop(); (folder / 'left').touch(); {last}",
    }[when]
    program = started(script, first, f"ready(); {LONG}", following=SMALL)
    if when == "after the stop":
        os.kill(program.record.supervisor, signal.SIGSTOP)
        _await(program.folder / "left")
    if when == "during the stop":
        _await(program.folder / STOPPING_FILE)
    kill_supervisor(program)
    later = ProgramProcess.find(program.folder)
    assert later.ensure_supervised()
    assert not later.ensure_supervised()
    assert later.exit_code() is None
    (program.folder / "go").touch()
    _await(program.folder / READY_FILE)
    assert lived(script) == [(1, ""), (2, "small")]
    assert not ProgramProcess.find(program.folder).ensure_supervised()
    later.send_signal(signal.SIGTERM)
    assert later.wait(SECONDS) == 143


def test_a_second_supervisor_takes_back_a_launch_on_trial(script: Path) -> None:
    program = started(script, "stop()", f"ready()\n{WAITS}sys.exit(3)", f"ready(); {LONG}", following=SMALL)
    _await(program.folder / READY_FILE)
    kill_supervisor(program)
    assert program.ensure_supervised()
    (program.folder / "go").touch()
    _await_launch(program, 3)
    _await(program.folder / READY_FILE)
    assert lived(script) == [(1, ""), (2, "small"), (3, "")]
    assert program.launch.why == "the program ended while it had no supervisor"
    program.kill()


def test_the_next_launch_starts_once_after_a_kill_between_two_launches(script: Path) -> None:
    """The supervisor had written launch.json and nothing else."""
    program = started(script, LONG, f"ready(); {LONG}", following=SMALL)
    record = program.record
    _await(script.parent / "log")
    while not lived(script):
        time.sleep(0.02)
    os.kill(record.supervisor, signal.SIGSTOP)
    os.kill(record.program, signal.SIGKILL)
    (program.folder / "launch.json").write_text(
        json.dumps(
            {"number": 2, "action": 3, "settings": {"size": "small"}, "former": {}, "within": 30.0, "trial": 30.0}
        )
    )
    kill_supervisor(program)
    assert program.ensure_supervised()
    _await(program.folder / READY_FILE)
    assert lived(script) == [(1, ""), (2, "small")]
    assert program.launch.former == {}
    program.kill()


def test_a_kill_right_after_the_request_counts_as_a_stop(script: Path) -> None:
    program = started(script, "os.kill(os.getpid(), 9)", "sys.exit(0)", following=SMALL)
    assert program.wait(SECONDS) == 0
    assert lived(script) == [(1, ""), (2, "small")]


def test_a_kill_after_the_request_was_withdrawn_ends_the_program(script: Path) -> None:
    """The controller removes the settings of a program that cannot be relaunched."""
    program = started(script, f"{WAITS}os.kill(os.getpid(), 9)", "sys.exit(0)", following=SMALL)
    program.remove_next_launch()
    (program.folder / "go").touch()
    assert program.wait(SECONDS) == 137
    assert lived(script) == [(1, "")]


def test_old_settings_are_no_request(script: Path) -> None:
    program = started(script, f"{WAITS}os.kill(os.getpid(), 9)", "sys.exit(0)", following=SMALL)
    os.utime(program.folder / NEXT_FILE, (1.0, 1.0))
    (program.folder / "go").touch()
    assert program.wait(SECONDS) == 137
    assert lived(script) == [(1, "")]


@pytest.mark.parametrize(("last", "code", "launches"), [("sys.exit(0)", 0, 4), ("os.kill(os.getpid(), 9)", 137, 5)])
def test_a_launch_that_is_killed_on_its_way_back_is_tried_again(
    script: Path, last: str, code: int, launches: int
) -> None:
    """At most three times: a program that is always killed has another problem than its sizes."""
    kill = "os.kill(os.getpid(), 9)"
    program = started(script, "stop()", "sys.exit(1)", kill, last, last, following=SMALL)
    assert program.wait(SECONDS) == code
    assert lived(script) == [(1, ""), (2, "small"), *((number, "") for number in range(3, launches + 1))]
    assert program.launch.why == "the program ended with exit code 1"


def test_batches_of_a_launch_do_not_count_for_the_next(script: Path) -> None:
    """A second relaunch does not count as ready because of the first."""
    again = "(folder / 'next.json').write_text(json.dumps({'action': 4, 'settings': {}, 'within': 30., 'trial': 30.}))"
    program = started(
        script, "stop()", f"ready(); {again}; stop()", "sys.exit((folder / 'ready.json').exists())", following=SMALL
    )
    assert program.wait(SECONDS) == 0


def test_a_later_controller_reads_the_result_of_a_relaunch(script: Path) -> None:
    program = started(script, "stop()", "ready(); time.sleep(600)", following=SMALL)
    _await(program.folder / READY_FILE)
    later = ProgramProcess.find(program.folder)
    assert later.arrived() == 7.0
    assert later.launch.action == 3
    assert later.exit_code() is None
    assert later.record.program == json.loads((script.parent / "log").read_text().splitlines()[-1])[2]
    program.kill()


def _await(sign: Path) -> None:
    until = time.monotonic() + SECONDS
    while not sign.exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def _await_launch(program: ProgramProcess, number: int) -> None:
    until = time.monotonic() + SECONDS
    while program.launch.number != number or program.record.launch != number:
        assert time.monotonic() < until
        time.sleep(0.02)
