"""A real `autotrascale serve` on loopback, in a process that tests can kill."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

PATIENCE = 90.0


class Server:
    """A server that can be started again on the same store."""

    def __init__(self, folder: Path, configs: Path, *options: str) -> None:
        self.store, self.log = f"sqlite:///{folder / 'mlflow.db'}", folder / "log"
        self._command = [
            sys.executable,
            "-c",
            "from autotrascale.cli.main import main; main()",
            "serve",
            "--configs",
            str(configs),
            "--store",
            self.store,
            "--port",
            "0",
            "--name",
            "e2e",
            *options,
        ]
        self.process: subprocess.Popen[bytes] | None = None
        self.client = httpx.Client()

    def start(self) -> httpx.Client:
        begin = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stderr=log, start_new_session=True)
        found = wait_for(lambda: re.search(r"listening on (http://\S+)", self.log.read_text()[begin:]), self.alive)
        self.client.close()
        self.client = httpx.Client(base_url=found[1], timeout=30.0)
        return self.client

    def alive(self) -> None:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-3000:]

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def workers(self) -> list[psutil.Process]:
        """Return every process that works on this store, also of earlier servers."""
        found = []
        for each in psutil.process_iter(["cmdline"]):
            words = each.info["cmdline"] or []
            if "autotrascale.app.run_queue.worker" in words and self.store in words:
                found.append(each)
        return found

    def end(self, how: int = signal.SIGTERM) -> int:
        assert self.process is not None
        os.kill(self.process.pid, how)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        self.client.close()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for each in self.workers():
            each.kill()


@contextmanager
def server(folder: Path, configs: Path, *options: str) -> Iterator[Server]:
    made = Server(folder, configs, *options)
    try:
        yield made
    finally:
        made.close()


def wait_for(found: Callable[[], Any], check: Callable[[], None] = lambda: None, seconds: float = PATIENCE) -> Any:
    until = time.monotonic() + seconds
    while not (value := found()):
        check()
        assert time.monotonic() < until, "it does not come about"
        time.sleep(0.05)
    return value
