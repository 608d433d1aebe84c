"""The costs of moving the state of a Spark query: straight lines in the number of keys, fitted to measurements.

    symbol   meaning                                                        unit
    n        keys of state                                                  keys
    y        a cost: seconds without output, or seconds of preparation      s
    y(n)     α + β · n, with α, β ≥ 0                                       s

Spark moves all state of a query at once, whichever keys change their partition. Overlap mode moves it while the first
query still runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotrascale.domain import checks


@dataclass(frozen=True)
class LinearCost:
    """y(n) with α = `seconds` and β = `per_key`, both at least 0."""

    seconds: float
    per_key: float = 0.0

    def __post_init__(self) -> None:
        checks.non_negative("seconds", self.seconds)
        checks.non_negative("per_key", self.per_key)

    def at(self, keys: float) -> float:
        """Return y in seconds for `keys` keys."""
        return self.seconds + self.per_key * keys

    def times(self, factor: float) -> LinearCost:
        """Return the cost multiplied by `factor`."""
        return LinearCost(self.seconds * factor, self.per_key * factor)


@dataclass(frozen=True)
class RescaleCosts:
    """The costs of both modes.

    Args:
        in_place: standstill while state is moved.
        hand_over: standstill of an overlap, from the last output of the first query to the first of the second.
        preparing: time of an overlap in which both queries run.
    """

    in_place: LinearCost
    hand_over: LinearCost
    preparing: LinearCost


def fit_line(readings: Sequence[tuple[float, float]]) -> LinearCost:
    """Return the line through the readings (n, y) with the least squares of relative errors.

    Relative errors keep a cost of 100 s from outweighing a cost of 1 s. A negative slope or offset becomes 0.

    >>> fitted = fit_line([(10_000, 1.1), (100_000, 2.0)])
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
