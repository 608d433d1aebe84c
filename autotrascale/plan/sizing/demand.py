"""What every operator is asked to do, and what one instance of it can do: DS2's performance model (OSDI '18, §3.2).

| symbol     | meaning                                                                  | unit      |
|------------|--------------------------------------------------------------------------|-----------|
| λ_src(j)   | what the world offers to source j                                        | records/s |
| R_in, R_out, T_u | records pulled, records pushed, useful time of one instance         | records, s |
| v = R_in / T_u   | true processing rate of one instance                                | records/s |
| λ_p,i, λ_o,i     | true processing and output rate, summed over the p_i instances of i | records/s |
| demand_i   | target input of operator i when everything before it keeps up            | records/s |
| capacity_i | λ_p,i / p_i, what one instance does when it never waits                   | records/s |
| load_i     | demand_i / capacity_i, the real-valued number of instances needed        | instances |

A number that is missing stays missing: it becomes a `Gap`, which names the operator and what it did not say. Zero
useful time is such a gap, because "infinitely fast" would scale the operator to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from autotrascale.domain.snapshot import OperatorMetrics, Snapshot, Work


@dataclass(frozen=True)
class Gap:
    """An operator that cannot be sized, and what is missing."""

    operator: str
    missing: str

    def __str__(self) -> str:
        return f"{self.operator} {self.missing}"


@dataclass(frozen=True)
class Demand:
    """The answer of one walk over the graph. `rate`, `capacity` and `load` hold None where a number is not known."""

    rate: Mapping[str, float | None]
    capacity: Mapping[str, float | None]
    load: Mapping[str, float | None]
    gaps: tuple[Gap, ...]

    @cached_property
    def kept(self) -> frozenset[str]:
        """Sources whose own true rate is not known: they stay as they run, and that is no gap."""
        named = {gap.operator for gap in self.gaps}
        return frozenset(
            name
            for name, load in self.load.items()
            if load is None and name not in named and self.rate[name] is not None
        )


@dataclass(frozen=True)
class _Rates:
    """One operator's true rates, summed over its instances, and what is wrong with them if anything is."""

    processing: float | None
    output: float | None
    missing: str = ""


def measure_demand(snapshot: Snapshot) -> Demand:
    """DS2 Eq. 7–8 in one walk. The unrounded demand is forwarded (differs: AuTraScale Eq. 3 prints the rounded one).

    Two sentences of 20 words each second, over instances that count 10 words a second: demand 40, load 4.
    """
    rate: dict[str, float | None] = {}
    output: dict[str, float | None] = {}
    capacity: dict[str, float | None] = {}
    gaps: list[Gap] = []
    topology = snapshot.topology
    feeds = {upstream for operator in topology.operators.values() for upstream in operator.upstream}
    for name in topology.order:
        metrics = snapshot.operators[name]
        rates = _rates(metrics)
        if metrics.upstream:
            rate[name] = _sum(output[upstream] for upstream in metrics.upstream)
            output[name] = _forwarded(rate[name], rates)
        else:
            rate[name] = output[name] = snapshot.source_rates[name]  # DS2 Eq. 8, first case
        capacity[name] = None if rates.processing is None else rates.processing / metrics.parallelism
        missing = _missing(metrics, rates, rate[name], output[name] if name in feeds else 0.0)
        if missing:
            gaps.append(Gap(name, missing))
    load = {name: _load(rate[name], capacity[name]) for name in topology}
    return Demand(_in_order(rate, topology), _in_order(capacity, topology), load, tuple(gaps))


def _forwarded(demand: float | None, rates: _Rates) -> float | None:
    """out*_j. No demand makes no output, whatever the selectivity, which nobody could measure without input."""
    if demand is None or demand == 0:
        return demand
    if rates.processing is None or rates.output is None:
        return None
    return _finite(rates.output / rates.processing * demand)  # DS2 Eq. 8, second case: selectivity times demand


def _load(demand: float | None, capacity: float | None) -> float | None:
    if demand == 0:
        return 0.0
    if demand is None or capacity is None:
        return None
    return _finite(demand / capacity)  # the inside of DS2 Eq. 7


def _missing(metrics: OperatorMetrics, rates: _Rates, demand: float | None, output: float | None) -> str:
    """What this operator lacks to be sized, or to size what follows it; empty when nothing does."""
    if metrics.silent_instances:
        return f"has {metrics.silent_instances} of {metrics.parallelism} instances that did not report"
    if demand == 0 or not metrics.upstream:
        return ""
    if rates.processing is None:
        return rates.missing
    if demand is None:
        return ""  # its upstream is the one to name
    if output is None:
        return "does not say how many records it put out"
    return (
        "" if _load(demand, rates.processing / metrics.parallelism) is not None else "needs more than numbers can hold"
    )


def _rates(metrics: OperatorMetrics) -> _Rates:
    works = metrics.instances or (metrics,)
    if not metrics.upstream and not any(work.records_in for work in works):
        # A source may count only what it puts out: then that is its rate, since λ_src is a source's output in Eq. 8.
        works = tuple(Work(work.records_out, work.records_out, work.useful_seconds) for work in works)
    # differs: DS2 adds up all instances. One that got no records (few keys, many partitions) showed no rate, and the
    # few milliseconds it took to do nothing are not one of zero: it is taken to be like those that worked.
    works = tuple(work for work in works if not _idle(work)) or works
    # The mean of those that worked, times p_i. Sums stand for all instances: their quotient is that mean.
    return _true_rates(works, weight=metrics.parallelism / len(works))


def _idle(work: Work) -> bool:
    return work.records_in == 0 and bool(work.useful_seconds) and not work.records_out


def _true_rates(works: tuple[Work, ...], weight: float) -> _Rates:
    """λ_p and λ_o, or what keeps them from being known."""
    missing = next(filter(None, map(_wrong_with, works)), "")
    if missing:
        return _Rates(None, None, missing)
    processing = _sum(_per_useful_second(work.records_in, work) for work in works)  # DS2 Eq. 1 and 5
    output = _sum(_per_useful_second(work.records_out, work) for work in works)  # DS2 Eq. 2 and 6
    if not processing:
        return _Rates(None, None, "has a true rate outside of what numbers can hold")
    return _Rates(processing * weight, None if output is None else output * weight)


def _wrong_with(work: Work) -> str:
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
    return _finite(records / work.useful_seconds)


def _sum(values: Iterable[float | None]) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return _finite(total)


def _finite(value: float) -> float | None:
    """Inputs at the edge of the floating-point range overflow: then the answer is not known, instead of infinite."""
    return value if math.isfinite(value) else None


def _in_order(values: Mapping[str, float | None], names: Iterable[str]) -> dict[str, float | None]:
    return {name: values[name] for name in names}
