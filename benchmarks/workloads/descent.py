"""The best point of a lattice that is too large to enumerate, by ascents from many starts at once.

| symbol | meaning |
|---|---|
| v | value of a point, −inf for a point that is not allowed |
| m | number of starts |
| N | number of operators |

Each round tries all values of one operator, for all starts in one call. When no single operator improves a point, two
and three operators of the best points are stepped together, which moves along the edge of the stop rule.
tests/workloads/test_problems.py compares the result with a full enumeration of small lattices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from benchmarks.workloads.case import Case, Optimum, Point
from benchmarks.workloads.lattice import Ints, sample_frugal

Floats = NDArray[np.float64]
Value = Callable[[Ints], Floats]

SAMPLES, STARTS = 1500, 16
POLISHED = 4  # ends of ascents that are improved further
_STEPS = {
    2: (-13, -8, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 8, 13),
    3: (-3, -2, -1, 1, 2, 3),
}  # steps of pairs and of triples
_FEW_OPERATORS = 8  # beyond, there are too many triples, and only one end is improved
_LEAST_GAIN = 1e-12  # smaller gains are rounding errors


def bound_least_latency(case: Case, r_min: float) -> float:
    """Return an upper bound of the latency that `least_latency` finds, much faster."""
    starts = _starts(case, r_min, samples=100)
    _, V = _sweep(lambda K: _allowed(case, K, r_min, -case.latency(K)), starts, case.floor, case.p_max)
    return -float(V.max())


def find_least_latency(case: Case, r_min: float) -> Point:
    """Return the point with the lowest true latency among those with r(k) ≥ r_min."""
    k = climb(lambda K: _allowed(case, K, r_min, -case.latency(K)), _starts(case, r_min), case.floor, case.p_max)
    return _point(case, k)


def find_optimum(case: Case) -> Optimum:
    """Return the point with the highest score, and the best point that meets the target."""
    starts = np.concatenate([_starts(case, case.resource_limit), _starts(case, 0.0)])
    seen = [0]

    def met(K: Ints) -> Floats:
        latency = case.latency(K)
        return np.where(latency <= case.latency_target, case.benefit.score(K, latency), -latency)

    def score(K: Ints) -> Floats:
        seen[0] += len(K)
        return case.score(K)

    feasible = _point(case, climb(met, starts, case.floor, case.p_max))
    near = np.asarray([feasible.parallelism], dtype=np.int64)
    best = _point(case, climb(score, np.concatenate([starts, near]), case.floor, case.p_max))
    reached = feasible.latency <= case.latency_target
    return Optimum(best, feasible if reached else None, seen[0])


def climb(value: Value, starts: Ints, floor: Sequence[int], p_max: int) -> tuple[int, ...]:
    """Return the best point that ascents of `value` from `starts` reach."""
    K, V = _sweep(value, starts, floor, p_max)
    ends_kept = POLISHED if len(floor) <= _FEW_OPERATORS else 1
    tops = np.unique(K[np.argsort(-V)[:ends_kept]], axis=0)
    ends = [_polish(value, k, floor, p_max) for k in tops]
    best, _ = max(ends, key=lambda end: end[1])
    return tuple(int(x) for x in best)


def _polish(value: Value, k: Ints, floor: Sequence[int], p_max: int) -> tuple[Ints, float]:
    """Step several operators together, and then each alone, until neither helps."""
    top = float(value(k[None])[0])
    while True:
        for together in (2, 3) if len(k) <= _FEW_OPERATORS else (2,):
            near = _moves(k, floor, p_max, together)
            values = value(near)
            i = int(values.argmax())
            if values[i] > top + _LEAST_GAIN:
                K, V = _sweep(value, near[[i]], floor, p_max)
                k, top = K[0], float(V[0])
                break
        else:
            return k, top


def _sweep(value: Value, starts: Ints, floor: Sequence[int], p_max: int) -> tuple[Ints, Floats]:
    """Improve all starts operator by operator, until no single operator helps."""
    K = starts.copy()
    V = value(K)
    while True:
        before = V.copy()
        for i, low in enumerate(floor):
            choices = np.arange(low, p_max + 1)
            rows = np.repeat(K, len(choices), axis=0)
            rows[:, i] = np.tile(choices, len(K))
            values = value(rows).reshape(len(K), len(choices))
            j = values.argmax(axis=1)
            found = values[np.arange(len(K)), j]
            better = found > V + _LEAST_GAIN
            K[better, i], V = choices[j[better]], np.where(better, found, V)
        if (before >= V).all():
            return K, V


def _moves(k: Ints, floor: Sequence[int], p_max: int, together: int) -> Ints:
    """Return k, and k with `together` operators stepped at once."""
    steps = np.array(_STEPS[together])
    which = np.array(list(combinations(range(len(k)), together)), dtype=np.int64).reshape(-1, together)
    by = np.stack(np.meshgrid(*[steps] * together, indexing="ij"), axis=-1).reshape(-1, together)
    rows = np.tile(k, (len(which), len(by), 1))
    np.put_along_axis(
        rows, np.broadcast_to(which[:, None], (*rows.shape[:2], together)), k[which][:, None] + by, axis=2
    )
    flat = np.concatenate([k[None], rows.reshape(-1, len(k))])
    inside = ((flat >= np.asarray(floor)) & (flat <= p_max)).all(axis=1)
    return np.asarray(flat[inside], dtype=np.int64)


def _starts(case: Case, r_min: float, samples: int = SAMPLES) -> Ints:
    """Return the floor, and the points of a sample with the lowest latencies and the best scores."""
    K = sample_frugal(case.floor, case.p_max, r_min, samples, np.random.default_rng(case.seed))
    latency = case.latency(K)
    fast = np.argsort(latency)[: STARTS // 2]
    good = np.argsort(-case.benefit.score(K, latency))[: STARTS // 2]
    return np.unique(np.concatenate([[case.floor], K[fast], K[good]]).astype(np.int64), axis=0)


def _allowed(case: Case, K: Ints, r_min: float, value: Floats) -> Floats:
    return np.where(case.benefit.resources(K) >= r_min - 1e-9, value, -np.inf)


def _point(case: Case, k: tuple[int, ...]) -> Point:
    return Point(k, float(case.score([k])[0]), float(case.latency([k])[0]))
