"""The loss of capacity with parallelism, when k instances do less than k times the work, and the floor with that loss.

| symbol   | meaning                                                                     | unit      |
|----------|-----------------------------------------------------------------------------|-----------|
| c        | rate of one instance at k0 instances                                         | records/s |
| γ        | scaling loss: 0 scales perfectly, 0.5 needs four times the instances for twice the work | [0, 0.5] |
| capacity(k) = c · (k / k0)^−γ | rate of one instance at k                               | records/s |
| load(k) = load(k0) · (k / k0)^γ | instances needed when k of them run                   | instances |
| n        | windows of a measured capacity; its weight is n / (n + 1)                     |           |

The floor is the least k at which the job keeps up with capacity(k):

    pipelined     load_i(k_i) ≤ k_i, that is k_i ≥ (load_i · k0_i^−γ_i)^(1 / (1 − γ_i))
    shared        Σ load_i(p) ≤ p
    micro-batch   h + Σ load_i(k_i) / k_i ≤ 1; each term falls as k_i^−(1 − γ_i), convex, so greedy stays optimal

γ is the slope of log capacity over log k, by weighted least squares, shrunk towards 0 because close parallelisms tell
little. A mean of many windows still comes from one rate and one time of day, so no weight is above 1.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotrascale.domain.snapshot import Execution

MOST_LOSS = 0.5
NOISE = 0.05  # standard deviation of the logarithm of a measured capacity
USUAL_LOSS = 0.25  # prior standard deviation of γ
SLACK = 1e-9  # see `floor._SLACK`


@dataclass(frozen=True)
class MeasuredCapacity:
    """The capacity of one instance in records/s, measured at parallelism `k` in `windows` windows."""

    k: int
    capacity: float
    windows: float = 1.0


def fit_loss(points: Sequence[MeasuredCapacity]) -> float:
    """Return γ; 0 when fewer than two parallelisms were measured.

    >>> round(fit_loss([MeasuredCapacity(4, 100.0, 20.0), MeasuredCapacity(64, 25.0, 20.0)]), 2)
    0.49
    """
    known = [point for point in points if point.capacity > 0 and point.windows > 0]
    if len({point.k for point in known}) < 2:
        return 0.0
    weights = [point.windows / (point.windows + 1) for point in known]
    logs = [(math.log(point.k), math.log(point.capacity)) for point in known]
    x = sum(w * log_k for w, (log_k, _) in zip(weights, logs, strict=True)) / sum(weights)
    y = sum(w * log_c for w, (_, log_c) in zip(weights, logs, strict=True)) / sum(weights)
    spread = sum(w * (log_k - x) ** 2 for w, (log_k, _) in zip(weights, logs, strict=True))
    together = sum(w * (log_k - x) * (log_c - y) for w, (log_k, log_c) in zip(weights, logs, strict=True))
    return min(max(-together / (spread + (NOISE / USUAL_LOSS) ** 2), 0.0), MOST_LOSS)


@dataclass(frozen=True)
class Scaling:
    """k0 and γ of each operator."""

    at: tuple[int, ...]
    loss: tuple[float, ...]

    def loads(self, loads: Sequence[float], k: Sequence[int]) -> list[float]:
        """Return load(k) of each operator from `loads` at k0."""
        return [
            load * (own / at) ** loss if load and loss else load
            for load, own, at, loss in zip(loads, k, self.at, self.loss, strict=True)
        ]


def compute_scaled_floor(
    execution: Execution,
    loads: Sequence[float],
    lower: Sequence[int],
    upper: Sequence[int],
    overhead: float,
    scaling: Scaling,
) -> list[int]:
    """Return the floor with capacity(k).

    Args:
        execution: execution model of the engine.
        loads: load of each operator at k0.
        lower: least instances of each operator.
        upper: most instances of each operator.
        overhead: h, share of a micro-batch in which no operator is busy.
        scaling: k0 and γ of each operator.
    """
    if execution == "shared":
        return [_least_workers(loads, max(lower), min(upper), scaling)] * len(loads)
    if execution == "micro-batch":
        return _least_sum(loads, lower, upper, 1.0 - overhead + SLACK, scaling)
    return [
        _least_instances(load, least, most, at, loss)
        for load, least, most, at, loss in zip(loads, lower, upper, scaling.at, scaling.loss, strict=True)
    ]


def _least_instances(load: float, least: int, most: int, at: int, loss: float) -> int:
    """Return the least k with load · (k / k0)^γ ≤ k: the closed form, corrected for rounding."""

    def is_enough(k: int) -> bool:
        return bool(load * (k / at) ** loss * (1 - SLACK) <= k)

    if load <= 0:
        return least
    exact = (math.log(load) - loss * math.log(at)) / (1 - loss)
    k = most if exact >= math.log(most) else min(max(math.ceil(math.exp(exact)), least), most)
    while k < most and not is_enough(k):
        k += 1
    while k > least and is_enough(k - 1):
        k -= 1
    return k


def _least_workers(loads: Sequence[float], least: int, most: int, scaling: Scaling) -> int:
    """Return the least p with Σ load_i(p) ≤ p by bisection: the sum grows more slowly than p, so it crosses p once."""
    low, high = least, most
    while low < high:
        middle = (low + high) // 2
        if sum(scaling.loads(loads, [middle] * len(loads))) * (1 - SLACK) <= middle:
            high = middle
        else:
            low = middle + 1
    return low


def _least_sum(
    loads: Sequence[float], lower: Sequence[int], upper: Sequence[int], budget: float, scaling: Scaling
) -> list[int]:
    def stage_seconds(i: int, k: int) -> float:
        return float(loads[i] * (k / scaling.at[i]) ** scaling.loss[i] / k)

    if sum(stage_seconds(i, most) for i, most in enumerate(upper)) > budget:
        return [most if load > 0 else least for load, least, most in zip(loads, lower, upper, strict=True)]
    k = list(lower)
    left = sum(stage_seconds(i, own) for i, own in enumerate(k)) - budget
    heap = [
        (stage_seconds(i, own + 1) - stage_seconds(i, own), i)
        for i, own in enumerate(k)
        if own < upper[i] and loads[i] > 0
    ]
    heapq.heapify(heap)
    while left > 0 and heap:
        drop, i = heapq.heappop(heap)
        k[i] += 1
        left += drop
        if k[i] < upper[i]:
            heapq.heappush(heap, (stage_seconds(i, k[i] + 1) - stage_seconds(i, k[i]), i))
    return k
