"""The policy "threshold" (Elastic Pulsar §4.1): one instance more for a long queue, one fewer for a short queue.

differs: within a micro-batch nothing waits in front of an operator; all records wait at the sources. There the backlog
of the job is the queue of every operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotrascale.domain import checks
from autotrascale.domain.decision import Decision, Number, Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.domain.true_rates import sum_if_all_known
from autotrascale.plan.formatting import format_amount
from autotrascale.plan.policies.base import Options, answer, hold, read_options
from autotrascale.plan.policies.reasons import explain_unknown_signal
from autotrascale.plan.sizing.sizing import get_limits


@dataclass(frozen=True)
class Threshold:
    """A policy by backlog alone: at most T_in: −1; above T_out: +1, up to `cap`; in between: no change."""

    scale_in: float = 50.0  # T_in, records
    scale_out: float = 150.0  # T_out, records
    cap: int = 15
    name: str = "threshold"

    def __post_init__(self) -> None:
        checks.non_negative("scale_in", self.scale_in)
        checks.non_negative("scale_out", self.scale_out)
        checks.count("cap", self.cap)
        if self.scale_out < self.scale_in:
            raise InputError(
                "scale_out", f"is below scale_in = {self.scale_in}", seen=self.scale_out, remedy="raise it"
            )

    def decide(self, snapshot: Snapshot) -> Decision:
        backlogs = _find_backlogs(snapshot)
        unknown = [name for name, backlog in backlogs.items() if backlog is None]
        fields_of = unknown if snapshot.execution != "micro-batch" else snapshot.topology.sources
        missing = [explain_unknown_signal("backlog", "backlog_records", fields_of)] if unknown else []
        known = {name: backlog for name, backlog in backlogs.items() if backlog is not None}
        if not known:
            return hold(self.name, snapshot, missing)
        each = {name: self._decide_operator(snapshot, name, backlog) for name, backlog in known.items()}
        wanted = {**snapshot.parallelism, **{name: k for name, (k, _) in each.items()}}
        return answer(self.name, snapshot, wanted, [*(reason for _, reason in each.values()), *missing])

    def _decide_operator(self, snapshot: Snapshot, name: str, backlog: float) -> tuple[int, Reason]:
        k = snapshot.operators[name].parallelism
        if backlog <= self.scale_in:
            wanted, rule = max(k - 1, get_limits(snapshot, name)[0]), f"at most {format_amount(self.scale_in)}"
        elif backlog > self.scale_out:
            wanted, rule = max(k, min(k + 1, self.cap)), f"above {format_amount(self.scale_out)}"
        else:
            wanted, rule = k, "between the thresholds"
        numbers: dict[str, Number] = {"operator": name, "backlog": backlog, "running": k, "wanted": wanted}
        return wanted, Reason(
            "backlog", f"{name} {k} → {wanted}: a backlog of {format_amount(backlog)}, {rule}.", numbers
        )


def _find_backlogs(snapshot: Snapshot) -> Mapping[str, float | None]:
    """Return the records that wait for each operator."""
    own = {name: metrics.backlog_records for name, metrics in snapshot.operators.items()}
    if snapshot.execution != "micro-batch":
        return own
    waiting = snapshot.backlog_records
    if waiting is None:
        waiting = sum_if_all_known(own[name] for name in snapshot.topology.sources)
    return dict.fromkeys(own, waiting)


def create(target: Target | None, options: Options) -> Threshold:  # noqa: ARG001 - the signature of all factories
    return read_options(Threshold, "threshold", options, name="threshold")
