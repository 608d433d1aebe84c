"""The policy DS2 (OSDI '18): size every operator for the output of its upstream operators at the full input rate."""

from __future__ import annotations

from dataclasses import dataclass

from autotrascale.domain.decision import Decision, Number, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.formatting import format_load, format_percent, format_seconds
from autotrascale.plan.policies.base import Options, answer, hold_for_gaps, read_options
from autotrascale.plan.policies.reasons import explain_demand, explain_unreachable_rate
from autotrascale.plan.sizing.sizing import Sizing, Unsized, size


@dataclass(frozen=True)
class DS2:
    """A policy for throughput. A latency target only limits the length of a micro-batch."""

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
    """Explain the throughput floor: each operator, the time that operators share, and bounds that are too tight."""
    reasons = explain_demand(snapshot, sized, sized.floor)
    if snapshot.execution == "shared":
        total, workers = sum(sized.known_loads), max(sized.floor)
        text = f"All operators together need {format_load(total)} workers → {workers}."
        reasons.append(Reason("workers", text, {"load": total, "workers": workers}))
    if snapshot.execution == "micro-batch":
        reasons.append(_explain_batch(sized, target))
    return [*reasons, *explain_unreachable_rate(sized)]


def _explain_batch(sized: Sizing, target: Target | None) -> Reason:
    busy = sized.busy(sized.floor)
    text = f"The stages of a batch and its overhead are busy {format_percent(busy)} of the time."
    numbers: dict[str, Number] = {"busy": busy, "overhead_share": sized.overhead}
    if not sized.overhead_known:
        text += " The overhead is incomplete: overhead_share and batch_seconds are not both known."
    elif target is not None and sized.batch_limit is not None:
        text += f" The target on {target.statistic} latency limits batches to {format_seconds(sized.batch_limit)}."
        numbers["batch_limit_seconds"] = sized.batch_limit
    elif target is not None:
        text += f" Batches short enough for the target of {format_seconds(target.latency_seconds)} are out of reach."
        numbers["target_seconds"] = target.latency_seconds
    return Reason("batch", text, numbers)
