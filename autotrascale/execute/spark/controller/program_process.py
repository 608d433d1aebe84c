"""The controller's side of a program: it is started, found again, told of signals, and asked how it ended.

It runs in a session of its own, so that neither Ctrl-C in our terminal nor our death reaches it unless we pass it on.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

import psutil

from autotrascale import validation
from autotrascale.atomic_files import write_atomically
from autotrascale.domain.errors import EngineError, InputError
from autotrascale.execute.spark.common.launches import Launch, LaunchReady, NextLaunch
from autotrascale.execute.spark.common.processes import kill_session
from autotrascale.execute.spark.controller.agent_client import AgentAwayError, AgentClient
from autotrascale.execute.spark.controller.program_command import DRIVER, ProgramCommand, derive_program_name
from autotrascale.execute.spark.controller.supervisor import (
    EXIT_FILE,
    LAUNCH_FILE,
    NEXT_FILE,
    PROGRAM_FILE,
    PYTHON_FILE,
    READY_FILE,
    STOP_FILE,
    shell_exit_code,
)
from autotrascale.execute.spark.protocol.agent_address import (
    APPLY_VARIABLE,
    EXECUTORS_VARIABLE,
    FOLDER_VARIABLE,
    MEMORY_METRICS_VARIABLE,
    RESCALE_VARIABLE,
)
from autotrascale.plan.migration.rescale_mode import RescaleMode

_KEEPER = (sys.executable, "-m", "autotrascale.execute.spark.controller.supervisor")
_STARTED = "started.json"
_STARTED_SECONDS = 20.0
_POLL_SECONDS = 0.05
_STDERR = 2


@dataclass(frozen=True)
class ProgramRecord:
    """What its keeper wrote down, or the program itself that attached us. Both are process ids; `began`: of a program
    without a keeper, when its process did. `program` is this `life`, and all that belongs to it is in one `session`."""

    keeper: int
    program: int
    command: tuple[str, ...]
    began: float = 0.0
    session: int = 0
    life: int = 1


@dataclass(frozen=True)
class LaunchEnvironment:
    """Where, and with what of ours in its environment: so it is started again by whoever comes later."""

    directory: str
    environment: Mapping[str, str]


@dataclass(frozen=True)
class PythonRecord:
    """The process that runs the program's own code: spark-submit starts another for it."""

    pid: int


@dataclass(frozen=True)
class ExitRecord:
    code: int


class ProgramProcess:
    """`start` it or `find` it; both give the same."""

    def __init__(
        self, folder: Path, note: ProgramRecord, child: subprocess.Popen[bytes] | None = None, stdout: int | None = None
    ) -> None:
        self.folder, self._note = folder, note
        self._child, self._stdout = child, stdout

    @classmethod
    def start(
        cls,
        command: ProgramCommand,
        folder: Path,
        *,
        apply: bool,
        executors: tuple[int, int] | None = None,
        rescale: RescaleMode = "in-place",
        environment: Mapping[str, str] | None = None,
        all_to_stderr: bool = False,
        measured: bool = False,
    ) -> ProgramProcess:
        """Its output goes where ours goes; `all_to_stderr`: our stdout is kept for what we answer; `measured`: what its
        executors use of their memory is told."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        if (folder / PROGRAM_FILE).exists():
            remedy = "take an empty folder, or find the program that is there"
            raise InputError("folder", "is another program's", seen=str(folder), remedy=remedy)
        stdout = _STDERR if all_to_stderr else None
        ours = _ours(command, folder, apply, executors, rescale, environment, measured=measured)
        write_atomically(folder / _STARTED, json.dumps(asdict(LaunchEnvironment(os.getcwd(), ours))))
        child = subprocess.Popen(
            [*_KEEPER, str(folder), *command.adopted(sys.executable)],
            env={**(os.environ if environment is None else environment), **ours},
            stdout=stdout,
            start_new_session=True,
        )
        until = time.monotonic() + _STARTED_SECONDS
        while not (folder / PROGRAM_FILE).exists():
            if child.poll() is not None or time.monotonic() > until:
                kill_session(child.pid)
                child.wait()
                raise EngineError(f"{command.launcher or sys.executable} could not be started")
            time.sleep(_POLL_SECONDS)
        return cls(folder, validation.read_file(folder / PROGRAM_FILE, ProgramRecord), child, stdout)

    @classmethod
    def find(cls, folder: Path) -> ProgramProcess:
        """One that an earlier controller started. It may have ended meanwhile."""
        if not (folder / PROGRAM_FILE).exists():
            raise InputError("folder", "has no program", seen=str(folder), remedy="name the folder that it was given")
        return cls(folder, validation.read_file(folder / PROGRAM_FILE, ProgramRecord))

    @property
    def note(self) -> ProgramRecord:
        """Of its present life, if it has a keeper."""
        path = self.folder / PROGRAM_FILE
        return validation.read_file(path, ProgramRecord) if not self._note.began and path.exists() else self._note

    @property
    def life(self) -> Launch:
        return read_launch(self.folder)

    def arrived(self) -> float | None:
        """When the first batches of the present life were done; None of the first life."""
        path = self.folder / READY_FILE
        return validation.read_file(path, LaunchReady).at if path.exists() else None

    def prepare(self, following: NextLaunch) -> None:
        """Before it is asked to leave. It has no effect as long as nobody does."""
        write_atomically(self.folder / NEXT_FILE, json.dumps(asdict(following)))

    def withdraw(self) -> None:
        (self.folder / NEXT_FILE).unlink(missing_ok=True)

    @property
    def name(self) -> str:
        """That of its file, or of its module."""
        words = self.note.command
        return derive_program_name(words[words.index(str(DRIVER)) + 1 if str(DRIVER) in words else 0 :])

    def client(self, seconds: float) -> AgentClient:
        """To its agent, which is there as soon as its Python is. Raises where the program ends before."""
        client, until = AgentClient(self.folder), time.monotonic() + seconds
        try:
            while not self._answers(client):
                if (code := self.exit_code()) is not None:
                    raise EngineError(f"the program ended with exit code {code} before it could be adopted")
                if time.monotonic() > until:
                    raise AgentAwayError(f"the program did not open its agent within {seconds:.0f} s")
                time.sleep(_POLL_SECONDS)
        except BaseException:
            client.close()
            raise
        return client

    def exit_code(self) -> int | None:
        """As a shell says it; None while it runs. A keeper that was killed takes the code with it: 1 stands for it."""
        if self._child is not None:
            self._child.poll()
        ended = self.folder / EXIT_FILE
        if ended.exists():
            return shell_exit_code(validation.read_file(ended, ExitRecord).code)
        return None if self._keeper_lives() or self._program_lives() else 1

    def ensure_supervised(self) -> bool:
        """A keeper that was killed has another one take its place, which finds in the folder what it was about: also
        where the program has ended to make room for its next life. Whether that was so."""
        if self._note.began or self._keeper_lives() or (self.folder / EXIT_FILE).exists():  # it says so before it goes
            return False
        note, path = self.note, self.folder / _STARTED
        started = (
            validation.read_file(path, LaunchEnvironment)
            if path.exists()
            else LaunchEnvironment("", {FOLDER_VARIABLE: str(self.folder)})
        )
        self._child = subprocess.Popen(
            [*_KEEPER, str(self.folder)],
            cwd=started.directory or None,
            env={**(self._environment() or os.environ), **started.environment},
            stdout=self._stdout,
            start_new_session=True,
        )
        until = time.monotonic() + _STARTED_SECONDS
        while self.note.keeper == note.keeper and self._child.poll() is None and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        return True

    def wait(self, seconds: float | None = None) -> int | None:
        until = None if seconds is None else time.monotonic() + seconds
        while (code := self.exit_code()) is None:
            if until is not None and time.monotonic() > until:
                return None
            time.sleep(_POLL_SECONDS)
        if self._child is not None:
            self._child.wait()
        return code

    def send(self, number: int) -> None:
        """To the program itself, as Ctrl-C or a supervisor would. Ctrl-C is Python's to answer: spark-submit, whose JVM
        would be gone before the program knew, ends with it. It has no other life after it."""
        if not self._note.began:
            write_atomically(self.folder / STOP_FILE, json.dumps({"signal": number}))
        pid = (self._python() if number == signal.SIGINT else None) or self.note.program
        with contextlib.suppress(ProcessLookupError):
            if self._is_of_it(pid):
                os.kill(pid, number)

    @contextlib.contextmanager
    def forward_signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM are the program's to decide on; we go when it goes."""

        def pass_on(number: int, _: FrameType | None) -> None:
            self.send(number)

        before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def kill(self) -> None:
        """With everything that it started."""
        note = self.note
        for session in {note.keeper, note.session or note.keeper}:
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

    def _python(self) -> int | None:
        """None before it has come so far, and when it is gone."""
        path = self.folder / PYTHON_FILE
        pid = validation.read_file(path, PythonRecord).pid if path.exists() else None
        return pid if pid is not None and self._is_of_it(pid) else None

    def _environment(self) -> dict[str, str]:
        """The program's own, as long as it lives: whoever comes later may have another."""
        with contextlib.suppress(psutil.Error, OSError):
            if self._program_lives():
                return dict(psutil.Process(self.note.program).environ())
        return {}

    def _keeper_lives(self) -> bool:
        return self._child.poll() is None if self._child is not None else self._is_of_it(self.note.keeper)

    def _program_lives(self) -> bool:
        return self._is_of_it(self.note.program)

    def _is_of_it(self, pid: int) -> bool:
        """A number may be another process's by now; ours carry the name of the folder."""
        with contextlib.suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            if self.note.began:
                return bool(process.create_time() == self.note.began)
            named = process.environ().get(FOLDER_VARIABLE)
            return bool(process.status() != psutil.STATUS_ZOMBIE and named == str(self.folder))
        return False


def read_launch(folder: Path) -> Launch:
    path = folder / LAUNCH_FILE
    return validation.read_file(path, Launch) if path.exists() else Launch()


def _ours(
    command: ProgramCommand,
    folder: Path,
    apply: bool,
    executors: tuple[int, int] | None,
    rescale: RescaleMode,
    environment: Mapping[str, str] | None,
    *,
    measured: bool,
) -> dict[str, str]:
    """What is in its environment beside what was there."""
    given = os.environ if environment is None else environment
    workers = {"PYSPARK_PYTHON": sys.executable}  # like the driver, where it was us who chose that
    chosen = workers if command.kind == "python" and not command.launcher and "PYSPARK_PYTHON" not in given else {}
    bounds = {} if executors is None else {EXECUTORS_VARIABLE: f"{executors[0]}:{executors[1]}"}
    flags = {APPLY_VARIABLE: "1" if apply else "0", MEMORY_METRICS_VARIABLE: "1" if measured else "0"}
    return {**chosen, **bounds, **flags, FOLDER_VARIABLE: str(folder), RESCALE_VARIABLE: rescale}
