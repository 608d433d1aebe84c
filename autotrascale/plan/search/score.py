"""The benefit score of a configuration, and the rule that says when it is good enough (Eq. 4, 8, 9).

symbol  meaning                                                        unit
k, k'   parallelism vector, throughput-optimal floor                   instances
l_r     measured latency                                               s
l_t     target latency                                                 s
α       weight of latency against resources, in [0, 1]
w       allowed over-allocation ratio, ≥ 0
F       benefit score, in (0, 1]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Benefit:
    """What a run is worth: everything in Eq. 4 but k and l_r.

    >>> benefit = Benefit(floor=(2, 4), latency_target=0.2, alpha=0.5, over_allocation=0.5)
    >>> float(benefit.score((4, 4), latency=0.4))
    0.625
    """

    floor: tuple[int, ...]
    latency_target: float
    alpha: float = 0.5
    over_allocation: float = 0.5

    def __post_init__(self) -> None:
        if not self.floor:
            raise InputError("floor", "is empty", remedy="give one parallelism for each operator")
        for index, k in enumerate(self.floor):
            checks.count(f"floor[{index}]", k)
        checks.positive_in_range("latency_target", self.latency_target)
        checks.share("alpha", self.alpha)
        checks.non_negative("over_allocation", self.over_allocation)
        # Plain numbers from here on: a model is written as JSON, which knows none of numpy's.
        object.__setattr__(self, "floor", tuple(map(int, self.floor)))
        for name in ("latency_target", "alpha", "over_allocation"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def threshold(self) -> float:
        """The least score that stops the search."""
        return self.alpha + (1 - self.alpha) / (1 + self.over_allocation)  # Eq. 9

    def resources(self, ks: ArrayLike) -> Floats:
        """(1/N) Σ k'_i/k_i: the second term of Eq. 4, known before anything is run."""
        ratio = np.asarray(self.floor, dtype=float) / np.asarray(ks, dtype=float)
        return np.asarray(ratio.mean(axis=-1))

    def score(self, ks: ArrayLike, latency: ArrayLike) -> Floats:
        """F (Eq. 4). A latency of infinity, which is what a job that fell over has, earns nothing."""
        with np.errstate(over="ignore"):  # a latency next to nothing is within any target
            speed = np.minimum(1.0, self.latency_target / np.asarray(latency, dtype=float))
        return self.alpha * speed + (1 - self.alpha) * self.resources(ks)

    def satisfied(self, k: Sequence[int], latency: float) -> bool:
        """The stop rule (Alg. 1, l. 8). differs: the printed ≪ and ≫ are ≤ and ≥."""
        return latency <= self.latency_target and float(self.score(k, latency)) >= self.threshold - _ROUNDING


# 0.5 + 0.5 · (2/3) and its pieces summed in another order differ in the last bits; a point exactly on the rule is in.
_ROUNDING = 1e-9
