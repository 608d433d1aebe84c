"""The processes of the runs under way. None outlives the server: each hangs on a pipe to it (see `worker`)."""

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

GRACE_SECONDS = 25.0  # a little more than a worker gives itself


@dataclass(frozen=True)
class WorkerProcess:
    """It leads a session of its own, so that Ctrl-C in a terminal reaches the server alone."""

    run_id: str
    job: str
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, store: MlflowStore, run_id: str, job: str) -> WorkerProcess:
        """Whoever lists processes sees where the store is. Its address may hold a password, and goes by the pipe."""
        command = [sys.executable, "-m", "autotrascale.app.run_queue.worker", store.where, run_id]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )  # stderr is the server's own
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is found dead soon enough
            process.stdin.write(store.uri.encode() + b"\n")
            process.stdin.flush()
        return cls(run_id, job, process)

    @property
    def pid(self) -> int:
        return self.process.pid

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.process.poll()

    def hang_up(self) -> None:
        """It keeps its last evaluation and ends."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self.hang_up()  # nobody is there, but the pipe is ours still


def stop_workers(children: Iterable[WorkerProcess], seconds: float = GRACE_SECONDS) -> None:
    """All of them, cleanly where they manage in time."""
    children = list(children)
    for child in children:
        child.hang_up()
    until = time.monotonic() + seconds
    for child in children:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(max(0.0, until - time.monotonic()))
        child.kill()
