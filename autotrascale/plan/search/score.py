"""The benefit score of a configuration, and the stop rule (Eq. 4, 8, 9).

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
    """The benefit score: all of Eq. 4 but k and l_r.

    Args:
        floor: k', instances of each operator.
        latency_target: l_t in seconds.
        alpha: α, default 0.5.
        over_allocation: w, default 0.5.

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
        # JSON cannot write the number types of numpy.
        object.__setattr__(self, "floor", tuple(map(int, self.floor)))
        for name in ("latency_target", "alpha", "over_allocation"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def threshold(self) -> float:
        """The least score that stops the search (Eq. 9)."""
        return self.alpha + (1 - self.alpha) / (1 + self.over_allocation)  # Eq. 9

    def resources(self, ks: ArrayLike) -> Floats:
        """Return (1/N) Σ k'_i/k_i, the resource term of Eq. 4, for each row of `ks`."""
        ratio = np.asarray(self.floor, dtype=float) / np.asarray(ks, dtype=float)
        return np.asarray(ratio.mean(axis=-1))

    def score(self, ks: ArrayLike, latency: ArrayLike) -> Floats:
        """Return F (Eq. 4) for each row of `ks` and its latency in seconds; infinity stands for a failed run."""
        with np.errstate(over="ignore"):  # a tiny latency overflows and counts as 1
            speed = np.minimum(1.0, self.latency_target / np.asarray(latency, dtype=float))
        return self.alpha * speed + (1 - self.alpha) * self.resources(ks)

    def satisfied(self, k: Sequence[int], latency: float) -> bool:
        """Return whether a run meets the stop rule (Alg. 1, l. 8). differs: the printed ≪ and ≫ are ≤ and ≥."""
        return latency <= self.latency_target and float(self.score(k, latency)) >= self.threshold - _ROUNDING


# Sums in another order differ in the last bits; a configuration exactly on the rule meets it.
_ROUNDING = 1e-9
