"""What an operator can do: its true rates, from what its instances did in a window (DS2, OSDI '18, §3.1).

| symbol  | meaning                                                                  | unit       |
|---------|--------------------------------------------------------------------------|------------|
| R_in, R_out, T_u | records pulled, records pushed, useful time of one instance     | records, s |
| v = R_in / T_u   | true processing rate of one instance                            | records/s  |
| o = R_out / T_u  | its true output rate                                            | records/s  |
| p_i     | instances of operator i                                                  |            |
| λ_p, λ_o | true processing and output rate of the operator, all p_i instances      | records/s  |

A rate that was not measured stays unknown, and `missing` says why. A useful time of zero is such a case: "infinitely
fast" would scale the operator to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from autotrascale.domain.snapshot import OperatorMetrics, Work


@dataclass(frozen=True)
class TrueRates:
    """λ_p and λ_o; None where they are not known."""

    processing: float | None
    output: float | None
    missing: str = ""  # what keeps λ_p from being known, of an operator: "took no records in …"


def compute_true_rates(metrics: OperatorMetrics) -> TrueRates:
    """Two instances that did 400 and 0 records in one useful second and in a few idle milliseconds: 400/s each, 800/s.

    differs: DS2 adds up all instances. One that got no records (few keys, many partitions) showed no rate, and the few
    milliseconds it took to do nothing are not a rate of zero: it is taken to be like those that worked.
    """
    works = metrics.instances or (metrics,)
    if not metrics.upstream and not any(work.records_in for work in works):
        # A source may count only what it puts out: then that is its rate, since λ_src is a source's output (Eq. 8).
        works = tuple(Work(work.records_out, work.records_out, work.useful_seconds) for work in works)
    works = tuple(work for work in works if not is_idle(work)) or works
    if missing := next(filter(None, map(_lacks, works)), ""):
        return TrueRates(None, None, missing)
    # The mean of those that worked, times p_i. Sums stand for all instances: their quotient is that mean.
    weight = metrics.parallelism / len(works)
    processing = sum_if_all_known(_per_useful_second(work.records_in, work) for work in works)  # DS2 Eq. 1 and 5
    output = sum_if_all_known(_per_useful_second(work.records_out, work) for work in works)  # DS2 Eq. 2 and 6
    if not processing:
        return TrueRates(None, None, "has a true rate outside of what numbers can hold")
    return TrueRates(processing * weight, None if output is None else output * weight)


def is_idle(work: Work) -> bool:
    """It ran, and nothing came."""
    return work.records_in == 0 and bool(work.useful_seconds) and not work.records_out


def sum_if_all_known(values: Iterable[float | None]) -> float | None:
    """None as soon as one part is not known, or the sum is beyond what numbers can hold."""
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return finite_or_none(total)


def finite_or_none(value: float) -> float | None:
    """Inputs at the edge of the floating-point range overflow: then the answer is not known, instead of infinite."""
    return value if math.isfinite(value) else None


def _lacks(work: Work) -> str:
    if work.useful_seconds is None:
        return "does not say how long it was useful"
    if work.useful_seconds == 0:
        return "reports a useful time of zero, which leaves its capacity unknown"
    if work.records_in is None:
        return "does not say how many records it took in"
    return "" if work.records_in else "took no records in, which leaves its capacity unknown"


def _per_useful_second(records: float | None, work: Work) -> float | None:
    if records is None or not work.useful_seconds:
        return None
    return finite_or_none(records / work.useful_seconds)
