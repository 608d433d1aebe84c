"""The demand on every operator and the capacity of one instance: the performance model of DS2 (OSDI '18, §3.2).

| symbol     | meaning                                                                  | unit      |
|------------|--------------------------------------------------------------------------|-----------|
| λ_src(j)   | offered rate of source j                                                 | records/s |
| R_in, R_out, T_u | records pulled, records pushed, useful time of one instance         | records, s |
| v = R_in / T_u   | true processing rate of one instance                                | records/s |
| λ_p,i, λ_o,i     | true processing and output rate, summed over the p_i instances of i | records/s |
| demand_i   | target input of operator i when everything before it keeps up            | records/s |
| capacity_i | λ_p,i / p_i, rate of one instance that never waits                       | records/s |
| load_i     | demand_i / capacity_i, the real-valued number of instances needed        | instances |

A missing number stays missing: a `Gap` names the operator and the measurement that it lacks. A useful time of zero is
a gap too, because an infinite capacity would scale the operator to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from autotrascale.domain.snapshot import OperatorMetrics, Snapshot
from autotrascale.domain.true_rates import TrueRates, compute_true_rates, finite_or_none, sum_if_all_known


@dataclass(frozen=True)
class Gap:
    """An operator that cannot be sized. `missing` is a predicate: "reports no useful time"."""

    operator: str
    missing: str

    def __str__(self) -> str:
        return f"{self.operator} {self.missing}"


@dataclass(frozen=True)
class Demand:
    """Demand (`rate`), capacity and load of every operator. None means not known; `gaps` say why."""

    rate: Mapping[str, float | None]
    capacity: Mapping[str, float | None]
    load: Mapping[str, float | None]
    gaps: tuple[Gap, ...]

    @cached_property
    def kept_sources(self) -> frozenset[str]:
        """Sources of unknown true rate. They keep their parallelism, so they are no gap."""
        named = {gap.operator for gap in self.gaps}
        return frozenset(
            name
            for name, load in self.load.items()
            if load is None and name not in named and self.rate[name] is not None
        )


def measure_demand(snapshot: Snapshot) -> Demand:
    """Return the demand on every operator when all operators before it keep up (DS2 Eq. 7–8, in one walk).

    Two sentences of 20 words per second, for instances that count 10 words per second: demand 40, load 4.

    differs: AuTraScale's Eq. 3 forwards the rounded demand; here it stays unrounded.
    """
    rate: dict[str, float | None] = {}
    output: dict[str, float | None] = {}
    capacity: dict[str, float | None] = {}
    gaps: list[Gap] = []
    topology = snapshot.topology
    feeds = {upstream for operator in topology.operators.values() for upstream in operator.upstream}
    for name in topology.order:
        metrics = snapshot.operators[name]
        rates = compute_true_rates(metrics)
        if metrics.upstream:
            rate[name] = sum_if_all_known(output[upstream] for upstream in metrics.upstream)
            output[name] = _forwarded(rate[name], rates)
        else:
            rate[name] = output[name] = snapshot.source_rates[name]  # DS2 Eq. 8, first case
        capacity[name] = None if rates.processing is None else rates.processing / metrics.parallelism
        missing = _missing(metrics, rates, rate[name], output[name] if name in feeds else 0.0)
        if missing:
            gaps.append(Gap(name, missing))
    load = {name: _load(rate[name], capacity[name]) for name in topology}
    return Demand(_order_by(rate, topology), _order_by(capacity, topology), load, tuple(gaps))


def _forwarded(demand: float | None, rates: TrueRates) -> float | None:
    """Return out*_j. Without demand it is zero, although the selectivity was not measured."""
    if demand is None or demand == 0:
        return demand
    if rates.processing is None or rates.output is None:
        return None
    return finite_or_none(rates.output / rates.processing * demand)  # DS2 Eq. 8, second case: selectivity times demand


def _load(demand: float | None, capacity: float | None) -> float | None:
    if demand == 0:
        return 0.0
    if demand is None or capacity is None:
        return None
    return finite_or_none(demand / capacity)  # the inside of DS2 Eq. 7


def _missing(metrics: OperatorMetrics, rates: TrueRates, demand: float | None, output: float | None) -> str:
    """Return the measurement that is missing to size this operator or its downstreams, as a predicate; or ""."""
    if metrics.silent_instances:
        return f"has {metrics.silent_instances} of {metrics.parallelism} instances that did not report"
    if demand == 0 or not metrics.upstream:
        return ""
    if rates.processing is None:
        return rates.missing
    if demand is None:
        return ""  # the gap of its upstream says why
    if output is None:
        return "reports no count of output records"
    is_known = _load(demand, rates.processing / metrics.parallelism) is not None
    return "" if is_known else "needs more instances than numbers can hold"


def _order_by(values: Mapping[str, float | None], names: Iterable[str]) -> dict[str, float | None]:
    return {name: values[name] for name in names}
