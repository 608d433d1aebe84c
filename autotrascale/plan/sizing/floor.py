"""The throughput floor k': the least parallelism that sustains the offered rate, for the way the engine runs operators.

| symbol  | meaning                                                                  | unit      |
|---------|--------------------------------------------------------------------------|-----------|
| load_i  | demand_i / capacity_i: instances of i needed if they may always run      | instances |
| k'_i    | the floor                                                                | instances |
| l_i, u_i | least and most instances operator i may have; u_i ≤ P_max               | instances |
| h       | share of a micro-batch in which no operator is busy                      | [0, 1]    |
| s_i     | share of i's records that one instance takes in alone, whatever k_i is   | [0, 1]    |
| f_i, w_i | share of the rest of i's work that w_i instances share at most            | [0, 1], instances |
| t_i     | seconds that the stage of i lasts for each second of input                | s per s   |
| busy    | what must not exceed 1 for the job to keep up                            | s per s   |
| o, b    | fixed cost of a batch, batch time                                        | s         |

    pipelined     k'_i = ceil(load_i)                             every operator owns its instances      (DS2 Eq. 7)
    shared        workers = ceil(Σ load_i)                        every worker runs every operator       (DS2 §4.3)
    micro-batch   least Σ k_i with h + Σ t_i ≤ 1                  stages follow each other on the same slots
                  t_i = load_i · (s_i + (1 − s_i) · g_i)          and last as long as their hottest instance
                  g_i = (1 − f_i) / k_i + f_i / min(k_i, w_i)     1 / k_i, but where a source has w_i partitions' worth

differs: the third row is not in the papers. Two stages of load 3 each at k = (4, 4) would be busy 1.5 s in every
second, which the first row calls more than enough. A stage ends with its longest task: the part of the records that one
instance takes in alone (a hot key) is not divided, and h does not hold it, for the stage is running. At the k that was
measured t_i is exactly load_i · skew_i / k_i. A topic is read by as many tasks as it has partitions, however many
instances wait beside them (f, w). The first two rows stay DS2's, which take operators as balanced.
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

# Loads are quotients of sums of floats: 10.000000000001 is a 10 that was added up in another order. Measurements are
# good to three digits, so a part in a billion moves nothing that was measured, and it is a million roundings wide.
_SLACK = 1e-9
# Below this many greedy steps, taking them one by one is faster than jumping with numpy.
_FEW_STEPS = 400

Narrows = Sequence[NarrowWork | None]


@dataclass(frozen=True)
class Floor:
    """`parallelism` is k'. `reach` is how many times the demand the upper bounds sustain: below 1, the rate is out of
    reach and `parallelism` is the nearest that the bounds allow. `busy` is the busiest part's share at k'."""

    parallelism: Mapping[str, int]
    reach: float
    busy: float

    @property
    def reachable(self) -> bool:
        return self.reach >= 1 - _SLACK


def compute_floor(demand: Demand, snapshot: Snapshot, loss: Mapping[str, float] | None = None) -> Floor:
    """k' for a demand without gaps. Sources of unknown capacity keep what they run with and count as no load.
    `loss`: γ of operators of which k instances do less than k times the work (`scaling.py`)."""
    if demand.gaps:
        raise InputError("snapshot", f"cannot be sized: {demand.gaps[0]}", remedy="hold, and wait for whole metrics")
    names = list(snapshot.operators)
    loads = [demand.load[name] or 0.0 for name in names]
    hot = [metrics.hot_share for metrics in snapshot.operators.values()]
    narrow = [metrics.narrow for metrics in snapshot.operators.values()]
    lower, upper = _bounds(snapshot, demand.kept)
    overhead = snapshot.overhead_share or 0.0
    if any((loss or {}).values()):
        return _scaled(names, snapshot, loads, lower, upper, loss or {}, hot, narrow)
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


def _scaled(
    names: Sequence[str],
    snapshot: Snapshot,
    loads: Sequence[float],
    lower: Sequence[int],
    upper: Sequence[int],
    loss: Mapping[str, float],
    hot: Sequence[float],
    narrow: Narrows,
) -> Floor:
    """The same with capacity(k). Loads grow in proportion to the demand at any k, so `reach` is as above. What one
    instance does alone costs what it costs, however many others there are; so does what is narrow, beyond its width."""
    running, execution = snapshot.parallelism, snapshot.execution
    scaling = Scaling(tuple(running[name] for name in names), tuple(loss.get(name, 0.0) for name in names))
    overhead, readings = snapshot.overhead_share or 0.0, [(0.0, loads)]
    if execution == "micro-batch":
        readings = [_undivided(loads, hot)]
        if any(narrow):
            readings.append(_undivided(*_beyond(loads, hot, narrow)))
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
    """The share of each second that the busiest part of the job needs: above 1 it falls behind."""
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
    """t_i for each stage: `stage_seconds([3.0, 3.0], [4, 4], [0.0, 0.5])` is `[0.75, 1.875]`."""
    shares, parts = hot or [0.0] * len(loads), narrow or [None] * len(loads)
    return [
        load * (s + (1.0 - s) / own if part is None else s + (1.0 - s) * _spread(own, part))
        for load, own, s, part in zip(loads, k, shares, parts, strict=True)
    ]


def _spread(k: int, part: NarrowWork) -> float:
    """g."""
    return (1.0 - part.share) / k + part.share / min(k, part.width)


def floor_pipelined(loads: Sequence[float], lower: Sequence[int], upper: Sequence[int]) -> list[int]:
    """`pipelined([9.2, 10.0], [1, 1], [40, 40])` is `[10, 10]`."""
    return [_instances(*each) for each in zip(loads, lower, upper, strict=True)]


def floor_shared(loads: Sequence[float], lower: Sequence[int], upper: Sequence[int]) -> list[int]:
    """One worker count for all: `shared([0.4, 1.3], [1, 1], [8, 8])` is `[2, 2]`."""
    least, most = max(lower), min(upper)
    if least > most:
        raise InputError(
            "operators",
            f"leave no common number of workers: one needs {least} or more, another allows {most} at most",
            remedy="widen minimum and maximum: with shared execution every worker runs every operator",
        )
    return [_instances(sum(loads), least, most)] * len(loads)


def floor_micro_batch(
    loads: Sequence[float],
    lower: Sequence[int],
    upper: Sequence[int],
    overhead: float = 0.0,
    hot: Sequence[float] = (),
    narrow: Narrows = (),
) -> list[int]:
    """Least Σ k_i with h + Σ t_i ≤ 1: `micro_batch([3, 3], [1, 1], [16, 16])` is `[6, 6]`.

    What one instance does alone is as fixed as the overhead. The rest falls by load_i / (k_i (k_i + 1)) with the next
    instance of i, less each time. For such a separable convex sum the greedy choice, always the largest drop, is
    optimal at every length.

    What is narrow makes t_i the larger of two such sums, as if it had its width and as if it had none: the floor of
    either is needed, and for one operator both together are enough.
    """
    if not any(narrow):
        return _micro_batch(loads, lower, upper, overhead, hot)
    shares = hot or [0.0] * len(loads)
    upper = [_most_useful(*each) for each in zip(lower, upper, narrow, strict=True)]
    plain = _micro_batch(loads, lower, upper, overhead, shares)
    wide_loads, wide_shares = _beyond(loads, shares, narrow)
    wide = _micro_batch(wide_loads, lower, upper, overhead, wide_shares)
    k = [max(each) for each in zip(plain, wide, strict=True)]
    while overhead + sum(now := compute_stage_seconds(loads, k, shares, narrow)) > 1.0 + _SLACK:
        more = compute_stage_seconds(loads, [own + 1 for own in k], shares, narrow)
        gains = {at: now[at] - more[at] for at in range(len(k)) if k[at] < upper[at] and now[at] > more[at]}
        if not gains:
            break
        k[max(gains, key=lambda at: gains[at])] += 1
    return k


def _micro_batch(
    loads: Sequence[float], lower: Sequence[int], upper: Sequence[int], overhead: float, hot: Sequence[float]
) -> list[int]:
    alone, loads = _undivided(loads, hot)
    budget = 1.0 - overhead - alone + _SLACK
    if budget <= 0 or _divided_seconds(loads, upper) > budget:  # out of reach: every instance that helps is wanted
        return [most if load > 0 else least for load, least, most in zip(loads, lower, upper, strict=True)]
    return _greedy(loads, _under_estimate(loads, lower, upper, budget), upper, budget)


def _most_useful(least: int, most: int, part: NarrowWork | None) -> int:
    """Where all that is divided is narrow, instances beyond its width do nothing at all."""
    return most if part is None or part.share < 1.0 else max(least, min(most, math.ceil(part.width)))


def _beyond(loads: Sequence[float], hot: Sequence[float], narrow: Narrows) -> tuple[list[float], list[float]]:
    """Loads and what single instances do alone, of an operator whose instances are more than its width: the narrow
    part lasts as long as it does there, and the rest is divided."""
    found = [
        (load, s) if part is None else _wide(load, s, part)
        for load, s, part in zip(loads, hot or [0.0] * len(loads), narrow, strict=True)
    ]
    return [load for load, _ in found], [s for _, s in found]


def _wide(load: float, s: float, part: NarrowWork) -> tuple[float, float]:
    alone = load * (s + (1.0 - s) * part.share / part.width)
    whole = alone + load * (1.0 - s) * (1.0 - part.share)
    return whole, alone / whole if whole else 0.0


def compute_batch_seconds(
    fixed_seconds: float, loads: Sequence[float], k: Sequence[int], hot: Sequence[float] = (), narrow: Narrows = ()
) -> float:
    """b = o / (1 − Σ t_i), the batch time that repeats itself; infinite when the job falls behind."""
    spare = 1.0 - sum(compute_stage_seconds(loads, k, hot, narrow))
    return fixed_seconds / spare if spare > 0 else math.inf


def compute_batch_latency(batch: float) -> float:
    """A record waits b / 2 for its batch to start, and then b until it ends."""
    return 1.5 * batch


def _instances(load: float, least: int, most: int) -> int:
    if load >= most:  # before ceil, which cannot take what is beyond an integer's reach cheaply
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
    """The largest multiple of the demand that the upper bounds sustain. `busy`: what they are at the demand, without
    the overhead, which does not grow with it."""
    budget = 1.0 - overhead if execution == "micro-batch" else 1.0
    return budget / busy if busy > 0 else math.inf


def _undivided(loads: Sequence[float], hot: Sequence[float]) -> tuple[float, Sequence[float]]:
    """What single instances do alone, in seconds for each second of input, and the loads without it."""
    if not hot:
        return 0.0, loads
    alone = sum(load * s for load, s in zip(loads, hot, strict=True))
    return alone, [load * (1.0 - s) for load, s in zip(loads, hot, strict=True)]


def _divided_seconds(loads: Sequence[float], k: Sequence[int]) -> float:
    """Σ load_i / k_i: seconds of work that is divided evenly, one stage after another, for each second of input."""
    return sum(load / instances for load, instances in zip(loads, k, strict=True))


def _greedy(loads: Sequence[float], start: Sequence[int], upper: Sequence[int], budget: float) -> list[int]:
    """Give the next instance to the largest drop (the first of equals) until the budget holds."""
    k = list(start)
    seconds = _divided_seconds(loads, k)
    unsure = 1e-9 * max(1.0, seconds)  # what the running difference may be off by after a million steps
    heap = [(-_drop(loads[i], k[i]), i) for i in range(len(k)) if k[i] < upper[i]]
    heapq.heapify(heap)
    while heap:
        if seconds <= budget + unsure:  # near the end the exact sum decides, whichever way led here
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
    """load/k − load/(k+1), as one quotient: the difference of two near equals would lose its digits."""
    return load / (instances * (instances + 1))


def _under_estimate(loads: Sequence[float], lower: Sequence[int], upper: Sequence[int], budget: float) -> Sequence[int]:
    """A start from which greedy gives the same answer in far fewer steps.

    Every vector that greedy passes is, up to ties, "all drops above some τ were taken". Bisection finds a τ whose
    vector does not meet the budget yet, so greedy passes through it, and which lies few instances below the answer.
    """
    root = sum(map(math.sqrt, loads))
    if root * root / budget <= _FEW_STEPS:  # Σ k of the real-valued optimum, k_i = √load_i · Σ √load / budget
        return lower
    w, least, most = np.asarray(loads, float), np.asarray(lower, np.int64), np.asarray(upper, np.int64)

    def meets(k: np.ndarray) -> bool:
        return float((w / k).sum()) <= budget

    over = under = (budget / root) ** 2  # τ of the real-valued optimum: load_i / k_i²
    lowest = over * 1e-30  # numpy may add up a hair above a budget that holds at the very bounds: do not look for ever
    while meets(taken := _all_above(under, w, least, most)):
        if (taken <= least).all():
            return lower
        under *= 4
    while not meets(more := _all_above(over, w, least, most)) and over > lowest:
        over /= 4
    while under > over * (1 + 1e-12) and (more - taken).sum() > len(w) // 4:
        middle = math.sqrt(under * over)
        k = _all_above(middle, w, least, most)
        if meets(k):
            over, more = middle, k
        else:
            under, taken = middle, k
    return [int(instances) for instances in taken]


def _all_above(threshold: float, w: np.ndarray, least: np.ndarray, most: np.ndarray) -> np.ndarray:
    """For each operator the k that has taken every drop above the threshold: the least k with load/(k(k+1)) ≤ τ."""
    root = np.ceil((np.sqrt(1.0 + 4.0 * w / threshold) - 1.0) / 2.0)
    k = np.clip(root, least, most).astype(np.int64)
    one_too_many = (k > least) & (w / (k * (k - 1)).clip(1) <= threshold)  # the root is rounded, the drop decides
    return np.where(one_too_many, k - 1, k)
