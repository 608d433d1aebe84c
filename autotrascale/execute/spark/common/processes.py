"""The processes of a session and of an owner, and how to kill all of them.

A Spark driver, its JVM and its Python workers share one session (as of `setsid`) and one owner in their environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator

import psutil

OWNER_VARIABLE = "AUTOTRASCALE_DRIVER_OF"
"""The environment variable that names the owner of a Spark driver, inherited by all that the driver starts."""

_KILL_ROUNDS = 5


def session_members(leader: int) -> Iterator[psutil.Process]:
    """Yield each process of the session of `leader` (a process id), zombies excepted.

    Processes that moved to another process group, like Spark's Python daemon, are included.
    """
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def kill_session(leader: int, spare: int = 0) -> None:
    """Kill each process of the session except process id `spare`.

    Several rounds are needed: a daemon may fork between the listing and its death.
    """
    for _ in range(_KILL_ROUNDS):
        members = [process for process in session_members(leader) if process.pid != spare]
        if not members:
            return
        _kill(members)
        time.sleep(0.01)


def kill_leftovers(owner: str) -> None:
    """Kill all processes that an earlier driver of `owner` left.

    The JVM of a killed driver may live for some seconds and commit batches.
    """
    for _ in range(_KILL_ROUNDS):
        members = [process for process in psutil.process_iter() if _owner_of(process) == owner]
        if not members:
            return
        _kill(members)


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(signal.SIGKILL)
    psutil.wait_procs(processes, timeout=1.0)


def _owner_of(process: psutil.Process) -> str:
    with contextlib.suppress(OSError, psutil.Error):
        if process.status() != psutil.STATUS_ZOMBIE:
            return str(process.environ().get(OWNER_VARIABLE, ""))
    return ""
