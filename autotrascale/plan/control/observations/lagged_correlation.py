"""Time-lagged cross-correlation (Sage): does a backlog follow the latency of a service that the job calls?

    symbol   meaning                                             shape
    b        backlog at each look                                (n,)
    s        latency of the service at each look                 (n,)
    d        lag in looks: the service leads, the backlog follows
    ρ(d)     Pearson's correlation of b[d:] with s[:n − d]

A backlog that a service explains is not mended by parallelism: more instances would wait for the same service.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MIN_PAIRS = 6  # pairs below which a correlation says nothing


@dataclass(frozen=True)
class LaggedCorrelation:
    correlation: float
    lag: int


def find_best_lag(backlog: Sequence[float], service: Sequence[float], most_lag: int = 5) -> LaggedCorrelation | None:
    """The lag at which the backlog follows the service best; None where there is too little to say.

    >>> follows([0, 0, 0, 1, 5, 9, 5, 1], [0, 0, 1, 5, 9, 5, 1, 0], most_lag=2)
    Lagged(correlation=1.0, lag=1)
    """
    return max(correlate_at_lags(backlog, service, most_lag), key=lambda each: each.correlation, default=None)


def correlate_at_lags(backlog: Sequence[float], service: Sequence[float], most_lag: int = 5) -> list[LaggedCorrelation]:
    """ρ(d) at each lag at which there is enough to say."""
    n = min(len(backlog), len(service))
    backlog, service = backlog[-n:] if n else [], service[-n:] if n else []
    return [
        LaggedCorrelation(round(r, 12), lag)
        for lag in range(min(most_lag, n - MIN_PAIRS) + 1)
        if (r := _pearson(backlog[lag:], service[: n - lag])) is not None
    ]


def _pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    """None where one of them stands still: then nothing varies together."""
    n = len(x)
    if n < MIN_PAIRS:
        return None
    mean_x, mean_y = sum(x) / n, sum(y) / n
    xx, yy = sum((each - mean_x) ** 2 for each in x), sum((each - mean_y) ** 2 for each in y)
    if xx <= 1e-12 * mean_x**2 or yy <= 1e-12 * mean_y**2 or not xx or not yy:
        return None
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / math.sqrt(xx * yy)
