"""DS2 (OSDI '18): size every operator at once so that it keeps up with what its upstreams put out when they keep up."""

from __future__ import annotations

from dataclasses import dataclass

from autotrascale.domain.decision import Decision, Number, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.formatting import format_load, format_percent, format_seconds
from autotrascale.plan.policies import Options
from autotrascale.plan.policies.base import answer, hold_for_gaps, read_options
from autotrascale.plan.policies.reasons import explain_demand, explain_unreachable_rate
from autotrascale.plan.sizing.sizing import Sizing, Unsized, size


@dataclass(frozen=True)
class DS2:
    """Throughput only. A latency target says no more than how long a micro-batch may be."""

    target: Target | None = None
    name: str = "ds2"

    def decide(self, snapshot: Snapshot) -> Decision:
        sized = size(snapshot, self.target)
        if isinstance(sized, Unsized):
            return hold_for_gaps(self.name, snapshot, sized)
        reasons = explain_floor(snapshot, sized, self.target)
        return answer(self.name, snapshot, sized.named_floor, reasons, sized)


def create(target: Target | None, options: Options) -> DS2:
    return read_options(DS2, "ds2", options, name="ds2", target=target)


def explain_floor(snapshot: Snapshot, sized: Sizing, target: Target | None) -> list[Reason]:
    """One reason for each operator, one for what they share, and one when the bounds do not carry the rate."""
    reasons = explain_demand(snapshot, sized, sized.floor)
    if snapshot.execution == "shared":
        total, workers = sum(sized.known_loads), max(sized.floor)
        text = f"all operators together need {format_load(total)} workers → {workers}"
        reasons.append(Reason("workers", text, {"load": total, "workers": workers}))
    if snapshot.execution == "micro-batch":
        reasons.append(_batch(sized, target))
    return [*reasons, *explain_unreachable_rate(sized)]


def _batch(sized: Sizing, target: Target | None) -> Reason:
    busy = sized.busy(sized.floor)
    text = f"the stages of a batch and its overhead are busy {format_percent(busy)} of the time"
    numbers: dict[str, Number] = {"busy": busy, "overhead_share": sized.overhead}
    if not sized.overhead_known:
        text += ", as far as is known: overhead_share and batch_seconds are not both known"
    elif target is not None and sized.batch_limit is not None:
        text += (
            f", with batches of {format_seconds(sized.batch_limit)} at most: the target on {target.statistic} latency"
        )
        numbers["batch_limit_seconds"] = sized.batch_limit
    elif target is not None:
        text += f"; batches as short as the target of {format_seconds(target.latency_seconds)} are out of reach"
        numbers["target_seconds"] = target.latency_seconds
    return Reason("batch", text, numbers)
