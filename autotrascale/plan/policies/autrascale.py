"""The policy AuTraScale for one snapshot: the throughput floor, and above it one step of the search.

Without a latency target the answer is the floor. With a target, and a job at or above its floor, the snapshot is told
to a study, which proposes the next configuration, from a benefit model if one is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotrascale.domain.decision import Decision, Number, Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.formatting import format_amount, format_changes, format_seconds
from autotrascale.plan.policies.base import Options, answer, hold, hold_for_gaps, read_options
from autotrascale.plan.policies.ds2 import explain_floor
from autotrascale.plan.search.ask_tell import AskTellStudy, SearchSettings
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.search.study_runs import MIN_LATENCY
from autotrascale.plan.sizing.sizing import Sizing, Unsized, size

Step = tuple[Mapping[str, int] | None, list[Reason]]  # the wanted parallelism, None to hold, and the reasons


@dataclass(frozen=True)
class AuTraScale:
    """The policy for one snapshot. A tuning run and the control loop know more than one snapshot."""

    target: Target | None
    model: BenefitModel | None = None
    alpha: float = 0.5
    over_allocation: float = 0.5
    name: str = "autrascale"

    def __post_init__(self) -> None:
        if self.model is not None and not isinstance(self.model, BenefitModel):
            raise InputError("model", "is not a benefit model", seen=self.model, remedy="load it from its JSON")

    def decide(self, snapshot: Snapshot) -> Decision:
        sized = size(snapshot, self.target)
        if isinstance(sized, Unsized):
            return hold_for_gaps(self.name, snapshot, sized)
        reasons = explain_floor(snapshot, sized, self.target)
        if not sized.reachable:
            return answer(self.name, snapshot, sized.named_floor, reasons, sized)
        if self.target is None:
            text = "The throughput floor is the answer: no latency target was given."
            return answer(self.name, snapshot, sized.named_floor, [*reasons, Reason("floor", text)], sized)
        wanted, more = self._reach_bounds(snapshot, sized) or self._search(snapshot, sized, self.target)
        if wanted is None:
            return hold(self.name, snapshot, [*reasons, *more])
        return answer(self.name, snapshot, wanted, [*reasons, *more], sized)

    def _reach_bounds(self, snapshot: Snapshot, sized: Sizing) -> Step | None:
        """Bring a job into the searched range, from the floor to the maximum. None: it is there."""
        running, floor = snapshot.parallelism, sized.named_floor
        if below := [name for name, k in floor.items() if running[name] < k]:
            text = f"To the throughput floor first: {', '.join(below)} is below it. Latency is searched above it."
            wanted = floor if self._latency(snapshot) is not None else _no_fewer(floor, running)
            return wanted, [Reason("floor-first", text, {"operators": ", ".join(below)})]
        most = dict(zip(floor, sized.upper, strict=True))
        if above := [name for name, k in most.items() if running[name] > k]:
            text = (
                f"To the bounds first: {', '.join(above)} is above its maximum. Latency is searched within the bounds."
            )
            down = {name: min(running[name], k) for name, k in most.items()}
            return down, [Reason("bounds-first", text, {"operators": ", ".join(above)})]
        return None

    def _latency(self, snapshot: Snapshot) -> float | None:
        return None if self.target is None else snapshot.latency_seconds.of(self.target.statistic)

    def _search(self, snapshot: Snapshot, sized: Sizing, target: Target) -> Step:
        """Do one step of Algorithm 1, or of Algorithm 2 with a model. The snapshot is the only sample."""
        running, measured, names = snapshot.parallelism, self._latency(snapshot), list(snapshot.operators)
        if measured is None:
            text = f"On hold: no {target.statistic} latency was measured, so only the floor can be judged."
            return None, [Reason("hold-no-latency", text, {"statistic": target.statistic})]
        study = self._open_study(snapshot, sized, target)
        study.tell(
            [running[name] for name in names],
            latency=max(measured, MIN_LATENCY),
            throughput=snapshot.throughput,
            sizing=sized,
        )
        numbers: dict[str, Number] = {
            "latency_seconds": measured,
            "target_seconds": target.latency_seconds,
            "score": study.best.score,
            "threshold": study.benefit.threshold,
        }
        latency = (
            f"{target.statistic} latency {format_seconds(measured)} (target {format_seconds(target.latency_seconds)})"
        )
        score = f"score {study.best.score:.3f} (threshold {study.benefit.threshold:.3f})"
        if study.stop_reason == "target-met" or study.unsure is not None:
            return running, [Reason("target-met", f"No change: {latency}, {score}. The stop rule is met.", numbers)]
        if study.finished:
            text = f"No change: {latency}, {score}. The bounds allow no other configuration."
            return running, [Reason("out-of-reach", text, numbers)]
        code, cause = "latency-missed" if measured > target.latency_seconds else "over-allocated", latency
        if study.runs[0].failed:
            code, numbers["throughput"] = "falls-behind", snapshot.throughput or 0.0
            carried, offered = format_amount(snapshot.throughput or 0.0), format_amount(snapshot.target_rate)
            cause = f"throughput {carried}/s of {offered}/s offered"
        wanted = dict(zip(names, study.ask(), strict=True))
        mean, _ = study.model(max(snapshot.target_rate, 1e-9)).predict([tuple(wanted.values())])
        numbers["predicted_score"] = float(mean[0])
        text = f"Try {format_changes(running, wanted)}: {cause}, {score}. Expected score {mean[0]:.3f}."
        reasons = [*(Reason("model-left-out", remark) for remark in study.remarks), Reason(code, text, numbers)]
        if snapshot.throughput is None:
            return _keep_without_throughput(wanted, running, reasons)
        return wanted, reasons

    def _open_study(self, snapshot: Snapshot, sized: Sizing, target: Target) -> AskTellStudy:
        least = snapshot.target_rate * (1 - target.throughput_tolerance)
        return AskTellStudy(
            sized.floor,
            sized.upper,
            target.latency_seconds,
            self.alpha,
            self.over_allocation,
            source=self.model,
            sizing=sized,
            settings=SearchSettings(throughput_target=least),
        )


def _no_fewer(wanted: Mapping[str, int], running: Mapping[str, int]) -> dict[str, int]:
    return {name: max(k, running[name]) for name, k in wanted.items()}


def _keep_without_throughput(wanted: Mapping[str, int], running: Mapping[str, int], reasons: list[Reason]) -> Step:
    """Give nothing back while the throughput is unknown: a latency alone does not show that a job keeps up."""
    grown = _no_fewer(wanted, running)
    if grown == wanted:
        return wanted, reasons
    text = "No scale-down: the throughput is unknown, so the job may be falling behind."
    return (None if grown == running else grown), [*reasons, Reason("hold-unknown-throughput", text)]


def create(target: Target | None, options: Options) -> AuTraScale:
    return read_options(AuTraScale, "autrascale", options, name="autrascale", target=target)
