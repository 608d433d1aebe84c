"""A guard that kills executors above their memory limit, as a cluster manager does. A standalone cluster does not.

The rule is that of YARN's node manager: a container is killed when its processes hold more than its limit at two looks
in a row. The limit is the JVM's heap plus the overhead.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from autotrascale.analyze.executor_conf import BESIDE, parse_megabytes
from autotrascale.testing.standalone_cluster import StandaloneCluster

LOOK_SECONDS = 1.0
MB = 2**20


@dataclass
class Container:
    """One executor. `over` counts the looks in a row at which it was above its limit."""

    heap_mb: int
    overhead_mb: int
    over: int = 0

    @property
    def most_mb(self) -> int:
        return self.heap_mb + self.overhead_mb


@dataclass(frozen=True)
class Killed:
    """An executor that the guard killed."""

    at: float
    heap_mb: int
    overhead_mb: int
    held_mb: int


class Guard:
    """The guard of the executors of one application. `beside` is the memory overhead of executors that start now."""

    def __init__(self, cluster: StandaloneCluster, beside: Callable[[], int], clock: Callable[[], float]) -> None:
        self._cluster, self._beside, self._clock = cluster, beside, clock
        self._containers: dict[int, Container] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.killed: list[Killed] = []

    def __enter__(self) -> Guard:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            for pid in self._cluster.executors():
                with suppress(psutil.Error):
                    self._look(psutil.Process(pid))

    def _look(self, executor: psutil.Process) -> None:
        container = self._containers.get(executor.pid)
        if container is None:
            container = self._containers[executor.pid] = Container(_heap(executor), self._beside())
        tree = [executor, *executor.children(recursive=True)]
        words, held = executor.cmdline(), executor.memory_info().rss
        for each in tree[1:]:
            with suppress(psutil.Error):
                # A child of the JVM has the command line and memory of the JVM for a moment: count it once.
                held += each.memory_info().rss if each.cmdline() != words else 0
        container.over = container.over + 1 if held > container.most_mb * MB else 0
        if container.over < 2:
            return
        self.killed.append(Killed(self._clock(), container.heap_mb, container.overhead_mb, held // MB))
        for each in tree:
            with suppress(psutil.Error):
                each.kill()


def read_overhead_mb(given: dict[str, str], home: Path) -> Callable[[], int]:
    """Return the memory overhead of the present launch, or of the first command line."""

    def beside() -> int:
        settings = dict(given)
        for path in sorted(home.glob("live/*/program-*/launch.json")):
            settings |= json.loads(path.read_text(encoding="utf-8")).get("settings", {})
        return parse_megabytes(settings.get(BESIDE, "")) or 384

    return beside


def _heap(executor: psutil.Process) -> int:
    """Return the heap in MB of a JVM argument such as -Xmx512M."""
    words: list[str] = executor.cmdline()
    return next((parse_megabytes(word[4:].lower()) or 0 for word in words if word.startswith("-Xmx")), 0)
