"""Worker processes of the runs under way. None outlives the server, as each ends when its pipe to the server closes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

from autotrascale.knowledge.mlflow_store import MlflowStore

GRACE_SECONDS = 25.0  # to end a run; a little more than a worker allows itself


@dataclass(frozen=True)
class WorkerProcess:
    """The process of one run. It leads a session of its own, so that Ctrl-C in a terminal reaches the server alone."""

    run_id: str
    job: str
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, store: MlflowStore, run_id: str, job: str) -> WorkerProcess:
        """Start the process. The store's address goes through the pipe, as it may hold a password that `ps` shows."""
        command = [sys.executable, "-m", "autotrascale.app.run_queue.worker", store.where, run_id]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )  # stderr is that of the server
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the supervisor will notice that the process is gone
            process.stdin.write(store.uri.encode() + b"\n")
            process.stdin.flush()
        return cls(run_id, job, process)

    @property
    def pid(self) -> int:
        return self.process.pid

    def exit_code(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        return self.process.poll()

    def hang_up(self) -> None:
        """Close the pipe: the run keeps its last trial, and the process ends."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()

    def kill(self) -> None:
        """Kill the process and its session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self.hang_up()  # closes our end of the pipe


def stop_workers(workers: Iterable[WorkerProcess], seconds: float = GRACE_SECONDS) -> None:
    """End all processes: cleanly within `seconds`, else by a kill."""
    workers = list(workers)
    for worker in workers:
        worker.hang_up()
    until = time.monotonic() + seconds
    for worker in workers:
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(max(0.0, until - time.monotonic()))
        worker.kill()
