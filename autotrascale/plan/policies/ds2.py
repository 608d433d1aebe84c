"""DS2 (OSDI '18): size every operator at once so that it keeps up with what its upstreams put out when they keep up."""

from __future__ import annotations

from dataclasses import dataclass

from autotrascale.domain.decision import Decision, Number, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.policies import Options
from autotrascale.plan.policies.base import hold_for_gaps, limits, out_of_reach, read_options
from autotrascale.plan.sizing.demand import Demand, measure_demand
from autotrascale.plan.sizing.floor import Floor, throughput_floor
from autotrascale.plan.words import amount, percent


@dataclass(frozen=True)
class DS2:
    """Throughput only: a latency target changes nothing here."""

    name: str = "ds2"

    def decide(self, snapshot: Snapshot) -> Decision:
        demand = measure_demand(snapshot)
        if demand.gaps:
            return hold_for_gaps(self.name, snapshot, demand)
        floor = throughput_floor(demand, snapshot)
        reasons = explain_floor(snapshot, demand, floor)
        return Decision.between(self.name, snapshot.parallelism, floor.parallelism, *reasons)


def create(target: Target | None, options: Options) -> DS2:  # noqa: ARG001 - every policy is created alike
    return read_options(DS2, "ds2", options, name="ds2")


def explain_floor(snapshot: Snapshot, demand: Demand, floor: Floor) -> list[Reason]:
    """One reason for each operator, one for what they share, and one when the bounds do not carry the rate."""
    reasons = [_operator(snapshot, demand, floor, name) for name in snapshot.operators]
    total = sum(load or 0.0 for load in demand.load.values())
    if snapshot.execution == "shared":
        workers = max(floor.parallelism.values())
        text = f"all operators together need {total:,.1f} workers → {workers}"
        reasons.append(Reason("workers", text, {"load": total, "workers": workers}))
    if snapshot.execution == "micro-batch":
        text = f"the stages of a batch and its overhead are busy {percent(floor.busy)} of the time"
        reasons.append(Reason("batch", text, {"busy": floor.busy, "overhead_share": snapshot.overhead_share}))
    if not floor.reachable:
        text = (
            f"the bounds carry {percent(floor.reach)} of the offered rate: {percent(1 - floor.reach)} is out of reach"
        )
        reasons.append(out_of_reach(text, reach=floor.reach, short=1 - floor.reach))
    return reasons


def _operator(snapshot: Snapshot, demand: Demand, floor: Floor, name: str) -> Reason:
    k, load = floor.parallelism[name], demand.load[name]
    numbers: dict[str, Number] = {"operator": name, "running": snapshot.operators[name].parallelism, "wanted": k}
    if load is None:
        return Reason("source-kept", f"{name}: its own true rate is not known, kept at {k}", numbers)
    rate, capacity = demand.rate[name] or 0.0, demand.capacity[name]
    numbers |= {"demand": rate, "load": load}
    if capacity is None or not load:
        return Reason("no-demand", f"{name}: no demand → {k}", numbers)
    numbers["capacity"] = capacity
    text = f"{name}: demand {amount(rate)}/s over {amount(capacity)}/s per instance {_needs(snapshot, load, k)}"
    return Reason("demand", text + _bound(snapshot, name, load, k), numbers)


def _needs(snapshot: Snapshot, load: float, k: int) -> str:
    match snapshot.execution:
        case "pipelined":
            return f"needs {load:,.1f} → {k}"
        case "shared":
            return f"needs {load:,.1f} of the workers"
        case "micro-batch":
            return f"is {load:,.1f} s of work in each second, {amount(load / k)} s on {k}"


def _bound(snapshot: Snapshot, name: str, load: float, k: int) -> str:
    if snapshot.execution == "shared":
        return ""
    least, most = limits(snapshot, name)
    if k == most and load > most:
        return ", the most it may have"
    return ", the least it may have" if k == least and load <= least - 1 else ""
