"""The process of a Spark driver that runs an own job: its start, its channel, its log and its end."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from autotrascale.execute.spark.common.processes import OWNER_VARIABLE, kill_session
from autotrascale.execute.spark.protocol.channel import Channel
from autotrascale.execute.spark.protocol.own_job_messages import CODEC

_MODULE = "autotrascale.execute.spark.driver_agent.own_job_process"


class DriverProcess:
    """A running driver. It leads a session of its own, so that all processes that it starts can be found."""

    def __init__(self, log: Path, python_path: Sequence[str], owner: str = "") -> None:
        """Start the driver.

        Args:
            log: file to which the output of driver, JVM and workers is appended.
            python_path: folders to search for the job's module before the current folder.
            owner: name by which `kill_leftovers` finds the driver and all that it starts.
        """
        ours, theirs = socket.socketpair()
        self.log, self.log_from = log, log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**_make_environment(python_path), OWNER_VARIABLE: owner},
                start_new_session=True,
            )
        theirs.close()
        self.channel = Channel(ours, CODEC)
        self._ended = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return the exit code, or None while the driver runs."""
        return self._process.poll()

    def wait_for_exit_code(self, seconds: float = 2.0) -> int | None:
        """Return the exit code of a driver that closed its channel and is about to end, or None after `seconds`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.poll()

    def end(self, seconds: float = 5.0) -> None:
        """Close the channel, which ends the driver, and kill its session after `seconds`. May be called twice."""
        self.channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.0 if self._ended else seconds)
        self.kill()

    def kill(self) -> None:
        """Kill the driver and all that it started."""
        if self._ended:  # the process id may belong to another process by now
            return
        self._ended = True
        kill_session(self.pid)
        self.channel.close()
        self._process.wait()


def _make_environment(python_path: Sequence[str]) -> dict[str, str]:
    environment = dict(os.environ)
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    paths = [*python_path, os.getcwd(), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    environment["PYTHONUNBUFFERED"] = "1"
    return environment
