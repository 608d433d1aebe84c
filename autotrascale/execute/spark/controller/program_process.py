"""The controller's handle of a program: start it, find it again, send it signals, ask how it ended.

A program and its supervisor run in a session of their own. Neither Ctrl-C in the controller's terminal nor the
controller's death reaches them, unless the controller passes a signal on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import FrameType

import psutil

from autotrascale.domain.errors import EngineError, InputError
from autotrascale.execute.spark.common.launches import Launch, NextLaunch
from autotrascale.execute.spark.common.processes import kill_session
from autotrascale.execute.spark.common.program_environment import FOLDER_VARIABLE, ProgramOptions
from autotrascale.execute.spark.common.program_folder import (
    EXIT_FILE,
    NEXT_FILE,
    PROGRAM_FILE,
    PYTHON_FILE,
    READY_FILE,
    SIGNAL_FILE,
    STARTED_FILE,
    read_json,
    write_json,
)
from autotrascale.execute.spark.common.program_records import (
    ProgramRecord,
    belongs_to_program,
    read_launch,
    read_program,
)
from autotrascale.execute.spark.controller.agent_client import AgentAwayError, AgentClient
from autotrascale.execute.spark.controller.program_command import DRIVER, ProgramCommand, derive_program_name
from autotrascale.execute.spark.controller.supervisor import shell_exit_code

_SUPERVISOR = (sys.executable, "-m", "autotrascale.execute.spark.controller.supervisor")
_START_SECONDS = 20.0
_POLL_SECONDS = 0.05
_STDERR = 2


class ProgramProcess:
    """A program with its supervisor, whether this controller started it or an earlier one did.

    Create it with `start` or `find`.
    """

    def __init__(
        self,
        folder: Path,
        record: ProgramRecord,
        child: subprocess.Popen[bytes] | None = None,
        stdout: int | None = None,
    ) -> None:
        self.folder, self._record = folder, record
        self._child, self._stdout = child, stdout

    @classmethod
    def start(
        cls,
        command: ProgramCommand,
        folder: Path,
        options: ProgramOptions,
        *,
        environment: Mapping[str, str] | None = None,
        all_to_stderr: bool = False,
    ) -> ProgramProcess:
        """Start the program under a supervisor.

        Args:
            command: the program and its arguments
            folder: created for the program; it must not hold another program
            options: permissions of AuTraScale in the program
            environment: of the program; default: a copy of ours
            all_to_stderr: write the program's stdout to our stderr, because our stdout is for our own answer

        Raises `InputError` if the folder holds a program, `EngineError` if the command cannot be started.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        if (folder / PROGRAM_FILE).exists():
            raise InputError("folder", "holds another program", seen=str(folder), remedy="name an empty folder")
        stdout = _STDERR if all_to_stderr else None
        inherited = os.environ if environment is None else environment
        added = {**_worker_python(command, inherited), **options.to_environment(), FOLDER_VARIABLE: str(folder)}
        write_json(folder / STARTED_FILE, {"directory": os.getcwd(), "environment": added})
        child = subprocess.Popen(
            [*_SUPERVISOR, str(folder), *command.with_driver(sys.executable)],
            env={**inherited, **added},
            stdout=stdout,
            start_new_session=True,
        )
        until = time.monotonic() + _START_SECONDS
        while not (folder / PROGRAM_FILE).exists():
            if child.poll() is not None or time.monotonic() > until:
                kill_session(child.pid)
                child.wait()
                raise EngineError(f"{command.launcher or sys.executable} could not be started")
            time.sleep(_POLL_SECONDS)
        return cls(folder, read_program(folder), child, stdout)

    @classmethod
    def find(cls, folder: Path) -> ProgramProcess:
        """Return the program that an earlier controller started in `folder`. It may have ended since."""
        if not (folder / PROGRAM_FILE).exists():
            remedy = "name the folder that `autotrascale run` printed for the program"
            raise InputError("folder", "holds no program", seen=str(folder), remedy=remedy)
        return cls(folder, read_program(folder))

    @property
    def record(self) -> ProgramRecord:
        """Process ids of the present launch."""
        if self._record.is_attached or not (self.folder / PROGRAM_FILE).exists():
            return self._record
        return read_program(self.folder)

    @property
    def launch(self) -> Launch:
        """The present launch and its settings."""
        return read_launch(self.folder)

    def arrived(self) -> float | None:
        """Return the Unix time at which the first batches of a relaunch were done, or None."""
        found = read_json(self.folder / READY_FILE)
        return None if found is None else float(found["at"])

    def write_next_launch(self, launch: NextLaunch) -> None:
        """Write the settings of the next launch. They take effect when the driver is asked to stop."""
        write_json(self.folder / NEXT_FILE, asdict(launch))

    def remove_next_launch(self) -> None:
        (self.folder / NEXT_FILE).unlink(missing_ok=True)

    @property
    def name(self) -> str:
        """Name of the program's file or module."""
        words = self.record.command
        return derive_program_name(words[words.index(str(DRIVER)) + 1 if str(DRIVER) in words else 0 :])

    def client(self, seconds: float) -> AgentClient:
        """Return a client of the agent in the program's driver, which answers as soon as its Python has started.

        Raises `EngineError` if the program ends first, `AgentAwayError` after `seconds`.
        """
        client, until = AgentClient(self.folder), time.monotonic() + seconds
        try:
            while not self._answers(client):
                if (code := self.exit_code()) is not None:
                    raise EngineError(f"the program ended with exit code {code} before AuTraScale could observe it")
                if time.monotonic() > until:
                    raise AgentAwayError(f"the program did not open its agent within {seconds:.0f} s")
                time.sleep(_POLL_SECONDS)
        except BaseException:
            client.close()
            raise
        return client

    def exit_code(self) -> int | None:
        """Return the exit code as a shell reports it, or None while the program runs.

        The code is 1 if the supervisor was killed before it could write the code down.
        """
        if self._child is not None:
            self._child.poll()
        if (found := read_json(self.folder / EXIT_FILE)) is not None:
            return shell_exit_code(int(found["code"]))
        return None if self._supervisor_lives() or self._program_lives() else 1

    def ensure_supervised(self) -> bool:
        """Start a new supervisor if the former supervisor was killed, and return whether that was needed.

        The new supervisor reads in the folder how far the former one had come.
        """
        # A supervisor writes exit.json before it ends.
        if self._record.is_attached or self._supervisor_lives() or (self.folder / EXIT_FILE).exists():
            return False
        former = self.record
        started = read_json(self.folder / STARTED_FILE) or {"environment": {FOLDER_VARIABLE: str(self.folder)}}
        self._child = subprocess.Popen(
            [*_SUPERVISOR, str(self.folder)],
            cwd=started.get("directory"),
            env={**(self._read_environment() or os.environ), **started["environment"]},
            stdout=self._stdout,
            start_new_session=True,
        )
        until = time.monotonic() + _START_SECONDS
        while self.record.supervisor == former.supervisor and self._child.poll() is None and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        return True

    def wait(self, seconds: float | None = None) -> int | None:
        """Return the exit code, or None if the program still runs after `seconds`. None waits without a limit."""
        until = None if seconds is None else time.monotonic() + seconds
        while (code := self.exit_code()) is None:
            if until is not None and time.monotonic() > until:
                return None
            time.sleep(_POLL_SECONDS)
        if self._child is not None:
            self._child.wait()
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal to the program, after which no launch follows.

        SIGINT goes to the program's Python: spark-submit ends when that Python ends, but a spark-submit that gets the
        signal itself would take the JVM away from a program that still needs it.
        """
        if not self._record.is_attached:
            write_json(self.folder / SIGNAL_FILE, {"signal": number})
        pid = (self._find_python() if number == signal.SIGINT else None) or self.record.program
        with contextlib.suppress(ProcessLookupError):
            if self._is_alive(pid):
                os.kill(pid, number)

    @contextlib.contextmanager
    def forward_signals(self) -> Iterator[None]:
        """Pass SIGINT and SIGTERM on to the program, which decides whether it ends. The controller ends after it."""

        def forward(number: int, _: FrameType | None) -> None:
            self.send_signal(number)

        before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def kill(self) -> None:
        """Kill the program, its supervisor and every process that they started."""
        record = self.record
        for session in {record.supervisor, record.session or record.supervisor}:
            kill_session(session)
        if self._child is not None:
            self._child.wait()

    @staticmethod
    def _answers(client: AgentClient) -> bool:
        try:
            client.application()
        except AgentAwayError:
            return False
        return True

    def _find_python(self) -> int | None:
        """Return the process that runs the program's code; spark-submit starts it as a child."""
        found = read_json(self.folder / PYTHON_FILE)
        return int(found["pid"]) if found is not None and self._is_alive(int(found["pid"])) else None

    def _read_environment(self) -> dict[str, str]:
        """Return the environment of the running program. A later controller may have another environment."""
        with contextlib.suppress(psutil.Error, OSError):
            if self._program_lives():
                return dict(psutil.Process(self.record.program).environ())
        return {}

    def _supervisor_lives(self) -> bool:
        return self._child.poll() is None if self._child is not None else self._is_alive(self.record.supervisor)

    def _program_lives(self) -> bool:
        return self._is_alive(self.record.program)

    def _is_alive(self, pid: int) -> bool:
        if self._record.is_attached:
            with contextlib.suppress(psutil.Error):
                return bool(psutil.Process(pid).create_time() == self._record.created_at)
            return False
        return belongs_to_program(pid, self.folder)


def _worker_python(command: ProgramCommand, environment: Mapping[str, str]) -> dict[str, str]:
    """Let Python workers use the driver's Python, where AuTraScale chose it."""
    ours = command.kind == "python" and not command.launcher and "PYSPARK_PYTHON" not in environment
    return {"PYSPARK_PYTHON": sys.executable} if ours else {}
