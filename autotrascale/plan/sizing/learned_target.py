"""A latency target for a job that nobody gave one: what it held for nearly all of the last hour, and somewhat more.

| symbol | meaning                                                             | unit |
|--------|---------------------------------------------------------------------|------|
| x_i    | mean latency of the records of batch i                              | s    |
| d_i    | how long it stood: until the next batch was done                    | s    |
| T      | target = (1 + `MARGIN`) · the `HELD` quantile of x, weighted by d   | s    |

A short spell of long batches, as of a restart, is not what the job holds; one that takes more than a twentieth of the
hour is. T is rounded up to two digits: it is a wish, and no measurement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from autotrascale.domain.errors import InputError
from autotrascale.domain.target import Target
from autotrascale.plan.formatting import format_seconds as in_words

HELD = 0.95
MARGIN = 0.2
WINDOW = 3600.0  # seconds
LEAST_SECONDS, LEAST_BATCHES = 600.0, 20
GROWN = 2.0  # the last quarter over the first: no steady state, and so nothing that it holds


@dataclass(frozen=True)
class BatchLatency:
    """`at` is when the batch was done, by any clock in seconds."""

    at: float
    latency: float


def learn_target(batches: Sequence[BatchLatency], now: float) -> Target:
    """Refuses in one line where too little was seen, or latency only grew."""
    seen = [batch for batch in batches if now - WINDOW <= batch.at <= now]
    span = now - seen[0].at if seen else 0.0
    if span < LEAST_SECONDS or len(seen) < LEAST_BATCHES:
        count = f"{len(seen)} batch{'' if len(seen) == 1 else 'es'}"
        raise _refused(
            f"cannot be learned yet: {count} in {in_words(span)} were seen, and it takes {LEAST_BATCHES} in "
            f"{in_words(LEAST_SECONDS)}"
        )
    stood = [later.at - batch.at for batch, later in pairwise(seen)] + [now - seen[-1].at]
    quarter = max(1, len(seen) // 4)
    first, last = (_median([batch.latency for batch in part]) for part in (seen[:quarter], seen[-quarter:]))
    if last > GROWN * first:
        raise _refused(
            f"cannot be learned: latency grew from {in_words(first)} to {in_words(last)}, so the job does not hold any"
        )
    held = _quantile([batch.latency for batch in seen], stood)
    if held <= 0:
        raise _refused("cannot be learned: no batch of the last hour had records")
    return Target(_rounded_up(held * (1 + MARGIN)))


def _quantile(values: Sequence[float], weights: Sequence[float]) -> float:
    """The least value that all but 1 − `HELD` of the time is not above."""
    wanted, passed = HELD * math.fsum(weights), 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        passed += weight
        if passed >= wanted * (1 - 1e-12):
            return value
    return max(values)


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _rounded_up(value: float) -> float:
    """To two digits: 3.41 is 3.5."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.2g}")


def _refused(why: str) -> InputError:
    return InputError("target", why, remedy="give it: --target SECONDS")
