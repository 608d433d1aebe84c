"""The knowledge of a tuning run: the measurements of its trials, and the study that proposes the next ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from autotrascale.domain.job import Job
from autotrascale.domain.trial import Verdict
from autotrascale.plan.search.ask_tell import AskTellStudy, SearchSettings
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.sizing.floor_search import FloorStep, choose_best_step, is_no_better
from autotrascale.plan.sizing.sizing import Sizing, size
from autotrascale.plan.sizing.slowdown import SlowdownDetector
from autotrascale.tuning.floor_search import FoundFloor
from autotrascale.tuning.trial_records import (
    Evaluation,
    JournalledTrial,
    TuningSettings,
    compute_least_latency,
    lower_fixed_seconds,
)
from autotrascale.tuning.trial_runner import BestSoFar

OUT_OF_REACH_RATIO = 1.2  # least latency over the target; above, the target is out of reach despite reading errors


class SearchKnowledge:
    """The knowledge of one run. There is a study once the floor is known."""

    def __init__(self, job: Job, ignored: set[int]) -> None:
        """`ignored`: numbers of past trials that failed because the engine was broken."""
        self.job = job
        self.study: AskTellStudy | None = None
        self.fixed_seconds: float | None = None  # the least cost of a batch beside its operators
        self.slowdowns = SlowdownDetector()
        self._ignored = ignored
        self._steps: list[FloorStep] = []  # the throughput of each trial
        self._sizings: dict[int, Sizing | None] = {}  # by the number of the trial

    def open_study(
        self,
        floor: FoundFloor,
        settings: TuningSettings,
        sources: Sequence[BenefitModel],
        evaluations: Iterable[Evaluation],
    ) -> AskTellStudy:
        """Open the study above `floor` and tell it `evaluations`: the trials of the floor search were paid for."""
        job = self.job
        least_throughput = job.rate * (1 - job.target.throughput_tolerance)
        self.study = AskTellStudy(
            floor=job.topology.vector(floor.parallelism),
            p_max=job.upper,
            latency_target=job.target.latency_seconds,
            alpha=settings.alpha,
            over_allocation=settings.over_allocation,
            seed=settings.seed,
            source=list(sources),
            max_runs=settings.total_trials,
            faithful=settings.faithful,
            sizing=self.size_above(floor),
            settings=SearchSettings(settings.noise, settings.confidence, least_throughput),
        )
        for evaluation in evaluations:
            self._tell(evaluation)
        return self.study

    def learn(self, done: JournalledTrial) -> None:
        evaluation, snapshot = done.evaluation, done.trial.snapshot
        if snapshot is not None:
            sized = size(snapshot, self.job.target)
            sizing = sized if isinstance(sized, Sizing) else None
            self._sizings[evaluation.number] = sizing
            keeps_up = evaluation.verdict is Verdict.STABLE
            self._steps.append(FloorStep(evaluation.parallelism, evaluation.throughput, keeps_up, sizing))
            self.fixed_seconds = lower_fixed_seconds(self.fixed_seconds, snapshot)
            self.slowdowns.observe(snapshot)
        self._tell(evaluation)

    def score(self, parallelism: Mapping[str, int], latency: float | None) -> float | None:
        if self.study is None:
            return None
        k = self.job.topology.vector(parallelism)
        return float(self.study.benefit.score(k, math.inf if latency is None else latency))

    def best(self) -> BestSoFar:
        if self.study is None or not self.study.runs:
            return BestSoFar()
        best = self.study.answer
        named = self.job.topology.named(best.parallelism)
        return BestSoFar(named, best.latency, best.met_target, best.trusted, best.score)

    def size_above(self, floor: FoundFloor) -> Sizing | None:
        return None if floor.sizing is None else floor.sizing.above(self.job.topology.vector(floor.parallelism))

    def find_most_carried(self) -> dict[str, int]:
        """Return the parallelism that carried most, with the fewest instances that noise cannot tell apart."""
        return dict(choose_best_step(self._steps).parallelism)

    def is_rate_out_of_reach(self, floor: FoundFloor) -> bool:
        """Return whether no trial held the rate, and more of all busy operators carried no more than the floor."""
        if floor.holds or any(step.keeps_up for step in self._steps):
            return False
        at_floor = [step for step in self._steps if step.parallelism == floor.parallelism]
        return any(is_no_better(more, less) for more in self._steps for less in at_floor)

    def is_target_out_of_reach(self, floor: FoundFloor) -> bool:
        """Return whether no parallelism can meet the target, by the least cost of a batch."""
        least = compute_least_latency(floor.sizing, self.fixed_seconds)
        return least is not None and least > OUT_OF_REACH_RATIO * self.job.target.latency_seconds

    def _tell(self, evaluation: Evaluation) -> None:
        """Tell the study about a trial.

        A trial below the floor has no place in the study. A failed trial that was run again says nothing, nor does one
        that failed because the engine was broken.
        """
        study, k = self.study, self.job.topology.vector(evaluation.parallelism)
        was_run_again = evaluation.phase == "floor" and evaluation.verdict is Verdict.FAILED
        if study is None or k not in study.lattice or was_run_again or evaluation.number in self._ignored:
            return
        failed = evaluation.verdict is not Verdict.STABLE or evaluation.latency_seconds is None
        study.tell(
            k,
            latency=None if failed else evaluation.latency_seconds,
            throughput=evaluation.throughput,
            failed=failed,
            sizing=self._sizings.get(evaluation.number),
        )
