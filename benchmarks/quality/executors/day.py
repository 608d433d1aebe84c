"""A day compressed into minutes: a schedule of records, their latencies, and the expected counts."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from autotrascale.execute.simulator import rate_functions
from benchmarks.quality.executors.program import CUSTOMERS

_EVERY = 0.25  # seconds between two files


@dataclass(frozen=True)
class Day:
    """A rate that rises from `low` to `high` records per second and falls back, in `seconds`."""

    seconds: float
    low: float
    high: float
    wait_ms: int  # service time of a record
    seed: int = 0

    def rate(self, at: float) -> float:
        """Return the rate at a second of the day. Before and after the day the rate is that of the night."""
        swing = rate_functions.Sine((self.low + self.high) / 2, (self.high - self.low) / 2)
        at = min(max(at, 0.0), self.seconds)
        return rate_functions.Noisy(swing, 0.05, self.seed, interval=300.0)(at / self.seconds * rate_functions.DAY)


class Feeder:
    """A thread that writes files of records, each with its due time: at the night's rate until the day begins."""

    def __init__(self, folder: Path, day: Day) -> None:
        folder.mkdir(parents=True)
        self._folder, self._day = folder, day
        self._over = threading.Event()
        self.records = 0
        self.began: float | None = None  # Unix time at which the day began
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def begin_day(self) -> float:
        self.began = time.time()
        return self.began

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _feed(self) -> None:
        due, until = 0.0, time.time()
        while True:
            until += _EVERY
            if self._over.wait(max(0.0, until - time.time())):
                return
            middle = until - _EVERY / 2
            due += self._day.rate(0.0 if self.began is None else middle - self.began) * _EVERY
            self._write_file(int(due), middle)
            due -= int(due)

    def _write_file(self, count: int, arrival: float) -> None:
        draft = self._folder / f".{self.records}.part"
        rows = (f'{{"n":{self.records + i},"arrival":{arrival:.3f}}}\n' for i in range(count))
        draft.write_text("".join(rows))
        draft.rename(self._folder / f"{self.records}-{count}.json")
        self.records += count


@dataclass(frozen=True)
class Batch:
    """A batch of the program. `first` and `last`: arrival of its first and its last record."""

    ended: float
    seconds: float
    records: int
    first: float
    last: float

    def within(self, begin: float, end: float) -> tuple[float, float]:
        """Return the records that arrived between two times, and their mean latency, for even arrivals."""
        low, high = max(begin, self.first), min(end, self.last)
        if high < low:
            return 0.0, 0.0
        width = self.last - self.first
        share = (high - low) / width if width else 1.0
        return self.records * share, self.ended - (low + high) / 2


def batches(progress: Path) -> list[Batch]:
    """Read the batches that the program reported."""
    found = []
    for line in progress.read_text().splitlines() if progress.exists() else []:
        report: dict[str, Any] = json.loads(line)
        arrivals = report.get("observedMetrics", {}).get("arrivals", {})
        if arrivals.get("mean") is not None:
            took = report["durationMs"]["triggerExecution"] / 1000
            ended = _unix(report["timestamp"]) + took
            found.append(Batch(ended, took, int(report["numInputRows"]), arrivals["first"], arrivals["last"]))
    return found


def latencies(found: Sequence[Batch], began: float, seconds: float, width: float) -> list[float | None]:
    """Return the mean latency of the arrivals in each window of `width` seconds; None without reported arrivals."""
    starts = (began + number * width for number in range(int(seconds / width)))
    return [_mean(each.within(start, start + width) for each in found) for start in starts]


def mean_latency(found: Sequence[Batch], began: float, seconds: float) -> float | None:
    return _mean(each.within(began, began + seconds) for each in found)


def _mean(parts: Iterable[tuple[float, float]]) -> float | None:
    known = [part for part in parts if part[0]]
    records = sum(count for count, _ in known)
    return sum(count * latency for count, latency in known) / records if records else None


def count_differences(found: Counter[int], records: int) -> tuple[int, int]:
    """Return the numbers of missing and of doubled records."""
    expected = Counter(number % CUSTOMERS for number in range(records))
    return (expected - found).total(), (found - expected).total()


def _unix(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()
