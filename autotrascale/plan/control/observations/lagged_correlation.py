"""Time-lagged cross-correlation (Sage): does a backlog follow the latency of a service that the job calls?

symbol   meaning                                             shape
b        backlog at each observation                         (n,)
s        latency of the service at each observation          (n,)
d        lag in observations: the backlog follows the service
ρ(d)     Pearson's correlation of b[d:] with s[:n − d]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MIN_PAIRS = 6  # for a correlation


@dataclass(frozen=True)
class LaggedCorrelation:
    """A correlation ρ(d) and its lag d."""

    correlation: float
    lag: int


def find_best_lag(backlog: Sequence[float], service: Sequence[float], most_lag: int = 5) -> LaggedCorrelation | None:
    """Return the lag with the largest correlation, or None if there are too few or constant values.

    >>> find_best_lag([0, 0, 0, 1, 5, 9, 5, 1], [0, 0, 1, 5, 9, 5, 1, 0], most_lag=2)
    LaggedCorrelation(correlation=1.0, lag=1)
    """
    return max(correlate_at_lags(backlog, service, most_lag), key=lambda each: each.correlation, default=None)


def correlate_at_lags(backlog: Sequence[float], service: Sequence[float], most_lag: int = 5) -> list[LaggedCorrelation]:
    """Return ρ(d) at each lag 0 … `most_lag` that has enough pairs. The newest values of both series are aligned."""
    n = min(len(backlog), len(service))
    backlog, service = backlog[-n:] if n else [], service[-n:] if n else []
    return [
        LaggedCorrelation(round(r, 12), lag)
        for lag in range(min(most_lag, n - MIN_PAIRS) + 1)
        if (r := _correlate(backlog[lag:], service[: n - lag])) is not None
    ]


def _correlate(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Pearson's correlation, or None if a series is constant or too short."""
    n = len(x)
    if n < MIN_PAIRS:
        return None
    mean_x, mean_y = sum(x) / n, sum(y) / n
    xx, yy = sum((each - mean_x) ** 2 for each in x), sum((each - mean_y) ** 2 for each in y)
    if xx <= 1e-12 * mean_x**2 or yy <= 1e-12 * mean_y**2 or not xx or not yy:
        return None
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / math.sqrt(xx * yy)
