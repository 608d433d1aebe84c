"""AuTraScale from one snapshot: the floor, and above it one step of the search.

Without a latency target this is the floor. With one, and a job that runs at or above its floor, what was measured is
told to a study, and the study is asked for the next step: from a benefit model when one is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotrascale.domain.decision import Decision, Number, Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.formatting import format_amount, format_changes, format_seconds
from autotrascale.plan.policies import Options
from autotrascale.plan.policies.base import answer, hold, hold_for_gaps, read_options
from autotrascale.plan.policies.ds2 import explain_floor
from autotrascale.plan.search.ask_tell import AskTellStudy, SearchSettings
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.search.study_runs import MIN_LATENCY
from autotrascale.plan.sizing.sizing import Sizing, Unsized, size

Step = tuple[Mapping[str, int] | None, list[Reason]]  # None holds


@dataclass(frozen=True)
class AuTraScale:
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
            text = "no latency target was given, so the throughput floor is the answer"
            return answer(self.name, snapshot, sized.named_floor, [*reasons, Reason("floor", text)], sized)
        wanted, more = self._within_bounds(snapshot, sized) or self._search(snapshot, sized, self.target)
        if wanted is None:
            return hold(self.name, snapshot, [*reasons, *more])
        return answer(self.name, snapshot, wanted, [*reasons, *more], sized)

    def _within_bounds(self, snapshot: Snapshot, sized: Sizing) -> Step | None:
        """A job that runs outside of [floor, most], where latency is not searched yet."""
        running, floor = snapshot.parallelism, sized.named_floor
        if short := [name for name, k in floor.items() if running[name] < k]:
            text = f"below the floor at {', '.join(short)}: to the floor first, latency is searched above it"
            reason = Reason("floor-first", text, {"operators": ", ".join(short)})
            return (floor if self._latency(snapshot) is not None else _no_lower(floor, running)), [reason]
        most = dict(zip(floor, sized.upper, strict=True))
        if above := [name for name, k in most.items() if running[name] > k]:
            text = f"above the maximum at {', '.join(above)}: to the bounds first, latency is searched within them"
            down = {name: min(running[name], k) for name, k in most.items()}
            return down, [Reason("bounds-first", text, {"operators": ", ".join(above)})]
        return None

    def _latency(self, snapshot: Snapshot) -> float | None:
        return None if self.target is None else snapshot.latency_seconds.of(self.target.statistic)

    def _search(self, snapshot: Snapshot, sized: Sizing, target: Target) -> Step:
        """One step of Algorithm 1, or of Algorithm 2 with a model. Nothing is run: the snapshot is the only sample."""
        running, measured, names = snapshot.parallelism, self._latency(snapshot), list(snapshot.operators)
        if measured is None:
            text = f"the snapshot has no {target.statistic} latency, so only the floor can be judged"
            return None, [Reason("hold-no-latency", text, {"statistic": target.statistic})]
        study = self._study(snapshot, sized, target)
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
        read = f"{target.statistic} latency {format_seconds(measured)} against {format_seconds(target.latency_seconds)}"
        score = f"score {study.best.score:.3f} against {study.benefit.threshold:.3f}"
        if study.stop_reason == "target-met" or study.unsure is not None:
            return running, [Reason("target-met", f"{read}, {score}: the stop rule is met, it stays", numbers)]
        if study.finished:
            text = f"{read}, {score}: the bounds leave no other configuration than the one that runs"
            return running, [Reason("out-of-reach", text, numbers)]
        code = "latency-missed" if measured > target.latency_seconds else "over-allocated"
        if study.runs[0].failed:
            code, numbers["throughput"] = "falls-behind", snapshot.throughput or 0.0
            read = f"throughput {format_amount(snapshot.throughput or 0.0)}/s against {format_amount(snapshot.target_rate)}/s offered"
        wanted = dict(zip(names, study.ask(), strict=True))
        mean, _ = study.model(max(snapshot.target_rate, 1e-9)).predict([tuple(wanted.values())])
        numbers["predicted_score"] = float(mean[0])
        remarks = [Reason("model-left-out", remark) for remark in study.remarks]
        text = f"{read}, {score}: try {format_changes(running, wanted)}, expected score {mean[0]:.3f}"
        found = [*remarks, Reason(code, text, numbers)]
        return (wanted, found) if snapshot.throughput is not None else _without_throughput(wanted, running, found)

    def _study(self, snapshot: Snapshot, sized: Sizing, target: Target) -> AskTellStudy:
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


def _no_lower(wanted: Mapping[str, int], running: Mapping[str, int]) -> dict[str, int]:
    return {name: max(k, running[name]) for name, k in wanted.items()}


def _without_throughput(wanted: Mapping[str, int], running: Mapping[str, int], found: list[Reason]) -> Step:
    """Latency alone does not say that a job keeps up, so nothing that runs is given back."""
    kept = _no_lower(wanted, running)
    if kept == wanted:
        return wanted, found
    text = "holding: throughput is not known, so the job may be falling behind and nothing is given back"
    return (None if kept == running else kept), [*found, Reason("hold-unknown-throughput", text)]


def create(target: Target | None, options: Options) -> AuTraScale:
    return read_options(AuTraScale, "autrascale", options, name="autrascale", target=target)
