"""Starting the host process and making sure that it, its JVM and its Python workers end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from autotrascale.execute.spark.protocol.channel import Channel
from autotrascale.execute.spark.protocol.own_job_messages import CODEC

_KILL_ROUNDS = 5
_OWNER = "AUTOTRASCALE_HOST_OF"


class DriverProcess:
    """A running host with its channel and its log. It leads a session of its own, so that no process is missed."""

    def __init__(self, log: Path, python_path: Sequence[str], owner: str = "") -> None:
        """`owner` is what `end_leftovers` knows it by, and all that it starts."""
        ours, theirs = socket.socketpair()
        self.log, self.log_from = log, log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "autotrascale.execute.spark.driver_agent.own_job_driver", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**_environment(python_path), _OWNER: owner},
                start_new_session=True,
            )
        theirs.close()
        self.channel = Channel(ours, CODEC)
        self._ended = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def exit_code_soon(self, seconds: float = 2.0) -> int | None:
        """Of a host that has hung up and is about to end."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.poll()

    def end(self, seconds: float = 5.0) -> None:
        """Hangs up, which makes it end, and kills what is left of its session after this long. Twice is fine."""
        self.channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.0 if self._ended else seconds)
        self.kill()

    def kill(self) -> None:
        if self._ended:  # its number may be somebody else's by now
            return
        self._ended = True
        kill_session(self.pid)
        self.channel.close()
        self._process.wait()


def session_members(leader: int) -> Iterator[psutil.Process]:
    """Every process of the session, also those that moved to a process group of their own, as Spark's daemon does."""
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def kill_session(leader: int, spare: int = 0) -> None:
    """SIGKILL, and again for what was born meanwhile: a daemon may fork between the listing and its death."""
    for _ in range(_KILL_ROUNDS):
        members = [process for process in session_members(leader) if process.pid != spare]
        if not members:
            return
        for process in members:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(members, timeout=1.0)
        time.sleep(0.01)


def kill_leftovers(owner: str) -> None:
    """Kills what a host of this owner has left. A JVM whose host was killed may live for some seconds, and commit."""
    for _ in range(_KILL_ROUNDS):
        members = [process for process in psutil.process_iter() if _owner(process) == owner]
        if not members:
            return
        for process in members:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(members, timeout=1.0)


def _owner(process: psutil.Process) -> str:
    with contextlib.suppress(OSError, psutil.Error):
        if process.status() != psutil.STATUS_ZOMBIE:
            return str(process.environ().get(_OWNER, ""))
    return ""


def _environment(python_path: Sequence[str]) -> dict[str, str]:
    environment = dict(os.environ)
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    paths = [*python_path, os.getcwd(), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    environment["PYTHONUNBUFFERED"] = "1"
    return environment
