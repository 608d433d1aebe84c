"""The best point of a lattice that is too large to enumerate: descents from many starts, all of them at once.

| symbol | meaning |
|---|---|
| v | value of a point, −inf where it is not allowed |
| m | starts |
| N | operators |

Each round looks at every value of one operator, for all starts in one call; when no operator alone helps any more,
pairs of operators of the best start are stepped together, which is what moves along the edge of the stop rule. Where
the lattice is small enough, tests/execute/test_simulator_problems.py compares what is found with all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from autotrascale.execute.simulator.case import Case, Optimum, Point
from autotrascale.execute.simulator.lattice import Ints, sample_frugal

Floats = NDArray[np.float64]
Value = Callable[[Ints], Floats]

SAMPLES, STARTS = 1500, 12
_STEPS = (-8, -5, -3, -2, -1, 1, 2, 3, 5, 8)  # of pairs
_GAIN = 1e-12  # less is rounding


def least_latency(case: Case, r_min: float) -> Point:
    """The lowest true latency among the points with r(k) ≥ r_min."""
    k = climb(lambda K: _allowed(case, K, r_min, -case.latency(K)), _starts(case, r_min), case.floor, case.p_max)
    return _point(case, k)


def optimum(case: Case) -> Optimum:
    """The highest score found anywhere, and the highest among the points that meet the target."""
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
    """The best point that ascents of `value` from `starts` reach."""
    K, V = _sweep(value, starts, floor, p_max)
    best, top = K[[int(V.argmax())]], float(V.max())
    while True:
        pairs = _pairs(best[0], floor, p_max)
        if len(pairs) == 0:
            break
        values = value(pairs)
        i = int(values.argmax())
        if values[i] <= top + _GAIN:
            break
        best, reached = _sweep(value, pairs[[i]], floor, p_max)
        top = float(reached[0])
    return tuple(int(x) for x in best[0])


def _sweep(value: Value, starts: Ints, floor: Sequence[int], p_max: int) -> tuple[Ints, Floats]:
    """Operator by operator, until none alone helps any start."""
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
            better = found > V + _GAIN
            K[better, i], V = choices[j[better]], np.where(better, found, V)
        if (before >= V).all():
            return K, V


def _pairs(k: Ints, floor: Sequence[int], p_max: int) -> Ints:
    """k with two operators stepped at a time."""
    n, steps = len(k), np.array(_STEPS)
    if n < 2:
        return np.empty((0, n), dtype=np.int64)
    first, second = np.triu_indices(n, 1)
    rows = np.tile(k, (len(first), len(steps), len(steps), 1))
    pair = np.arange(len(first))[:, None, None]
    rows[pair, np.arange(len(steps))[None, :, None], np.arange(len(steps))[None, None, :], first[:, None, None]] += (
        steps[None, :, None]
    )
    rows[pair, np.arange(len(steps))[None, :, None], np.arange(len(steps))[None, None, :], second[:, None, None]] += (
        steps[None, None, :]
    )
    flat = rows.reshape(-1, n)
    inside = ((flat >= np.asarray(floor)) & (flat <= p_max)).all(axis=1)
    return np.asarray(flat[inside], dtype=np.int64)


def _starts(case: Case, r_min: float) -> Ints:
    """The floor, and of a sample those of the lowest latency and those of the best score."""
    K = sample_frugal(case.floor, case.p_max, r_min, SAMPLES, np.random.default_rng(case.seed))
    latency = case.latency(K)
    fast = np.argsort(latency)[: STARTS // 2]
    good = np.argsort(-case.benefit.score(K, latency))[: STARTS // 2]
    return np.unique(np.concatenate([[case.floor], K[fast], K[good]]).astype(np.int64), axis=0)


def _allowed(case: Case, K: Ints, r_min: float, value: Floats) -> Floats:
    return np.where(case.benefit.resources(K) >= r_min - 1e-9, value, -np.inf)


def _point(case: Case, k: tuple[int, ...]) -> Point:
    return Point(k, float(case.score([k])[0]), float(case.latency([k])[0]))
