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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from autotrascale.domain.snapshot import OperatorMetrics, Snapshot
from autotrascale.domain.true_rates import TrueRates, compute_true_rates, finite_or_none, sum_if_all_known


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
    return Demand(_in_order(rate, topology), _in_order(capacity, topology), load, tuple(gaps))


def _forwarded(demand: float | None, rates: TrueRates) -> float | None:
    """out*_j. No demand makes no output, whatever the selectivity, which nobody could measure without input."""
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


def _in_order(values: Mapping[str, float | None], names: Iterable[str]) -> dict[str, float | None]:
    return {name: values[name] for name in names}
