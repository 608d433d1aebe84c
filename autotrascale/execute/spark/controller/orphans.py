"""Processes that a killed supervisor leaves behind: the program, which has no parent any more, and its session."""

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
from autotrascale.execute.spark.common.program_records import belongs_to_program

_POLL_SECONDS = 0.2
_KILL_ROUNDS = 5


class OrphanedProgram:
    """A program without a parent, with the interface of `subprocess.Popen`.

    Only a parent learns the exit code. So an orphan that has ended counts as killed.
    """

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


def end_session(session: int, folder: Path, seconds: float) -> None:
    """Wait up to `seconds` for the session of a program to end, then kill the rest, new children too."""
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
    """Yield the program's processes in the session, without this process."""
    # All processes in the session of this supervisor belong to the program.
    is_ours = session == os.getsid(0)
    for each in session_members(session):
        if each.pid != os.getpid() and (is_ours or belongs_to_program(each.pid, folder)):
            yield each
