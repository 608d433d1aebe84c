"""Down from too much, in few runs.

    symbol  meaning
    k       instances of an operator in a run that held the rate
    f       the floor that was recommended from that run
    s       how f moved with k, from one run to the next: (f₀ − f₁) / (k₀ − k₁)
    k*      where the recommendation would recommend itself: (f₁ − s·k₁) / (1 − s)

Where a job has too much, its tasks stand in each other's way and each has a cost of its own, so every instance seems to
carry less than it will when there are fewer: f < k, and the next f is lower still. Two runs give a line, and the line
k*. It is a guess, so no operator goes below half of what was recommended at once; the run that follows tells.

differs: the papers begin with one instance of each operator and stop at the first run that holds the rate. A job that
runs already begins with what somebody guessed, which holds it with far too much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_WORTH = 0.05  # share of the instances: for less no third run is made

Descended = tuple[Mapping[str, int], Mapping[str, int]]
"""What ran, and the floor that was recommended from it."""


def propose_lower(runs: Sequence[Descended], least: Mapping[str, int]) -> dict[str, int] | None:
    """What to run after these, the last of which held the rate; None where it has hardly too much."""
    ran, floor = runs[-1]
    if len(runs) == 1:
        return dict(floor) if sum(floor.values()) < sum(ran.values()) else None
    ran_before, floor_before = runs[-2]
    lower = {
        name: max(least[name], _on_the_line((ran_before[name], floor_before[name]), (ran[name], floor[name])))
        for name in floor
    }
    return lower if sum(lower.values()) <= (1 - _WORTH) * sum(ran.values()) else None


def _on_the_line(before: tuple[int, int], last: tuple[int, int]) -> int:
    (k0, f0), (k1, f1) = before, last
    if k0 == k1 or not 0 < (s := (f0 - f1) / (k0 - k1)) < 1:
        return f1
    return min(f1, max(math.ceil((f1 - s * k1) / (1 - s)), math.ceil(f1 / 2)))
