"""The bootstrap set: the first samples of a cold search (§III-D).

symbol  meaning
M       number of uniform samples, ≥ 2
N       number of operators
"""

from __future__ import annotations

from collections.abc import Sequence

from autotrascale.domain import checks
from autotrascale.plan.search.lattice import Lattice, Point


def bootstrap_set(floor: Sequence[int], p_max: int | Sequence[int], uniform: int = 6) -> list[Point]:
    """M uniform samples from k'_max to P_max and N one-hot ones, duplicates collapsed, in the paper's order.

    >>> bootstrap_set((1, 2), 4, uniform=2)
    [(2, 2), (4, 4), (4, 2), (1, 4)]

    differs: with bounds of their own, operators stop at their own bound.
    """
    checks.count("uniform", uniform, least=2)
    lattice = Lattice.between(floor, p_max)
    low, high = max(lattice.lower), max(lattice.upper)
    steps = [round(low + i * (high - low) / (uniform - 1)) for i in range(uniform)]
    samples = [lattice.clip((step,) * len(lattice.lower)) for step in steps]
    for i, top in enumerate(lattice.upper):
        samples.append((*lattice.lower[:i], top, *lattice.lower[i + 1 :]))
    return list(dict.fromkeys(samples))
