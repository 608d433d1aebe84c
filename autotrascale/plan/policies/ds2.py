"""DS2 (OSDI '18): size every operator at once so that it keeps up with what its upstreams put out when they keep up."""

from __future__ import annotations

from dataclasses import dataclass

from autotrascale.domain.decision import Decision, Number, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.policies import Options
from autotrascale.plan.policies.base import hold_for_gaps, out_of_reach, read_options
from autotrascale.plan.sizing.sizing import Sizing, Unsized, limits, size
from autotrascale.plan.words import amount, percent


@dataclass(frozen=True)
class DS2:
    """Throughput only. A latency target says no more than how long a micro-batch may be."""

    target: Target | None = None
    name: str = "ds2"

    def decide(self, snapshot: Snapshot) -> Decision:
        sized = size(snapshot, self.target)
        if isinstance(sized, Unsized):
            return hold_for_gaps(self.name, snapshot, sized)
        return Decision.between(self.name, snapshot.parallelism, sized.named_floor, *explain_floor(snapshot, sized))


def create(target: Target | None, options: Options) -> DS2:
    return read_options(DS2, "ds2", options, name="ds2", target=target)


def explain_floor(snapshot: Snapshot, sized: Sizing) -> list[Reason]:
    """One reason for each operator, one for what they share, and one when the bounds do not carry the rate."""
    reasons = [_operator(snapshot, sized, at) for at in range(len(sized.operators))]
    total = sum(load or 0.0 for load in sized.load)
    if snapshot.execution == "shared":
        workers = max(sized.floor)
        text = f"all operators together need {total:,.1f} workers → {workers}"
        reasons.append(Reason("workers", text, {"load": total, "workers": workers}))
    if snapshot.execution == "micro-batch":
        reasons.append(_batch(sized))
    if not sized.reachable:
        text = (
            f"the bounds carry {percent(sized.reach)} of the offered rate: {percent(1 - sized.reach)} is out of reach"
        )
        reasons.append(out_of_reach(text, reach=sized.reach, short=1 - sized.reach))
    return reasons


def _batch(sized: Sizing) -> Reason:
    busy = sized.busy(sized.floor)
    text = f"the stages of a batch and its overhead are busy {percent(busy)} of the time"
    numbers: dict[str, Number] = {"busy": busy}
    if not sized.overhead_known:
        return Reason("batch", f"{text}, if a batch has no overhead: overhead_share is not known", numbers)
    numbers["overhead_share"] = sized.overhead
    if sized.batch_limit is not None:
        text += f", with batches of {amount(sized.batch_limit)} s at most, which the latency target asks for"
        numbers["batch_limit_seconds"] = sized.batch_limit
    return Reason("batch", text, numbers)


def _operator(snapshot: Snapshot, sized: Sizing, at: int) -> Reason:
    name, k, load = sized.operators[at], sized.floor[at], sized.load[at]
    numbers: dict[str, Number] = {"operator": name, "running": snapshot.operators[name].parallelism, "wanted": k}
    if load is None:
        return Reason("source-kept", f"{name}: its own true rate is not known, kept at {k}", numbers)
    rate, capacity = sized.demand[at] or 0.0, sized.capacity[at]
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
