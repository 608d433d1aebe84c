"""Learn a latency target for a job without one: the latency it held for 95 % of the last hour, plus a margin.

| symbol | meaning                                                             | unit |
|--------|---------------------------------------------------------------------|------|
| x_i    | mean latency of the records of batch i                              | s    |
| d_i    | time until the next batch was done                                  | s    |
| T      | target = (1 + `MARGIN`) · the `HELD` quantile of x, weighted by d   | s    |

A few long batches, as after a restart, do not raise T unless they take more than a twentieth of the hour. T is rounded
up to two digits, because it is a goal and no measurement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from autotrascale.domain.errors import InputError
from autotrascale.domain.target import Target
from autotrascale.plan.formatting import format_seconds

HELD = 0.95
MARGIN = 0.2
WINDOW = 3600.0  # seconds
LEAST_SECONDS, LEAST_BATCHES = 600.0, 20
GROWN = 2.0  # ratio of the last quarter to the first from which the job has no steady state


@dataclass(frozen=True)
class BatchLatency:
    """The mean latency of the records of a batch in seconds, and the time `at` which it was done."""

    at: float
    latency: float


def learn_target(batches: Sequence[BatchLatency], now: float) -> Target:
    """Return the target learned from `batches`, oldest first.

    Raises:
        InputError: too few batches, or a latency that only grew.
    """
    seen = [batch for batch in batches if now - WINDOW <= batch.at <= now]
    span = now - seen[0].at if seen else 0.0
    if span < LEAST_SECONDS or len(seen) < LEAST_BATCHES:
        count = f"{len(seen)} batch{'' if len(seen) == 1 else 'es'}"
        raise _error(
            f"cannot be learned yet from {count} in {format_seconds(span)}: {LEAST_BATCHES} batches in "
            f"{format_seconds(LEAST_SECONDS)} are needed"
        )
    lasted = [later.at - batch.at for batch, later in pairwise(seen)] + [now - seen[-1].at]
    quarter = max(1, len(seen) // 4)
    first, last = (_median([batch.latency for batch in part]) for part in (seen[:quarter], seen[-quarter:]))
    if last > GROWN * first:
        grown = f"from {format_seconds(first)} to {format_seconds(last)}"
        raise _error(f"cannot be learned: latency grew {grown}, so the job holds none")
    held = _quantile([batch.latency for batch in seen], lasted)
    if held <= 0:
        raise _error("cannot be learned: no batch of the last hour had records")
    return Target(_round_up(held * (1 + MARGIN)))


def _quantile(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the least value that is not exceeded for a share `HELD` of the time."""
    wanted, passed = HELD * math.fsum(weights), 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        passed += weight
        if passed >= wanted * (1 - 1e-12):
            return value
    return max(values)


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _round_up(value: float) -> float:
    """Return `value` rounded up to two digits: 3.41 becomes 3.5."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.2g}")


def _error(why: str) -> InputError:
    return InputError("target", why, remedy="give it: --target SECONDS")
