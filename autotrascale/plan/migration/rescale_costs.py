"""What it costs to move the state of a job on Spark, in place and overlapped: straight lines in the number of keys,
through what was measured.

    symbol   meaning                                                        unit
    n        keys of state                                                  keys
    y        a cost: seconds without output, or seconds of preparation      s
    y(n)     α + β · n, with α, β ≥ 0: nothing is moved faster for being more

Spark moves all state of a query at once, whichever keys change their partition: in the words of `plans.py`, each of its
moves is an all-at-once migration, and an overlap takes the step out of the job's way instead of cutting it up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotrascale.domain import checks


@dataclass(frozen=True)
class LinearCost:
    seconds: float  # α
    per_key: float = 0.0  # β

    def __post_init__(self) -> None:
        checks.non_negative("seconds", self.seconds)
        checks.non_negative("per_key", self.per_key)

    def at(self, keys: float) -> float:
        return self.seconds + self.per_key * keys

    def times(self, factor: float) -> LinearCost:
        return LinearCost(self.seconds * factor, self.per_key * factor)


@dataclass(frozen=True)
class RescaleCosts:
    in_place: LinearCost  # without output, while state is moved
    hand_over: LinearCost  # without output, from A's last to B's first
    preparing: LinearCost  # both run


def fit_line(readings: Sequence[tuple[float, float]]) -> LinearCost:
    """Through (n, y), by least squares of relative errors: a cost of 100 s must not drown one of 1 s. A slope or an
    offset below zero is none.

    >>> fitted = line([(10_000, 1.1), (100_000, 2.0)])
    >>> round(fitted.seconds, 3), round(fitted.per_key * 100_000, 3)
    (1.0, 1.0)
    """
    weights = [(1 / max(y, 1e-3)) ** 2 for _, y in readings]
    whole = sum(weights)
    mean_n = sum(w * n for w, (n, _) in zip(weights, readings, strict=True)) / whole
    mean_y = sum(w * y for w, (_, y) in zip(weights, readings, strict=True)) / whole
    across = sum(w * (n - mean_n) ** 2 for w, (n, _) in zip(weights, readings, strict=True))
    along = sum(w * (n - mean_n) * (y - mean_y) for w, (n, y) in zip(weights, readings, strict=True))
    slope = max(0.0, along / across) if across > 0 else 0.0
    offset = mean_y - slope * mean_n
    if offset < 0:  # through the origin
        squares = sum(w * n * n for w, (n, _) in zip(weights, readings, strict=True))
        return LinearCost(0.0, sum(w * n * y for w, (n, y) in zip(weights, readings, strict=True)) / squares)
    return LinearCost(offset, slope)
