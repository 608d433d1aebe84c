"""A Redis server for the tests, started by `scripts/redis.sh`. It can be stopped and started again."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

SCRIPT = Path(__file__).parents[2] / "scripts" / "redis.sh"


@dataclass
class RedisServer:
    """A server on a free port, another one after each start."""

    folder: Path
    url: str = ""

    def start(self) -> str:
        """Start the server. Return an empty string, or the reason why it does not run."""
        said = subprocess.run([SCRIPT, "start", self.folder], capture_output=True, text=True, check=False)
        self.url = said.stdout.strip()
        return "" if said.returncode == 0 else said.stderr.strip().splitlines()[-1]

    def stop(self) -> None:
        if self.url:
            subprocess.run([SCRIPT, "stop", self.folder], check=True)
            self.url = ""

    def empty(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.flushall()


def started(folder: Path, *, needed: bool) -> RedisServer:
    """Return a running server. Without one, skip the test, or fail if the server is needed."""
    server = RedisServer(folder)
    if reason := server.start():
        if needed:
            pytest.fail(f"no Redis, and CI must not pass without: {reason}")
        pytest.skip(f"no Redis to test with: {reason}")
    return server
