"""A real InfluxDB for the tests, from `scripts/influxdb.sh`: started, killed and started again at will."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from itertools import count
from pathlib import Path

import pytest

from autotrascale.monitor.stores.influx_store import InfluxStore

SCRIPT = Path(__file__).parents[2] / "scripts" / "influxdb.sh"
PASSWORD = "opensesame"
TOKEN = f"admin:{PASSWORD}"

_databases = count()


class Influxd:
    """An InfluxDB server on loopback. Its port and its data outlive a kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "influxd.log").open("ab") as log:
            command = [str(SCRIPT), "run", str(self.port), str(self.folder / "data")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._await()
        self._ask(f"CREATE USER admin WITH PASSWORD '{PASSWORD}' WITH ALL PRIVILEGES")

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL, as when the machine loses its power."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def bucket(self) -> str:
        """A new, empty one."""
        database = f"test{next(_databases)}"
        self._ask(f"CREATE DATABASE {database}")
        return f"{database}/autogen"

    def store(self, bucket: str, token: str = TOKEN) -> InfluxStore:
        return InfluxStore(self.url, bucket, token=token, timeout_seconds=10)

    def _await(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if not self.alive:
                break
            try:
                with urllib.request.urlopen(f"{self.url}/ping", timeout=1):
                    return
            except OSError:
                time.sleep(0.05)
        log = (self.folder / "influxd.log").read_text(errors="replace")
        raise RuntimeError(f"influxd did not come up: {log[-2000:]}")

    def _ask(self, statement: str) -> None:
        body = urllib.parse.urlencode({"q": statement}).encode()
        credentials = base64.b64encode(TOKEN.encode()).decode()
        request = urllib.request.Request(f"{self.url}/query", body, {"Authorization": f"Basic {credentials}"})
        with urllib.request.urlopen(request, timeout=10) as response:
            answer = response.read().decode()  # 200 says nothing: the error is in here
        if "error" in answer:
            raise RuntimeError(f"influxd refused {statement.split()[:2]}: {answer}")


def started(folder: Path) -> Influxd:
    """A running server, or a skipped test that says why; where CI is true, a failed one."""
    built = subprocess.run([SCRIPT, "build"], capture_output=True, text=True, check=False)
    if built.returncode:
        reason = built.stderr.strip().splitlines()[-1]
        if os.environ.get("CI") == "true":
            pytest.fail(f"no InfluxDB, and CI must not pass without: {reason}")
        pytest.skip(f"no InfluxDB to test with: {reason}")
    server = Influxd(folder)
    server.start()
    return server


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
