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
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings, LatencyPrediction
from autotrascale.plan.control.autoscaling.rate_history import RateHistory
from autotrascale.plan.control.autoscaling.readings_by_rate import ReadingsByRate, round_rate
from autotrascale.plan.search.lattice import Point
from autotrascale.plan.sizing import scaling_loss
from autotrascale.plan.sizing.sizing import Sizing, Unsized, size

CONFIRMING_OBSERVATIONS = 2  # looks in a row above the target before it is no noise …
FAR_MISS = 1.3  # … or one that is this far above
NEWEST_LATENESS_WEIGHT = 0.2  # weight of what followed the newest scale-down
NEWEST_CAPACITY_WEIGHT = 0.3  # weight of the newest capacity
FORGET_SECONDS = 2 * 86_400.0  # seconds in which the largest allocation fades
MAX_PREDICTIONS = 16
MAX_PARALLELISMS = 12  # of one operator, whose capacity is remembered
MAX_WINDOW_WEIGHT = 20.0  # what one of them weighs at most
LIMITING_SHARE = 0.9  # of the busiest operator's share: those hold the job up, too
MIN_CAPACITY_SHARE = 0.1  # of a promised capacity: below, something else is wrong


@dataclass(frozen=True)
class BeforeScaleDown:
    """What ran before a scale-down, to go back to while that is not known to be good."""

    k: Point
    sized_for: float | None


@dataclass(frozen=True)
class AutoscalingMemory:
    """What one look leaves for the next."""

    rates: RateHistory = field(default_factory=RateHistory)
    readings: ReadingsByRate = field(default_factory=ReadingsByRate)
    capacity: Mapping[str, float] = field(default_factory=dict)
    capacities: Mapping[str, tuple[scaling_loss.MeasuredCapacity, ...]] = field(default_factory=dict)  # by parallelism
    short: Mapping[str, float] = field(default_factory=dict)  # f of those that hold the job up while it is behind
    sized_for: float | None = None  # the highest rate that what runs was planned for
    missed: int = 0  # looks in a row above the target
    good: int = 0  # … and within it, since the last change
    ineffective_scale_ups: int = 0  # scale-ups for a missed target since it was last met
    tried: BeforeScaleDown | None = None
    largest: float = 0.0  # the most instances of the last days, slowly forgotten
    predictions: tuple[LatencyPrediction, ...] = ()  # made from what is known now
    reviewed_at: float | None = None  # when it was last asked what the least would be
    ahead: float = 0.0  # seconds that the last plan looked ahead
    late: float = 0.0  # seconds out of target since the last scale-down
    late_after: float = 0.0  # … that followed each of those before it, on average, the newest most
    spare_at: float | None = None  # from when on what runs may be too much: when it was last given more, it was ahead

    @property
    def loss(self) -> dict[str, float]:
        """γ of each operator."""
        return {name: scaling_loss.fit_loss(points) for name, points in self.capacities.items()}

    def at_another(self) -> AutoscalingMemory:
        """Another parallelism runs, whoever asked for it."""
        return replace(self, capacity={}, short={}, missed=0, good=0, predictions=())

    def rescaled(self, before: Point, k: Point, now: float) -> AutoscalingMemory:
        """A rescale to `k` was carried out: what it was planned for, and what ran before if it is a step down."""
        fits = [plan.rate for plan in self.predictions if all(low <= own for low, own in zip(plan.k, k, strict=True))]
        down = sum(k) < sum(before)
        tried = BeforeScaleDown(before, self.sized_for) if down else None
        late_after = (
            self.late_after + NEWEST_LATENESS_WEIGHT * (self.late - self.late_after) if down else self.late_after
        )
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
class LoadCondition:
    """What a look can teach: nothing of the parallelism, unless the job has settled since its last change."""

    calm: bool  # settled and without backlog, so its latency is that of this parallelism at this rate
    behind: bool  # settled, and it falls behind
    flat_out: bool  # settled, and a backlog lasted through the window


def learn_from_observation(
    settings: AutoscalingSettings,
    headroom: float,
    memory: AutoscalingMemory,
    snapshot: Snapshot,
    now: float,
    shows: LoadCondition,
    horizon: float = math.inf,
) -> AutoscalingMemory:
    """The memory after one look that is believed. `horizon`: how far ahead is planned."""
    k = tuple(snapshot.parallelism.values())
    faded = memory.largest * max(0.0, 1 - snapshot.window_seconds / FORGET_SECONDS)
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
    if shows.behind or (latency is not None and latency > FAR_MISS * settings.target.latency_seconds):
        memory = replace(memory, late=memory.late + snapshot.window_seconds)
    if latency is None and not shows.behind:  # not known is not good
        return replace(memory, good=0)
    if not (shows.calm or shows.behind) or memory.rates.jumped:
        return memory
    memory = _counted(settings, headroom, memory, latency, now, behind=shows.behind)
    return _with_reading(settings, memory, snapshot, k, None if shows.behind else latency)


def _counted(
    settings: AutoscalingSettings,
    headroom: float,
    memory: AutoscalingMemory,
    latency: float | None,
    now: float,
    *,
    behind: bool,
) -> AutoscalingMemory:
    """Looks in a row above the target, or within it."""
    target = settings.target.latency_seconds
    if behind or (latency is not None and latency > target):
        far = behind or (latency is not None and latency > FAR_MISS * target)
        return replace(memory, missed=memory.missed + (CONFIRMING_OBSERVATIONS if far else 1), good=0)
    memory = replace(memory, missed=0, good=memory.good + 1)
    if memory.good < CONFIRMING_OBSERVATIONS:
        return memory
    good_for = memory.rates.need(now, headroom) if memory.sized_for is None else memory.sized_for
    return replace(memory, tried=None, ineffective_scale_ups=0, sized_for=good_for)


def _with_reading(
    settings: AutoscalingSettings, memory: AutoscalingMemory, snapshot: Snapshot, k: Point, latency: float | None
) -> AutoscalingMemory:
    rate = round_rate(snapshot.target_rate)
    cell = memory.readings.at(rate)
    sized = cell.sizing if cell is not None else size(snapshot, settings.target, rate=rate, capacity=memory.capacity)
    if isinstance(sized, Unsized) or (latency is None and not memory.missed):
        return memory
    fresh = memory.missed == CONFIRMING_OBSERVATIONS or cell is None or all(run.parallelism != k for run in cell.runs)
    readings = memory.readings.adding(sized, k, latency)
    return replace(memory, readings=readings, predictions=() if fresh else memory.predictions)


# --- capacities -------------------------------------------------------------------------------------------------------


def _with_capacity(
    memory: AutoscalingMemory, sized: Sizing, snapshot: Snapshot, k: Point, shows: LoadCondition
) -> AutoscalingMemory:
    before = memory.capacity
    known = {name: value for name, value in zip(sized.operators, sized.capacity, strict=True) if value}
    capacity = {
        name: before[name] + NEWEST_CAPACITY_WEIGHT * (value - before[name]) if name in before else value
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


def _with_point(
    points: tuple[scaling_loss.MeasuredCapacity, ...], k: int, capacity: float
) -> tuple[scaling_loss.MeasuredCapacity, ...]:
    """The mean at each parallelism, the newest last."""
    before = next((point for point in points if point.k == k), scaling_loss.MeasuredCapacity(k, capacity, 0.0))
    windows = min(before.windows + 1, MAX_WINDOW_WEIGHT)
    mean = before.capacity + (capacity - before.capacity) / windows
    return (*(point for point in points if point.k != k), scaling_loss.MeasuredCapacity(k, mean, windows))[
        -MAX_PARALLELISMS:
    ]


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
    share = max(MIN_CAPACITY_SHARE, snapshot.throughput * together / (sized.rate * spare))  # f = carried / promised
    if share >= 1:
        return {}
    limit = LIMITING_SHARE * max(shares) if sized.execution == "pipelined" else 0.0
    return {name: share for name, own in zip(sized.operators, shares, strict=True) if own > 0 and own >= limit}
