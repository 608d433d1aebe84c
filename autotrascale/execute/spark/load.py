"""The load file: what a source offers and since when. The engine writes it, the generator in Spark reads it.

    symbol   meaning                                                           unit
    ms       a source's own clock: below 0 it primes, from 0 on it follows     ms
             the wall clock since `started_ms`
    n        records offered before ms, counted from the first priming one     records

Priming comes first: a few small batches that nobody measures, while code is compiled and Python workers start. The
load begins when the query is warm, and from then on it does not wait: a job that is late finds more waiting.

A change of rate appends a segment, so that offsets already handed out keep their meaning.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from autotrascale import reading
from autotrascale.execute.spark.schedule import Schedule, as_dict

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Segment:
    """From `since_ms` on, records come by `schedule`, whose second 0 is here; `before` came earlier."""

    since_ms: int
    before: int
    schedule: Schedule


@dataclass(frozen=True)
class SourceLoad:
    """One source's load. `started_ms` is Unix time in milliseconds, None while the query is being primed; `held_ms` is
    the last moment that is offered, while the load is held."""

    segments: tuple[Segment, ...]
    prime_batches: int = 0
    prime_ms: int = 50
    started_ms: int | None = None
    held_ms: int | None = None

    @classmethod
    def of(cls, schedule: Schedule, *, prime_batches: int = 0, prime_ms: int = 50) -> SourceLoad:
        """At most `prime_batches` of `prime_ms` each at the first rate, then the schedule."""
        prime = Schedule(((0.0, schedule.rate(0.0)),))
        first = Segment(-prime_batches * prime_ms, 0, prime)
        begin = Segment(0, int(_arrived(first, 0)), schedule)
        return cls((first, begin) if prime_batches else (begin,), prime_batches, prime_ms)

    @property
    def first_ms(self) -> int:
        return self.segments[0].since_ms

    def latest_ms(self, after: int, now_ms: int) -> int:
        """How far the source offers records: one priming batch further, or up to this moment."""
        if self.started_ms is None:
            return min(after + self.prime_ms, 0)
        latest = now_ms - self.started_ms
        return max(after, latest if self.held_ms is None else min(latest, self.held_ms))

    def count(self, ms: Ints | int) -> Ints:
        """n(ms), exact and never falling."""
        ms = np.asarray(ms, dtype=np.int64)
        counts = np.zeros(ms.shape, dtype=np.int64)
        for segment in self.segments:
            counts = np.where(ms >= segment.since_ms, _arrived(segment, ms), counts)
        return counts

    def arrivals(self, start_ms: int, end_ms: int) -> tuple[int, Ints]:
        """The records of [start, end): the first one's number, and the millisecond at which each of them arrives."""
        grid = np.arange(start_ms, end_ms + 1, dtype=np.int64)
        counts = self.count(grid)
        return int(counts[0]), np.repeat(grid[:-1], np.diff(counts))

    def begun(self, now_ms: int) -> SourceLoad:
        return replace(self, started_ms=now_ms)

    def held(self, now_ms: int) -> SourceLoad:
        return replace(self, held_ms=0 if self.started_ms is None else now_ms - self.started_ms)

    @property
    def held_count(self) -> int:
        """n at the moment of holding; -1 when it is not held."""
        return -1 if self.held_ms is None else int(self.count(self.held_ms))

    def changed(self, schedule: Schedule, now_ms: int) -> SourceLoad:
        """Another schedule from this moment on; a load that has not begun simply starts over with it."""
        if self.started_ms is None:
            return SourceLoad.of(schedule, prime_batches=self.prime_batches, prime_ms=self.prime_ms)
        since = max(now_ms - self.started_ms, self.segments[-1].since_ms)
        return replace(self, segments=(*self.segments, Segment(since, int(self.count(since)), schedule)))


@dataclass(frozen=True)
class Loads:
    """All sources of one query."""

    sources: dict[str, SourceLoad]

    def begun(self, now_ms: int) -> Loads:
        return Loads({name: load.begun(now_ms) for name, load in self.sources.items()})

    def held(self, now_ms: int) -> Loads:
        return Loads({name: load.held(now_ms) for name, load in self.sources.items()})

    def released(self) -> Loads:
        return Loads({name: replace(load, held_ms=None) for name, load in self.sources.items()})


def write(loads: Loads, path: Path) -> None:
    """Whole or not at all: a reader never sees half a file."""
    data = {name: _source_as_dict(load) for name, load in loads.sources.items()}
    draft = path.with_name(path.name + ".draft")
    draft.write_text(json.dumps({"sources": data}), encoding="utf-8")
    os.replace(draft, path)


def read(path: Path | str) -> Loads:
    return reading.validate(json.loads(Path(path).read_text(encoding="utf-8")), Loads, place=str(path))


def _source_as_dict(load: SourceLoad) -> dict[str, object]:
    segments = [
        {"since_ms": segment.since_ms, "before": segment.before, "schedule": as_dict(segment.schedule)}
        for segment in load.segments
    ]
    return {
        "segments": segments,
        "prime_batches": load.prime_batches,
        "prime_ms": load.prime_ms,
        "started_ms": load.started_ms,
        "held_ms": load.held_ms,
    }


def _arrived(segment: Segment, ms: Ints | int) -> Ints:
    # The tiny lift keeps 0.3 · 10 records at 3 and not at 2: whole counts must not hang on the last bit.
    seconds = (np.asarray(ms, dtype=np.int64) - segment.since_ms) / 1000
    return segment.before + np.floor(segment.schedule.arrived(seconds) + 1e-6).astype(np.int64)
