"""What a keeper that was killed leaves: a program that is nobody's child, and what belongs to it. A number may be
another process's by now; those of the program carry the name of its folder."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from autotrascale.execute.spark.common.processes import session_members
from autotrascale.execute.spark.protocol.agent_address import FOLDER_VARIABLE

_POLL_SECONDS = 0.2
_KILL_ROUNDS = 5


class OrphanedProgram:
    """As a child is (`subprocess.Popen`), but for its exit code, which only a parent is told: it counts as killed."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid, self._folder = pid, folder

    def poll(self) -> int | None:
        return None if belongs_to_program(self.pid, self._folder) else -signal.SIGKILL

    def wait(self, timeout: float | None = None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            time.sleep(_POLL_SECONDS)
        return code

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            if self.poll() is None:
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def belongs_to_program(pid: int, folder: Path) -> bool:
    """It lives, and is of the program with this folder."""
    with suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        return bool(process.status() != psutil.STATUS_ZOMBIE and process.environ().get(FOLDER_VARIABLE) == str(folder))
    return False


def end_session(session: int, folder: Path, seconds: float) -> None:
    """What is left of it ends within so many seconds, or is killed; and again what was born meanwhile."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and any(_members(session, folder)):
        time.sleep(_POLL_SECONDS)
    for _ in range(_KILL_ROUNDS):
        members = list(_members(session, folder))
        for process in members:
            with suppress(psutil.Error):
                process.kill()
        if not members:
            return
        psutil.wait_procs(members, timeout=1.0)


def _members(session: int, folder: Path) -> Iterator[psutil.Process]:
    """But this process itself. All of a session of our own are the program's."""
    mine = session == os.getsid(0)
    for each in session_members(session):
        if each.pid != os.getpid() and (mine or belongs_to_program(each.pid, folder)):
            yield each
