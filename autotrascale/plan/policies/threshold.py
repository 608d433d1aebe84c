"""Threshold (Elastic Pulsar §4.1): one instance more where the queue is long, one fewer where it is short.

differs: within a micro-batch nothing waits in front of an operator. What waits for any of them waits at the sources, so
there the backlog of the job is every operator's queue.
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
from autotrascale.plan.policies import Options
from autotrascale.plan.policies.base import answer, hold, read_options
from autotrascale.plan.policies.reasons import explain_unknown_signal
from autotrascale.plan.sizing.sizing import get_limits


@dataclass(frozen=True)
class Threshold:
    """Backlog ≤ T_in: −1. Backlog > T_out: +1, up to `cap`. In between: keep. Knows neither rates nor latency."""

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
        backlogs = _backlogs(snapshot)
        unknown = [name for name, backlog in backlogs.items() if backlog is None]
        asked = unknown if snapshot.execution != "micro-batch" else snapshot.topology.sources
        said = [explain_unknown_signal("backlog", "backlog_records", asked)] if unknown else []
        known = {name: backlog for name, backlog in backlogs.items() if backlog is not None}
        if not known:
            return hold(self.name, snapshot, said)
        each = {name: self._one(snapshot, name, backlog) for name, backlog in known.items()}
        wanted = {**snapshot.parallelism, **{name: k for name, (k, _) in each.items()}}
        return answer(self.name, snapshot, wanted, [*(reason for _, reason in each.values()), *said])

    def _one(self, snapshot: Snapshot, name: str, backlog: float) -> tuple[int, Reason]:
        k = snapshot.operators[name].parallelism
        if backlog <= self.scale_in:
            wanted, rule = max(k - 1, get_limits(snapshot, name)[0]), f"at most {format_amount(self.scale_in)}"
        elif backlog > self.scale_out:
            wanted, rule = max(k, min(k + 1, self.cap)), f"above {format_amount(self.scale_out)}"
        else:
            wanted, rule = k, "between the thresholds"
        numbers: dict[str, Number] = {"operator": name, "backlog": backlog, "running": k, "wanted": wanted}
        return wanted, Reason("backlog", f"{name}: backlog of {format_amount(backlog)} is {rule} → {wanted}", numbers)


def _backlogs(snapshot: Snapshot) -> Mapping[str, float | None]:
    """What waits for each operator."""
    own = {name: metrics.backlog_records for name, metrics in snapshot.operators.items()}
    if snapshot.execution != "micro-batch":
        return own
    waiting = snapshot.backlog_records
    if waiting is None:
        waiting = sum_if_all_known(own[name] for name in snapshot.topology.sources)
    return dict.fromkeys(own, waiting)


def create(target: Target | None, options: Options) -> Threshold:  # noqa: ARG001 - every policy is created alike
    return read_options(Threshold, "threshold", options, name="threshold")
