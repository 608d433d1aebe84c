"""True rates of an operator, from the work of its instances in a window (DS2, OSDI '18, §3.1).

| symbol  | meaning                                                                  | unit       |
|---------|--------------------------------------------------------------------------|------------|
| R_in, R_out, T_u | records pulled, records pushed, useful time of one instance     | records, s |
| v = R_in / T_u   | true processing rate of one instance                            | records/s  |
| o = R_out / T_u  | true output rate of one instance                                | records/s  |
| p_i     | instances of operator i                                                  |            |
| λ_p, λ_o | true processing and output rate of the operator, all p_i instances      | records/s  |

A rate that was not measured is None, and `missing` says why. A useful time of zero counts as not measured: an infinite
rate would scale the operator to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from autotrascale.domain.snapshot import OperatorMetrics, Work


@dataclass(frozen=True)
class TrueRates:
    """λ_p and λ_o of an operator. `missing` is a predicate that says why λ_p is None: "received no records …"."""

    processing: float | None
    output: float | None
    missing: str = ""


def compute_true_rates(metrics: OperatorMetrics) -> TrueRates:
    """Return λ_p and λ_o of an operator.

    differs: DS2 sums the rates of all instances. An instance without records (few keys, many partitions) shows no rate,
    so it counts like the mean of the other instances: 400 records in one useful second, and no records in a few
    milliseconds, give 400/s for each of the two instances.
    """
    works = metrics.instances or (metrics,)
    if not metrics.upstream and not any(work.records_in for work in works):
        # A source may count only what it puts out: then that is its rate, since λ_src is a source's output (Eq. 8).
        works = tuple(Work(work.records_out, work.records_out, work.useful_seconds) for work in works)
    works = tuple(work for work in works if not is_idle(work)) or works
    if missing := next(filter(None, map(_missing_measurement, works)), ""):
        return TrueRates(None, None, missing)
    # λ is the mean rate of the instances with records, times p_i. Given sums of all instances, their quotient is v.
    weight = metrics.parallelism / len(works)
    processing = sum_if_all_known(_per_useful_second(work.records_in, work) for work in works)  # DS2 Eq. 1 and 5
    output = sum_if_all_known(_per_useful_second(work.records_out, work) for work in works)  # DS2 Eq. 2 and 6
    if not processing:
        return TrueRates(None, None, "has a true rate outside the range of numbers")
    return TrueRates(processing * weight, None if output is None else output * weight)


def is_idle(work: Work) -> bool:
    """Return whether an instance ran without receiving or emitting a record."""
    return work.records_in == 0 and bool(work.useful_seconds) and not work.records_out


def sum_if_all_known(values: Iterable[float | None]) -> float | None:
    """Return the sum; None when a value is None or the sum overflows."""
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return finite_or_none(total)


def finite_or_none(value: float) -> float | None:
    """Return `value`, or None when it overflowed."""
    return value if math.isfinite(value) else None


def _missing_measurement(work: Work) -> str:
    if work.useful_seconds is None:
        return "reports no useful time"
    if work.useful_seconds == 0:
        return "reports a useful time of zero, which leaves its capacity unknown"
    if work.records_in is None:
        return "reports no count of input records"
    return "" if work.records_in else "received no records, which leaves its capacity unknown"


def _per_useful_second(records: float | None, work: Work) -> float | None:
    if records is None or not work.useful_seconds:
        return None
    return finite_or_none(records / work.useful_seconds)
