"""What the looks at a running job leave behind: how its rate goes, what its parallelism does, what to try no more.

| symbol     | meaning                                                                   | unit      |
|------------|---------------------------------------------------------------------------|-----------|
| capacity_i | what one instance of i does, smoothed over the looks at this parallelism    | records/s |
| γ_i        | how much of it is lost with more instances (`sizing/scaling.py`)            |           |
| f_i        | what i really processed over what its capacity promised, while a backlog lasts | (0, 1]    |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.control.autoscaling.prediction import Prediction, Settings
from autotrascale.plan.control.autoscaling.rates import Rates
from autotrascale.plan.control.autoscaling.readings import ReadingsByRate, grid_rate
from autotrascale.plan.search.lattice import Point
from autotrascale.plan.sizing import scaling
from autotrascale.plan.sizing.sizing import Sizing, Unsized, size

MISSES = 2  # looks in a row above the target before it is no noise …
FAR = 1.3  # … or one that is this far above
LATEST = 0.2  # weight of what followed the newest scale-down
SMOOTH = 0.3  # weight of the newest capacity
FORGET = 2 * 86_400.0  # seconds in which the largest allocation fades
PREDICTIONS = 16
PARALLELISMS = 12  # of one operator, whose capacity is remembered
WINDOWS = 20.0  # what one of them weighs at most
LIMITING = 0.9  # of the busiest operator's share: those hold the job up, too
LEAST_SHARE = 0.1  # of a promised capacity: below, something else is wrong


@dataclass(frozen=True)
class Tried:
    """What ran before a scale-down, to go back to while that is not known to be good."""

    k: Point
    sized_for: float | None


@dataclass(frozen=True)
class Memory:
    """What one look leaves for the next."""

    rates: Rates = field(default_factory=Rates)
    readings: ReadingsByRate = field(default_factory=ReadingsByRate)
    capacity: Mapping[str, float] = field(default_factory=dict)
    capacities: Mapping[str, tuple[scaling.Point, ...]] = field(default_factory=dict)  # by parallelism
    short: Mapping[str, float] = field(default_factory=dict)  # f of those that hold the job up while it is behind
    sized_for: float | None = None  # the highest rate that what runs was planned for
    missed: int = 0  # looks in a row above the target
    good: int = 0  # … and within it, since the last change
    useless_scale_ups: int = 0  # scale-ups for a missed target since it was last met
    tried: Tried | None = None
    largest: float = 0.0  # the most instances of the last days, slowly forgotten
    predictions: tuple[Prediction, ...] = ()  # made from what is known now
    reviewed_at: float | None = None  # when it was last asked what the least would be
    ahead: float = 0.0  # seconds that the last plan looked ahead
    late: float = 0.0  # seconds out of target since the last scale-down
    late_after: float = 0.0  # … that followed each of those before it, on average, the newest most
    spare_at: float | None = None  # from when on what runs may be too much: when it was last given more, it was ahead

    @property
    def loss(self) -> dict[str, float]:
        """γ of each operator."""
        return {name: scaling.fit_loss(points) for name, points in self.capacities.items()}

    def at_another(self) -> Memory:
        """Another parallelism runs, whoever asked for it."""
        return replace(self, capacity={}, short={}, missed=0, good=0, predictions=())

    def rescaled(self, before: Point, k: Point, now: float) -> Memory:
        """A rescale to `k` was carried out: what it was planned for, and what ran before if it is a step down."""
        fits = [plan.rate for plan in self.predictions if all(low <= own for low, own in zip(plan.k, k, strict=True))]
        down = sum(k) < sum(before)
        tried = Tried(before, self.sized_for) if down else None
        late_after = self.late_after + LATEST * (self.late - self.late_after) if down else self.late_after
        sized_for = max(fits, default=self.sized_for)
        return replace(
            self.at_another(),
            sized_for=sized_for,
            tried=tried,
            reviewed_at=now,
            late=0.0 if down else self.late,
            late_after=late_after,
            spare_at=now + self.ahead if sum(k) > sum(before) else self.spare_at,
        )


@dataclass(frozen=True)
class Shows:
    """What a look can teach: nothing of the parallelism, unless the job has settled since its last change."""

    calm: bool  # settled and without backlog, so its latency is that of this parallelism at this rate
    behind: bool  # settled, and it falls behind
    flat_out: bool  # settled, and a backlog lasted through the window


def learned(
    settings: Settings,
    headroom: float,
    memory: Memory,
    snapshot: Snapshot,
    now: float,
    shows: Shows,
    horizon: float = math.inf,
) -> Memory:
    """The memory after one look that is believed. `horizon`: how far ahead is planned."""
    k = tuple(snapshot.parallelism.values())
    faded = memory.largest * max(0.0, 1 - snapshot.window_seconds / FORGET)
    memory = replace(
        memory,
        largest=max(float(sum(k)), faded),
        rates=memory.rates.adding(now, snapshot.window_seconds, snapshot.target_rate, horizon),
    )
    sized = size(snapshot, settings.target)
    if isinstance(sized, Unsized) or snapshot.target_rate <= 0:
        return replace(memory, good=0)
    memory = _with_capacity(memory, sized, snapshot, k, shows)
    latency = snapshot.latency_seconds.of(settings.target.statistic)
    if shows.behind or (latency is not None and latency > FAR * settings.target.latency_seconds):
        memory = replace(memory, late=memory.late + snapshot.window_seconds)
    if latency is None and not shows.behind:  # not known is not good
        return replace(memory, good=0)
    if not (shows.calm or shows.behind) or memory.rates.jumped:
        return memory
    memory = _counted(settings, headroom, memory, latency, now, behind=shows.behind)
    return _with_reading(settings, memory, snapshot, k, None if shows.behind else latency)


def _counted(
    settings: Settings, headroom: float, memory: Memory, latency: float | None, now: float, *, behind: bool
) -> Memory:
    """Looks in a row above the target, or within it."""
    target = settings.target.latency_seconds
    if behind or (latency is not None and latency > target):
        far = behind or (latency is not None and latency > FAR * target)
        return replace(memory, missed=memory.missed + (MISSES if far else 1), good=0)
    memory = replace(memory, missed=0, good=memory.good + 1)
    if memory.good < MISSES:
        return memory
    good_for = memory.rates.need(now, headroom) if memory.sized_for is None else memory.sized_for
    return replace(memory, tried=None, useless_scale_ups=0, sized_for=good_for)


def _with_reading(settings: Settings, memory: Memory, snapshot: Snapshot, k: Point, latency: float | None) -> Memory:
    rate = grid_rate(snapshot.target_rate)
    cell = memory.readings.at(rate)
    sized = cell.sizing if cell is not None else size(snapshot, settings.target, rate=rate, capacity=memory.capacity)
    if isinstance(sized, Unsized) or (latency is None and not memory.missed):
        return memory
    fresh = memory.missed == MISSES or cell is None or all(run.parallelism != k for run in cell.runs)
    readings = memory.readings.adding(sized, k, latency)
    return replace(memory, readings=readings, predictions=() if fresh else memory.predictions)


# --- capacities -------------------------------------------------------------------------------------------------------


def _with_capacity(memory: Memory, sized: Sizing, snapshot: Snapshot, k: Point, shows: Shows) -> Memory:
    before = memory.capacity
    known = {name: value for name, value in zip(sized.operators, sized.capacity, strict=True) if value}
    capacity = {
        name: before[name] + SMOOTH * (value - before[name]) if name in before else value
        for name, value in known.items()
    }
    points = memory.capacities
    if shows.calm or shows.behind:
        points = {
            **points,
            **{
                name: _with_point(points.get(name, ()), own, known[name])
                for name, own in zip(sized.operators, k, strict=True)
                if name in known
            },
        }
    return replace(memory, capacity=capacity, capacities=points, short=_short(sized, snapshot, k, shows.flat_out))


def _with_point(points: tuple[scaling.Point, ...], k: int, capacity: float) -> tuple[scaling.Point, ...]:
    """The mean at each parallelism, the newest last."""
    before = next((point for point in points if point.k == k), scaling.Point(k, capacity, 0.0))
    windows = min(before.windows + 1, WINDOWS)
    mean = before.capacity + (capacity - before.capacity) / windows
    return (*(point for point in points if point.k != k), scaling.Point(k, mean, windows))[-PARALLELISMS:]


def _short(sized: Sizing, snapshot: Snapshot, k: Point, flat_out: bool) -> dict[str, float]:
    """A job that runs flat out shows what it can really do, and no capacity may promise more. Forgotten with the
    backlog: then it does not run flat out any more."""
    if not flat_out or not snapshot.throughput:
        return {}
    shares = [(load or 0.0) / own for load, own in zip(sized.load, k, strict=True)]
    together = sum(shares) if sized.execution != "pipelined" else max(shares)
    spare = 1.0 - sized.overhead if sized.execution == "micro-batch" else 1.0
    if together <= 0 or spare <= 0:
        return {}
    share = max(LEAST_SHARE, snapshot.throughput * together / (sized.rate * spare))  # f = carried / promised
    if share >= 1:
        return {}
    limit = LIMITING * max(shares) if sized.execution == "pipelined" else 0.0
    return {name: share for name, own in zip(sized.operators, shares, strict=True) if own > 0 and own >= limit}
