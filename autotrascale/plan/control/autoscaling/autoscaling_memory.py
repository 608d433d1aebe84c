"""The memory of a running job: its rates, the capacities and latencies of its parallelisms, and its misses.

| symbol     | meaning                                                                       | unit      |
|------------|-------------------------------------------------------------------------------|-----------|
| capacity_i | records that one instance of i processes, smoothed over the observations        | records/s |
| γ_i        | loss of capacity with more instances (`sizing/scaling_loss.py`)               |           |
| f_i        | processed records over promised capacity of i, while a backlog lasts           | (0, 1]    |
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

CONFIRMING_OBSERVATIONS = 2  # in a row above the target: no noise …
FAR_MISS = 1.3  # … or a single one above this multiple of the target
NEWEST_LATENESS_WEIGHT = 0.2  # of the lateness after the newest scale-down
NEWEST_CAPACITY_WEIGHT = 0.3
FORGET_SECONDS = 2 * 86_400.0  # the largest allocation fades to zero in this time
MAX_PREDICTIONS = 16
MAX_PARALLELISMS = 12  # of one operator
MAX_WINDOW_WEIGHT = 20.0  # of one parallelism
LIMITING_SHARE = 0.9  # of the largest utilisation; operators above it limit the job, too
MIN_CAPACITY_SHARE = 0.1  # of a promised capacity; below, something else is wrong


@dataclass(frozen=True)
class BeforeScaleDown:
    """The parallelism before a scale-down. The job goes back to it if the scale-down misses the target."""

    k: Point
    sized_for: float | None  # records/s


@dataclass(frozen=True)
class AutoscalingMemory:
    """The memory that one observation leaves for the next."""

    rates: RateHistory = field(default_factory=RateHistory)
    readings: ReadingsByRate = field(default_factory=ReadingsByRate)
    capacity: Mapping[str, float] = field(default_factory=dict)
    capacities: Mapping[str, tuple[scaling_loss.MeasuredCapacity, ...]] = field(default_factory=dict)  # by parallelism
    capacity_share: Mapping[str, float] = field(default_factory=dict)  # f of operators that limit a job that is behind
    sized_for: float | None = None  # the largest records/s that the running parallelism was planned for
    missed: int = 0  # observations in a row above the target
    good: int = 0  # … and within it, since the last change
    ineffective_scale_ups: int = 0  # for a missed target, since the target was met last
    tried: BeforeScaleDown | None = None
    largest: float = 0.0  # instances, the maximum of the last days, slowly forgotten
    predictions: tuple[LatencyPrediction, ...] = ()  # valid until something new is learned
    reviewed_at: float | None = None  # when the least parallelism was computed last
    horizon_seconds: float = 0.0  # of the last scale-up
    late_seconds: float = 0.0  # out of target since the last scale-down
    mean_late_seconds: float = 0.0  # after earlier scale-downs, weighted to the newest
    spare_at: float | None = None  # when a scale-up with a horizon begins to be too large

    @property
    def loss(self) -> dict[str, float]:
        """γ of each operator."""
        return {name: scaling_loss.fit_loss(points) for name, points in self.capacities.items()}

    def start_anew(self) -> AutoscalingMemory:
        """Return the memory for another parallelism."""
        return replace(self, capacity={}, capacity_share={}, missed=0, good=0, predictions=())

    def record_rescale(self, before: Point, k: Point, now: float) -> AutoscalingMemory:
        """Return the memory after a rescale from `before` to `k`."""
        planned = [
            plan.rate for plan in self.predictions if all(low <= own for low, own in zip(plan.k, k, strict=True))
        ]
        is_down = sum(k) < sum(before)
        mean_late = self.mean_late_seconds
        if is_down:
            mean_late += NEWEST_LATENESS_WEIGHT * (self.late_seconds - mean_late)
        return replace(
            self.start_anew(),
            sized_for=max(planned, default=self.sized_for),
            tried=BeforeScaleDown(before, self.sized_for) if is_down else None,
            reviewed_at=now,
            late_seconds=0.0 if is_down else self.late_seconds,
            mean_late_seconds=mean_late,
            spare_at=now + self.horizon_seconds if sum(k) > sum(before) else self.spare_at,
        )


@dataclass(frozen=True)
class LoadCondition:
    """The condition of a job in one window. Before the job has settled, nothing can be learned of its parallelism."""

    is_calm: bool  # settled, without backlog: the latency is that of this parallelism at this rate
    is_behind: bool  # settled, and the backlog grows
    is_flat_out: bool  # settled, and a backlog lasted through the window


def learn_from_observation(
    settings: AutoscalingSettings,
    headroom: float,
    memory: AutoscalingMemory,
    snapshot: Snapshot,
    now: float,
    condition: LoadCondition,
    horizon: float = math.inf,
) -> AutoscalingMemory:
    """Return the memory after one trusted observation.

    Args:
        settings: target and constants of the job.
        headroom: share of the rate that is planned on top.
        memory: the memory so far.
        snapshot: the observation.
        now: seconds on the loop's clock.
        condition: the condition of the job in this window.
        horizon: seconds that are planned ahead.
    """
    k, target = tuple(snapshot.parallelism.values()), settings.target
    largest = memory.largest * max(0.0, 1 - snapshot.window_seconds / FORGET_SECONDS)
    rates = memory.rates.add(now, snapshot.window_seconds, snapshot.target_rate, horizon)
    memory = replace(memory, largest=max(float(sum(k)), largest), rates=rates)
    sized = size(snapshot, target)
    if isinstance(sized, Unsized) or snapshot.target_rate <= 0:
        return replace(memory, good=0)
    memory = _learn_capacity(memory, sized, snapshot, k, condition)
    latency = snapshot.latency_seconds.of(target.statistic)
    if condition.is_behind or (latency is not None and latency > FAR_MISS * target.latency_seconds):
        memory = replace(memory, late_seconds=memory.late_seconds + snapshot.window_seconds)
    if latency is None and not condition.is_behind:  # an unknown latency is not a good one
        return replace(memory, good=0)
    if not (condition.is_calm or condition.is_behind) or memory.rates.jumped:
        return memory
    memory = _count_observation(settings, headroom, memory, latency, now, is_behind=condition.is_behind)
    return _add_reading(settings, memory, snapshot, k, None if condition.is_behind else latency)


def _count_observation(
    settings: AutoscalingSettings,
    headroom: float,
    memory: AutoscalingMemory,
    latency: float | None,
    now: float,
    *,
    is_behind: bool,
) -> AutoscalingMemory:
    """Count observations in a row above the target, or within it."""
    target = settings.target.latency_seconds
    if is_behind or (latency is not None and latency > target):
        is_far = is_behind or (latency is not None and latency > FAR_MISS * target)
        return replace(memory, missed=memory.missed + (CONFIRMING_OBSERVATIONS if is_far else 1), good=0)
    memory = replace(memory, missed=0, good=memory.good + 1)
    if memory.good < CONFIRMING_OBSERVATIONS:
        return memory
    good_for = memory.rates.need(now, headroom) if memory.sized_for is None else memory.sized_for
    return replace(memory, tried=None, ineffective_scale_ups=0, sized_for=good_for)


def _add_reading(
    settings: AutoscalingSettings, memory: AutoscalingMemory, snapshot: Snapshot, k: Point, latency: float | None
) -> AutoscalingMemory:
    rate = round_rate(snapshot.target_rate)
    cell = memory.readings.at(rate)
    sized = cell.sizing if cell is not None else size(snapshot, settings.target, rate=rate, capacity=memory.capacity)
    if isinstance(sized, Unsized) or (latency is None and not memory.missed):
        return memory
    is_new = cell is None or all(run.parallelism != k for run in cell.runs)
    readings = memory.readings.add(sized, k, latency)
    has_news = memory.missed == CONFIRMING_OBSERVATIONS or is_new
    return replace(memory, readings=readings, predictions=() if has_news else memory.predictions)


# --- capacities -------------------------------------------------------------------------------------------------------


def _learn_capacity(
    memory: AutoscalingMemory, sized: Sizing, snapshot: Snapshot, k: Point, condition: LoadCondition
) -> AutoscalingMemory:
    before = memory.capacity
    known = {name: value for name, value in zip(sized.operators, sized.capacity, strict=True) if value}
    capacity = {
        name: before[name] + NEWEST_CAPACITY_WEIGHT * (value - before[name]) if name in before else value
        for name, value in known.items()
    }
    capacities = memory.capacities
    if condition.is_calm or condition.is_behind:
        points = {
            name: _add_point(capacities.get(name, ()), own, known[name])
            for name, own in zip(sized.operators, k, strict=True)
            if name in known
        }
        capacities = {**capacities, **points}
    share = _find_capacity_share(sized, snapshot, k) if condition.is_flat_out else {}
    return replace(memory, capacity=capacity, capacities=capacities, capacity_share=share)


def _add_point(
    points: tuple[scaling_loss.MeasuredCapacity, ...], k: int, capacity: float
) -> tuple[scaling_loss.MeasuredCapacity, ...]:
    """Average the capacity at each parallelism. The newest parallelism comes last."""
    before = next((point for point in points if point.k == k), scaling_loss.MeasuredCapacity(k, capacity, 0.0))
    windows = min(before.windows + 1, MAX_WINDOW_WEIGHT)
    mean = before.capacity + (capacity - before.capacity) / windows
    others = (point for point in points if point.k != k)
    return (*others, scaling_loss.MeasuredCapacity(k, mean, windows))[-MAX_PARALLELISMS:]


def _find_capacity_share(sized: Sizing, snapshot: Snapshot, k: Point) -> dict[str, float]:
    """Return f of the operators that limit a job which runs flat out. No capacity may promise more.

    The shares are forgotten together with the backlog.
    """
    if not snapshot.throughput:
        return {}
    loads = [(load or 0.0) / own for load, own in zip(sized.load, k, strict=True)]
    together = sum(loads) if sized.execution != "pipelined" else max(loads)
    spare = 1.0 - sized.overhead if sized.execution == "micro-batch" else 1.0
    if together <= 0 or spare <= 0:
        return {}
    share = max(MIN_CAPACITY_SHARE, snapshot.throughput * together / (sized.rate * spare))  # f = carried / promised
    if share >= 1:
        return {}
    limit = LIMITING_SHARE * max(loads) if sized.execution == "pipelined" else 0.0
    return {name: share for name, own in zip(sized.operators, loads, strict=True) if own > 0 and own >= limit}
