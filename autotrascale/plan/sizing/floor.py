"""The throughput floor k': the least parallelism that sustains the offered rate, for each execution model.

| symbol  | meaning                                                                  | unit      |
|---------|--------------------------------------------------------------------------|-----------|
| load_i  | demand_i / capacity_i, instances of i needed if they always run          | instances |
| k'_i    | the floor                                                                | instances |
| l_i, u_i | least and most instances operator i may have; u_i ≤ P_max               | instances |
| h       | share of a micro-batch in which no operator is busy                      | [0, 1]    |
| s_i     | share of i's records that one instance receives alone, at any k_i        | [0, 1]    |
| f_i, w_i | share of the rest of i's work that at most w_i instances can share       | [0, 1], instances |
| t_i     | duration of the stage of i for each second of input                       | s per s   |
| busy    | time that the busiest part of the job needs; above 1 the job falls behind | s per s   |
| o, b    | fixed cost of a batch, batch time                                        | s         |

    pipelined     k'_i = ceil(load_i)                             every operator owns its instances      (DS2 Eq. 7)
    shared        workers = ceil(Σ load_i)                        every worker runs every operator       (DS2 §4.3)
    micro-batch   least Σ k_i with h + Σ t_i ≤ 1                  stages follow each other on the same slots
                  t_i = load_i · (s_i + (1 − s_i) · g_i)          and last as long as their hottest instance
                  g_i = (1 − f_i) / k_i + f_i / min(k_i, w_i)     1 / k_i, but where a source has w_i partitions' worth

differs: the third row is not in the papers. Two stages of load 3 each at k = (4, 4) are busy for 1.5 s in every second,
which the first row accepts. A stage ends with its longest task, so the records that one instance receives alone (a hot
key, s) are not divided. They are not part of h either, because the stage is running. At the measured k, t_i is exactly
load_i · skew_i / k_i. A topic is read by one task per partition, and further instances wait (f, w). The first two rows
are DS2's, which assumes balanced operators.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import truediv

import numpy as np

from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Execution, NarrowWork, Snapshot
from autotrascale.plan.sizing.demand import Demand
from autotrascale.plan.sizing.scaling_loss import Scaling, compute_scaled_floor

# Loads are quotients of sums of floats, so 10 may read 10.000000000001. Measurements are good to three digits, so a
# slack of one part in a billion changes no measurement and covers a million roundings.
_SLACK = 1e-9
_FEW_STEPS = 400  # up to so many greedy steps are faster than bisection with numpy

Narrows = Sequence[NarrowWork | None]


@dataclass(frozen=True)
class Floor:
    """The throughput floor.

    Args:
        parallelism: k' by operator; the nearest that the bounds allow when the rate is out of reach.
        reach: largest multiple of the demand that the upper bounds sustain; below 1 the rate is out of reach.
        busy: busy share at k'.
    """

    parallelism: Mapping[str, int]
    reach: float
    busy: float

    @property
    def reachable(self) -> bool:
        """True when the upper bounds sustain the demand."""
        return self.reach >= 1 - _SLACK


def compute_floor(demand: Demand, snapshot: Snapshot, loss: Mapping[str, float] | None = None) -> Floor:
    """Return k' for a demand without gaps.

    Sources of unknown capacity keep their parallelism and count as no load.

    Args:
        demand: demand and loads of the operators.
        snapshot: execution model, bounds and skew of the operators.
        loss: γ of operators that scale less than linearly (see `scaling_loss`), default none.

    Raises:
        InputError: the demand has gaps.
    """
    if demand.gaps:
        raise InputError("snapshot", f"cannot be sized: {demand.gaps[0]}", remedy="wait for complete metrics")
    names = list(snapshot.operators)
    loads = [demand.load[name] or 0.0 for name in names]
    hot = [metrics.hot_share for metrics in snapshot.operators.values()]
    narrow = [metrics.narrow for metrics in snapshot.operators.values()]
    lower, upper = _bounds(snapshot, demand.kept_sources)
    overhead = snapshot.overhead_share or 0.0
    if any((loss or {}).values()):
        return _compute_scaled(names, snapshot, loads, lower, upper, loss or {}, hot, narrow)
    match snapshot.execution:
        case "pipelined":
            k = floor_pipelined(loads, lower, upper)
        case "shared":
            k = floor_shared(loads, lower, upper)
        case "micro-batch":
            k = floor_micro_batch(loads, lower, upper, overhead, hot, narrow)
    busy = compute_busy_share(snapshot.execution, overhead, loads, k, hot, narrow)
    reach = _reach(snapshot.execution, overhead, compute_busy_share(snapshot.execution, 0.0, loads, upper, hot, narrow))
    return Floor(dict(zip(names, k, strict=True)), reach, busy)


def _compute_scaled(
    names: Sequence[str],
    snapshot: Snapshot,
    loads: Sequence[float],
    lower: Sequence[int],
    upper: Sequence[int],
    loss: Mapping[str, float],
    hot: Sequence[float],
    narrow: Narrows,
) -> Floor:
    """Return k' with capacity(k). Work of single instances and narrow work beyond its width does not depend on k."""
    running, execution = snapshot.parallelism, snapshot.execution
    scaling = Scaling(tuple(running[name] for name in names), tuple(loss.get(name, 0.0) for name in names))
    overhead, readings = snapshot.overhead_share or 0.0, [(0.0, loads)]
    if execution == "micro-batch":
        readings = [_split_undivided(loads, hot)]
        if any(narrow):
            readings.append(_split_undivided(*_loads_beyond_width(loads, hot, narrow)))
    floors = [
        compute_scaled_floor(execution, rest, lower, upper, overhead + alone, scaling) for alone, rest in readings
    ]
    k = [max(each) for each in zip(*floors, strict=True)]

    def busy(at: Sequence[int], fixed: float) -> float:
        return max(
            compute_busy_share(execution, fixed + alone, scaling.loads(rest, at), at) for alone, rest in readings
        )

    return Floor(dict(zip(names, k, strict=True)), _reach(execution, overhead, busy(upper, 0.0)), busy(k, overhead))


def compute_busy_share(
    execution: Execution,
    overhead: float,
    loads: Sequence[float],
    k: Sequence[int],
    hot: Sequence[float] = (),
    narrow: Narrows = (),
) -> float:
    """Return the share of each second that the busiest part of the job needs; above 1 the job falls behind."""
    match execution:
        case "pipelined":
            return max(load / instances for load, instances in zip(loads, k, strict=True))
        case "shared":
            return sum(loads) / min(k)
        case "micro-batch":
            return overhead + sum(compute_stage_seconds(loads, k, hot, narrow))


def compute_stage_seconds(
    loads: Sequence[float], k: Sequence[int], hot: Sequence[float] = (), narrow: Narrows = ()
) -> list[float]:
    """Return t_i of each stage.

    >>> compute_stage_seconds([3.0, 3.0], [4, 4], [0.0, 0.5])
    [0.75, 1.875]
    """
    shares, parts = hot or [0.0] * len(loads), narrow or [None] * len(loads)
    return [
        load * (s + (1.0 - s) / own if part is None else s + (1.0 - s) * _narrowed_share(own, part))
        for load, own, s, part in zip(loads, k, shares, parts, strict=True)
    ]


def _narrowed_share(k: int, part: NarrowWork) -> float:
    """Return g."""
    return (1.0 - part.share) / k + part.share / min(k, part.width)


def floor_pipelined(loads: Sequence[float], lower: Sequence[int], upper: Sequence[int]) -> list[int]:
    """Return ceil(load_i), within the bounds.

    >>> floor_pipelined([9.2, 10.0], [1, 1], [40, 40])
    [10, 10]
    """
    return [_round_up_within(*each) for each in zip(loads, lower, upper, strict=True)]


def floor_shared(loads: Sequence[float], lower: Sequence[int], upper: Sequence[int]) -> list[int]:
    """Return one number of workers for all operators: ceil(Σ load_i), within the bounds.

    >>> floor_shared([0.4, 1.3], [1, 1], [8, 8])
    [2, 2]
    """
    least, most = max(lower), min(upper)
    if least > most:
        problem = f"leave no common number of workers: one needs {least} or more, another allows {most} at most"
        remedy = "widen minimum and maximum: with shared execution every worker runs every operator"
        raise InputError("operators", problem, remedy=remedy)
    return [_round_up_within(sum(loads), least, most)] * len(loads)


def floor_micro_batch(
    loads: Sequence[float],
    lower: Sequence[int],
    upper: Sequence[int],
    overhead: float = 0.0,
    hot: Sequence[float] = (),
    narrow: Narrows = (),
) -> list[int]:
    """Return k with the least Σ k_i that has h + Σ t_i ≤ 1, within the bounds.

    >>> floor_micro_batch([3, 3], [1, 1], [16, 16])
    [6, 6]

    Work that one instance does alone is as fixed as the overhead. The rest falls by load_i / (k_i (k_i + 1)) with the
    next instance of i, which is less each time. For such a separable convex sum, the greedy choice of the largest drop
    is optimal at every length.

    With narrow work, t_i is the larger of two such sums: one with all work divided, one with k_i beyond the width.
    The floors of both sums are needed, and for a single operator they suffice. Otherwise single instances are added.
    """
    if not any(narrow):
        return _floor_without_narrow_work(loads, lower, upper, overhead, hot)
    shares = hot or [0.0] * len(loads)
    upper = [_most_useful(*each) for each in zip(lower, upper, narrow, strict=True)]
    plain = _floor_without_narrow_work(loads, lower, upper, overhead, shares)
    wide_loads, wide_shares = _loads_beyond_width(loads, shares, narrow)
    wide = _floor_without_narrow_work(wide_loads, lower, upper, overhead, wide_shares)
    k = [max(each) for each in zip(plain, wide, strict=True)]
    while overhead + sum(now := compute_stage_seconds(loads, k, shares, narrow)) > 1.0 + _SLACK:
        more = compute_stage_seconds(loads, [own + 1 for own in k], shares, narrow)
        gains = {at: now[at] - more[at] for at in range(len(k)) if k[at] < upper[at] and now[at] > more[at]}
        if not gains:
            break
        k[max(gains, key=lambda at: gains[at])] += 1
    return k


def _floor_without_narrow_work(
    loads: Sequence[float], lower: Sequence[int], upper: Sequence[int], overhead: float, hot: Sequence[float]
) -> list[int]:
    alone, loads = _split_undivided(loads, hot)
    budget = 1.0 - overhead - alone + _SLACK
    if budget <= 0 or _divided_seconds(loads, upper) > budget:  # out of reach: take every instance that helps
        return [most if load > 0 else least for load, least, most in zip(loads, lower, upper, strict=True)]
    return _greedy(loads, _find_start(loads, lower, upper, budget), upper, budget)


def _most_useful(least: int, most: int, part: NarrowWork | None) -> int:
    """Return the most instances of which each has work: when all divisible work is narrow, not more than its width."""
    return most if part is None or part.share < 1.0 else max(least, min(most, math.ceil(part.width)))


def _loads_beyond_width(
    loads: Sequence[float], hot: Sequence[float], narrow: Narrows
) -> tuple[list[float], list[float]]:
    """Return loads and undivided shares with k beyond every width, where narrow work takes a constant time."""
    found = [
        (load, s) if part is None else _load_beyond_width(load, s, part)
        for load, s, part in zip(loads, hot or [0.0] * len(loads), narrow, strict=True)
    ]
    return [load for load, _ in found], [s for _, s in found]


def _load_beyond_width(load: float, s: float, part: NarrowWork) -> tuple[float, float]:
    alone = load * (s + (1.0 - s) * part.share / part.width)
    whole = alone + load * (1.0 - s) * (1.0 - part.share)
    return whole, alone / whole if whole else 0.0


def compute_batch_seconds(
    fixed_seconds: float, loads: Sequence[float], k: Sequence[int], hot: Sequence[float] = (), narrow: Narrows = ()
) -> float:
    """Return the steady batch time b = o / (1 − Σ t_i); infinite when the job falls behind."""
    spare = 1.0 - sum(compute_stage_seconds(loads, k, hot, narrow))
    return fixed_seconds / spare if spare > 0 else math.inf


def compute_batch_latency(batch: float) -> float:
    """Return the mean latency of a record: it waits b / 2 for its batch to start, and b until the batch ends."""
    return 1.5 * batch


def _round_up_within(load: float, least: int, most: int) -> int:
    if load >= most:  # also keeps huge loads away from ceil
        return most
    return max(least, math.ceil(load * (1.0 - _SLACK)))


def _bounds(snapshot: Snapshot, kept: frozenset[str]) -> tuple[list[int], list[int]]:
    lower, upper = [], []
    for name, metrics in snapshot.operators.items():
        least, most = metrics.minimum, min(metrics.maximum or snapshot.p_max, snapshot.p_max)
        if name in kept and snapshot.execution != "shared":
            least = most = min(max(metrics.parallelism, least), most)
        lower.append(least)
        upper.append(most)
    return lower, upper


def _reach(execution: Execution, overhead: float, busy: float) -> float:
    """Return the largest multiple of the demand that the upper bounds sustain.

    `busy` is the busy share at the upper bounds without the overhead, which does not grow with the demand.
    """
    budget = 1.0 - overhead if execution == "micro-batch" else 1.0
    return budget / busy if busy > 0 else math.inf


def _split_undivided(loads: Sequence[float], hot: Sequence[float]) -> tuple[float, Sequence[float]]:
    """Return the seconds of undivided work for each second of input, and the loads without it."""
    if not hot:
        return 0.0, loads
    alone = sum(load * s for load, s in zip(loads, hot, strict=True))
    return alone, [load * (1.0 - s) for load, s in zip(loads, hot, strict=True)]


def _divided_seconds(loads: Sequence[float], k: Sequence[int]) -> float:
    """Return Σ load_i / k_i: seconds of evenly divided work for each second of input, stage after stage."""
    return sum(load / instances for load, instances in zip(loads, k, strict=True))


def _greedy(loads: Sequence[float], start: Sequence[int], upper: Sequence[int], budget: float) -> list[int]:
    """Return `start` plus instances, each given to the largest drop (the first of equals), until the budget holds."""
    k = list(start)
    seconds = _divided_seconds(loads, k)
    unsure = 1e-9 * max(1.0, seconds)  # rounding error of the running sum after a million steps
    heap = [(-_drop(loads[i], k[i]), i) for i in range(len(k)) if k[i] < upper[i]]
    heapq.heapify(heap)
    while heap:
        if seconds <= budget + unsure:  # near the end the exact sum decides
            seconds, unsure = math.fsum(map(truediv, loads, k)), 1e-12
            if seconds <= budget:
                break
        drop, i = heap[0]
        seconds += drop
        k[i] += 1
        if k[i] < upper[i]:
            heapq.heapreplace(heap, (-_drop(loads[i], k[i]), i))
        else:
            heapq.heappop(heap)
    return k


def _drop(load: float, instances: int) -> float:
    """Return load/k − load/(k+1) as one quotient; the difference of nearly equal numbers would lose its digits."""
    return load / (instances * (instances + 1))


def _find_start(loads: Sequence[float], lower: Sequence[int], upper: Sequence[int], budget: float) -> Sequence[int]:
    """Return a start from which the greedy search gives the same answer in far fewer steps.

    Every vector on the greedy path consists, up to ties, of all drops above some threshold τ. Bisection finds a τ
    whose vector misses the budget, so it lies on the path, and lies few instances below the answer.
    """
    root = sum(map(math.sqrt, loads))
    if root * root / budget <= _FEW_STEPS:  # Σ k of the real-valued optimum, k_i = √load_i · Σ √load / budget
        return lower
    w, least, most = np.asarray(loads, float), np.asarray(lower, np.int64), np.asarray(upper, np.int64)

    def meets(k: np.ndarray) -> bool:
        return float((w / k).sum()) <= budget

    over = under = (budget / root) ** 2  # τ of the real-valued optimum: load_i / k_i²
    lowest = over * 1e-30  # ends the loop when rounding keeps the sum above a budget that the bounds just meet
    while meets(taken := _take_drops_above(under, w, least, most)):
        if (taken <= least).all():
            return lower
        under *= 4
    while not meets(more := _take_drops_above(over, w, least, most)) and over > lowest:
        over /= 4
    while under > over * (1 + 1e-12) and (more - taken).sum() > len(w) // 4:
        middle = math.sqrt(under * over)
        k = _take_drops_above(middle, w, least, most)
        if meets(k):
            over, more = middle, k
        else:
            under, taken = middle, k
    return [int(instances) for instances in taken]


def _take_drops_above(threshold: float, w: np.ndarray, least: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Return for each operator the least k with load/(k(k+1)) ≤ τ: all drops above the threshold are taken."""
    root = np.ceil((np.sqrt(1.0 + 4.0 * w / threshold) - 1.0) / 2.0)
    k = np.clip(root, least, most).astype(np.int64)
    one_too_many = (k > least) & (w / (k * (k - 1)).clip(1) <= threshold)  # the root is rounded
    return np.where(one_too_many, k - 1, k)
