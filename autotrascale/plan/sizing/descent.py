"""Find the throughput floor from above, in few runs.

    symbol  meaning
    k       instances of an operator in a run that held the rate
    f       floor that this run recommends
    s       slope of f over k between two runs: (f₀ − f₁) / (k₀ − k₁)
    k*      parallelism that recommends itself: (f₁ − s·k₁) / (1 − s)

In an over-provisioned job, tasks compete and each task has a fixed cost, so an instance seems to carry less than it
will with fewer instances: f < k, and the next f is lower still. Two runs give a line, and the line gives k*. It is an
extrapolation, so no operator goes below half of its recommendation at once. The next run checks it.

differs: the papers start with one instance of each operator and stop at the first run that holds the rate. A running
job starts with a guessed parallelism, which is often far too high.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_WORTH = 0.05  # least share of instances saved that justifies another run

DescentRun = tuple[Mapping[str, int], Mapping[str, int]]
"""Parallelism of a run, and the floor that it recommends."""


def propose_lower(runs: Sequence[DescentRun], least: Mapping[str, int]) -> dict[str, int] | None:
    """Return the parallelism to run next after `runs`, the last of which held the rate; None when little can be saved.

    Args:
        runs: runs so far, oldest first.
        least: least instances of each operator.
    """
    ran, floor = runs[-1]
    if len(runs) == 1:
        return dict(floor) if sum(floor.values()) < sum(ran.values()) else None
    ran_before, floor_before = runs[-2]
    lower = {
        name: max(least[name], _extrapolate((ran_before[name], floor_before[name]), (ran[name], floor[name])))
        for name in floor
    }
    return lower if sum(lower.values()) <= (1 - _WORTH) * sum(ran.values()) else None


def _extrapolate(before: tuple[int, int], last: tuple[int, int]) -> int:
    (k0, f0), (k1, f1) = before, last
    if k0 == k1 or not 0 < (s := (f0 - f1) / (k0 - k1)) < 1:
        return f1
    return min(f1, max(math.ceil((f1 - s * k1) / (1 - s)), math.ceil(f1 / 2)))
