"""The load file: what a source offers and since when. The engine writes it, the generator in Spark reads it.

    symbol   meaning                                                                           unit
    ms       a source's own clock; it follows the wall clock once the load has begun           ms
    n        records offered before ms, counted from the first one                             records

Priming comes first: a few small batches that nobody measures, while code is compiled and Python workers start. Each is
offered when the engine allows it. The load begins when the query is warm, and from then on it does not wait: a job that
is late finds more waiting.

Every change appends a segment, so that offsets already handed out keep their meaning.
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
from autotrascale.execute.spark.jobs.rate_schedule import RateSchedule, as_dict, constant, from_dict

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Segment:
    """From `since_ms` on, records come by `schedule`, whose second 0 is here; `before` came earlier."""

    since_ms: int
    before: int
    schedule: RateSchedule


@dataclass(frozen=True)
class SourceLoad:
    """One source's load. `started_ms` is the Unix time of ms = 0, None while the query is being primed; `limit_ms` is
    the last moment that is offered: while priming, and while the load is held."""

    segments: tuple[Segment, ...]
    step_ms: int = 50
    started_ms: int | None = None
    limit_ms: int | None = None

    @classmethod
    def priming(cls, rate: float, batches: int, least: int) -> SourceLoad:
        """`batches` small ones at this rate, of `least` records or more: every instance needs one to get warm."""
        at_least = max(rate, least * 1000 / cls.step_ms)
        return cls((Segment(0, 0, constant(at_least)),), limit_ms=batches * cls.step_ms)

    def primed_further(self) -> SourceLoad:
        return replace(self, limit_ms=(self.limit_ms or 0) + self.step_ms)

    def begun(self, schedule: RateSchedule, now_ms: int) -> SourceLoad:
        """The schedule takes over where priming has come to, and the wall clock with it."""
        at = self.limit_ms or 0
        begin = Segment(at, int(self.count(at)), schedule)
        return replace(self, segments=(*self.segments, begin), started_ms=now_ms - at, limit_ms=None)

    def changed(self, schedule: RateSchedule, now_ms: int) -> SourceLoad:
        """Another schedule from this moment on."""
        at = max(self._clock(now_ms), self.segments[-1].since_ms)
        return replace(self, segments=(*self.segments, Segment(at, int(self.count(at)), schedule)))

    def held(self, now_ms: int) -> SourceLoad:
        return replace(self, limit_ms=self._clock(now_ms))

    def released(self) -> SourceLoad:
        return replace(self, limit_ms=None)

    @property
    def limit_count(self) -> int:
        """n at the limit; -1 when there is none."""
        return -1 if self.limit_ms is None else int(self.count(self.limit_ms))

    def latest_ms(self, after: int, now_ms: int) -> int:
        """How far the source offers records: one priming batch further, or up to this moment."""
        latest = after + self.step_ms if self.started_ms is None else self._clock(now_ms)
        return max(after, latest if self.limit_ms is None else min(latest, self.limit_ms))

    def count(self, ms: Ints | int) -> Ints:
        """n(ms), exact and never falling."""
        ms = np.asarray(ms, dtype=np.int64)
        counts = np.zeros(ms.shape, dtype=np.int64)
        for segment in self.segments:
            counts = np.where(ms >= segment.since_ms, _arrived(segment, ms), counts)
        return counts

    def offered(self, since_ms: float, until_ms: float) -> float:
        """Records per second between two moments of the wall clock, whether or not they were taken in."""
        since, until = self._clock(round(since_ms)), self._clock(round(until_ms))
        return 1000 * float(self.count(until) - self.count(since)) / max(1, until - since)

    def arrivals(self, start_ms: int, end_ms: int) -> tuple[int, Ints]:
        """The records of [start, end): the first one's number, and the millisecond at which each of them arrives."""
        grid = np.arange(start_ms, end_ms + 1, dtype=np.int64)
        counts = self.count(grid)
        return int(counts[0]), np.repeat(grid[:-1], np.diff(counts))

    def _clock(self, now_ms: int) -> int:
        return 0 if self.started_ms is None else now_ms - self.started_ms


@dataclass(frozen=True)
class QueryLoad:
    """All sources of one query."""

    sources: Mapping[str, SourceLoad]

    def each(self, change: Callable[[str, SourceLoad], SourceLoad]) -> QueryLoad:
        return QueryLoad({name: change(name, source) for name, source in self.sources.items()})


def write(loads: QueryLoad, path: Path) -> None:
    """Whole or not at all: a reader never sees half a file."""
    data = {name: _source_as_dict(load) for name, load in loads.sources.items()}
    write_atomically(path, json.dumps({"sources": data}))


def read(path: Path | str) -> QueryLoad:
    """What `write` wrote. Spark starts a Python process for each query that reads this, and on the way to the first
    batch: the general reader of files would cost it another tenth of a second to import."""
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    return QueryLoad({name: _source_from_dict(source) for name, source in data["sources"].items()})


def _source_as_dict(load: SourceLoad) -> dict[str, object]:
    segments = [
        {"since_ms": segment.since_ms, "before": segment.before, "schedule": as_dict(segment.schedule)}
        for segment in load.segments
    ]
    return {"segments": segments, "step_ms": load.step_ms, "started_ms": load.started_ms, "limit_ms": load.limit_ms}


def _source_from_dict(data: Mapping[str, Any]) -> SourceLoad:
    segments = tuple(
        Segment(segment["since_ms"], segment["before"], from_dict(segment["schedule"])) for segment in data["segments"]
    )
    return SourceLoad(segments, data["step_ms"], data["started_ms"], data["limit_ms"])


def _arrived(segment: Segment, ms: Ints | int) -> Ints:
    # The tiny lift keeps 0.3 · 10 records at 3 and not at 2: whole counts must not hang on the last bit.
    seconds = (np.asarray(ms, dtype=np.int64) - segment.since_ms) / 1000
    return segment.before + np.floor(segment.schedule.arrived(seconds) + 1e-6).astype(np.int64)
