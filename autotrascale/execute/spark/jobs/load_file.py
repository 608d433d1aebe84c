"""The load file: the records that each source offers over time. The controller writes it; the load generator reads it.

    symbol   meaning                                                                           unit
    ms       clock of a source; it follows the wall clock once the load has begun              ms
    n        number of records offered before ms                                               records

A query is primed first: a few small batches that are not measured, while code is compiled and Python workers start.
The controller allows each priming batch. Then the load begins and waits for nothing: a slow job finds a backlog.

A change of the load appends a segment, so offsets that Spark already has keep their meaning.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotrascale.atomic_files import write_atomically
from autotrascale.execute.spark.jobs.rate_schedule import (
    RateSchedule,
    constant_schedule,
    schedule_from_dict,
    schedule_to_dict,
)

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Segment:
    """Records follow `schedule` from `since_ms` on, where its second 0 is; `before` records came earlier."""

    since_ms: int
    before: int
    schedule: RateSchedule


@dataclass(frozen=True)
class SourceLoad:
    """The load of one source.

    `started_ms` is the Unix time of ms = 0, and None while the query is primed. `limit_ms` is the last moment that is
    offered, while the query is primed and while the load is held.
    """

    segments: tuple[Segment, ...]
    step_ms: int = 50
    started_ms: int | None = None
    limit_ms: int | None = None

    @classmethod
    def priming(cls, rate: float, batches: int, least: int) -> SourceLoad:
        """Return a load of `batches` small batches at `rate` with at least `least` records each.

        Each task needs at least one record to get warm.
        """
        at_least = max(rate, least * 1000 / cls.step_ms)
        return cls((Segment(0, 0, constant_schedule(at_least)),), limit_ms=batches * cls.step_ms)

    def primed_further(self) -> SourceLoad:
        """Return the load with one more priming batch allowed."""
        return replace(self, limit_ms=(self.limit_ms or 0) + self.step_ms)

    def begun(self, schedule: RateSchedule, now_ms: int) -> SourceLoad:
        """Return the load that follows `schedule` and the wall clock from the end of priming on."""
        at = self.limit_ms or 0
        begin = Segment(at, int(self.count(at)), schedule)
        return replace(self, segments=(*self.segments, begin), started_ms=now_ms - at, limit_ms=None)

    def changed(self, schedule: RateSchedule, now_ms: int) -> SourceLoad:
        """Return the load that follows `schedule` from `now_ms` on."""
        at = max(self._clock(now_ms), self.segments[-1].since_ms)
        return replace(self, segments=(*self.segments, Segment(at, int(self.count(at)), schedule)))

    def held(self, now_ms: int) -> SourceLoad:
        """Return the load that offers nothing that arrives after `now_ms`."""
        return replace(self, limit_ms=self._clock(now_ms))

    def released(self) -> SourceLoad:
        """Return the load without a limit."""
        return replace(self, limit_ms=None)

    @property
    def limit_count(self) -> int:
        """Return n at the limit, or -1 without a limit."""
        return -1 if self.limit_ms is None else int(self.count(self.limit_ms))

    def latest_ms(self, after: int, now_ms: int) -> int:
        """Return the newest offered ms: one priming batch after `after`, or the present moment."""
        latest = after + self.step_ms if self.started_ms is None else self._clock(now_ms)
        return max(after, latest if self.limit_ms is None else min(latest, self.limit_ms))

    def count(self, ms: Ints | int) -> Ints:
        """Return n(ms), exact and never falling."""
        ms = np.asarray(ms, dtype=np.int64)
        counts = np.zeros(ms.shape, dtype=np.int64)
        for segment in self.segments:
            counts = np.where(ms >= segment.since_ms, _count_in_segment(segment, ms), counts)
        return counts

    def offered(self, since_ms: float, until_ms: float) -> float:
        """Return the offered records per second between two Unix times, also of records that still wait."""
        since, until = self._clock(round(since_ms)), self._clock(round(until_ms))
        return 1000 * float(self.count(until) - self.count(since)) / max(1, until - since)

    def arrivals(self, start_ms: int, end_ms: int) -> tuple[int, Ints]:
        """Return the number of the first record in [start, end), and the millisecond at which each record arrives."""
        grid = np.arange(start_ms, end_ms + 1, dtype=np.int64)
        counts = self.count(grid)
        return int(counts[0]), np.repeat(grid[:-1], np.diff(counts))

    def _clock(self, now_ms: int) -> int:
        return 0 if self.started_ms is None else now_ms - self.started_ms


@dataclass(frozen=True)
class QueryLoad:
    """The loads of all sources of a query, by source name."""

    sources: Mapping[str, SourceLoad]

    def each(self, change: Callable[[str, SourceLoad], SourceLoad]) -> QueryLoad:
        """Return the loads after `change(name, load)` for each source."""
        return QueryLoad({name: change(name, source) for name, source in self.sources.items()})


def write_load(loads: QueryLoad, path: Path) -> None:
    """Write the load file atomically, so a reader never sees half of it."""
    data = {name: _source_to_dict(load) for name, load in loads.sources.items()}
    write_atomically(path, json.dumps({"sources": data}))


def read_load(path: Path | str) -> QueryLoad:
    """Read a load file that `write_load` wrote.

    Spark starts a Python process for each query that calls this function before the first batch. The validating reader
    of other files would add 0.1 s of imports to that start.
    """
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    return QueryLoad({name: _source_from_dict(source) for name, source in data["sources"].items()})


def _source_to_dict(load: SourceLoad) -> dict[str, object]:
    segments = [
        {"since_ms": segment.since_ms, "before": segment.before, "schedule": schedule_to_dict(segment.schedule)}
        for segment in load.segments
    ]
    return {"segments": segments, "step_ms": load.step_ms, "started_ms": load.started_ms, "limit_ms": load.limit_ms}


def _source_from_dict(data: Mapping[str, Any]) -> SourceLoad:
    segments = tuple(
        Segment(segment["since_ms"], segment["before"], schedule_from_dict(segment["schedule"]))
        for segment in data["segments"]
    )
    return SourceLoad(segments, data["step_ms"], data["started_ms"], data["limit_ms"])


def _count_in_segment(segment: Segment, ms: Ints | int) -> Ints:
    # 0.3 · 10 records must count as 3 although floats give a little less: hence the small addition.
    seconds = (np.asarray(ms, dtype=np.int64) - segment.since_ms) / 1000
    return segment.before + np.floor(segment.schedule.arrived(seconds) + 1e-6).astype(np.int64)
