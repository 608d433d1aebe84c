"""The order of a tuning run.

    1. floor     run and size anew until the throughput holds the rate (§III-C). With a stored model, start at the floor
                 that it predicts; if that holds the rate, a lower floor is computed and not run
    2. search    above the floor: ask the study, run, tell, until it has finished (Algorithms 1 and 2)
    3. confirm   measure a configuration again if its reading is too close to the target; once one is accepted, measure
                 a cheaper one that is likely to meet the target, too

This module knows the order only. `plan` chooses configurations, the engine runs them, and the journal stores them. A
run that gets the trials of a journal continues after the last of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

from autotrascale.domain.errors import InputError
from autotrascale.domain.job import Job
from autotrascale.domain.trial import Verdict
from autotrascale.execute.engine import Engine
from autotrascale.plan.policies.registry import OURS, PolicyChoice
from autotrascale.plan.search.ask_tell import AskTellStudy
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.search.lattice import Point
from autotrascale.tuning.floor_search import FloorSearch, FoundFloor
from autotrascale.tuning.policy_run import PolicyKnowledge, PolicyRun
from autotrascale.tuning.search_knowledge import SearchKnowledge
from autotrascale.tuning.trial_records import (
    Evaluation,
    JournalledTrial,
    Outcome,
    ReportProgress,
    SnapshotListener,
    TrialJournal,
    TrialPhase,
    TuningSettings,
)
from autotrascale.tuning.trial_runner import RunKnowledge, TrialRunner

MAX_FAILURES_IN_A_ROW = 3  # then the engine is broken, and further trials would only use up the budget
MAX_SECOND_LOOKS = 2  # at cheaper configurations, once one is accepted


def tune(
    job: Job,
    engine: Engine,
    settings: TuningSettings | None = None,
    *,
    sources: Sequence[BenefitModel] = (),
    report: ReportProgress = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    journal: TrialJournal | None = None,
    past: Sequence[JournalledTrial] = (),
    seen: SnapshotListener = lambda _: None,
    policy: PolicyChoice | None = None,
) -> Outcome:
    """Run a whole tuning run, or the rest of one whose trials so far are `past`.

    Args:
        job: the job with target and rate.
        engine: runs the trials. It stays open; closing it is the caller's task.
        settings: budget and constants; default: `TuningSettings()`.
        sources: benefit models of the job to start from.
        report: receives the progress before and after each trial.
        clock: seconds, for the budget.
        journal: stores each trial.
        past: trials before a resumption.
        seen: receives each snapshot.
        policy: another policy to ask, instead of the search.

    Raises `InputError` for a rate of zero, and `EngineError` if the job or its host fails again and again.
    """
    if job.rate == 0:
        raise InputError(
            "source_rates",
            "are all zero, so there is nothing to measure",
            seen=dict(job.source_rates),
            remedy="give each source a rate",
        )

    def open_trials(knowledge: RunKnowledge) -> TrialRunner:
        return TrialRunner(
            job,
            engine,
            settings or TuningSettings(),
            knowledge,
            report=report,
            clock=clock,
            journal=journal,
            past=past,
            seen=seen,
        )

    if policy is not None and policy.name != OURS:
        observed = PolicyKnowledge(job)
        return PolicyRun(open_trials(observed), observed, policy).run()
    knowledge = SearchKnowledge(job, ignored=_find_trials_of_broken_engine(past))
    return SearchRun(open_trials(knowledge), knowledge, sources).run()


class SearchRun:
    """A tuning run with AuTraScale's own search."""

    def __init__(self, trials: TrialRunner, knowledge: SearchKnowledge, sources: Sequence[BenefitModel]) -> None:
        self.trials, self.job, self.settings = trials, trials.job, trials.settings
        self.knowledge, self.sources = knowledge, sources
        self._second_looks = 0

    def run(self) -> Outcome:
        # 1. floor
        floor = FloorSearch(self.trials, self.sources).find()
        self.trials.check_any_success()
        if floor.ended is not None:
            return self._report_miss(floor, floor.ended)
        # 2. search, 3. confirm
        study = self.knowledge.open_study(floor, self.settings, self.sources, self.trials.evaluations)
        while self.trials.spent is None and not self._is_over(floor, study):
            self._run_next(study)
        if self.knowledge.is_rate_out_of_reach(floor):
            return self._report_miss(self._move_to_most_carried(floor), "rate-out-of-reach")
        return self._report_best(floor, study, study.stop_reason or self.trials.spent or "target-out-of-reach")

    def _is_over(self, floor: FoundFloor, study: AskTellStudy) -> bool:
        if study.finished:
            return self._find_cheaper(study) is None
        if self.trials.evaluations[-1].phase == "floor":
            return False  # one trial above the floor is run in any case
        return self.knowledge.is_target_out_of_reach(floor) or self.knowledge.is_rate_out_of_reach(floor)

    def _run_next(self, study: AskTellStudy) -> None:
        was_finished = study.finished
        if self.trials.past:
            self.trials.recall()
        else:
            k, phase = self._choose_next(study)
            self.trials.run(phase, self.job.topology.named(k), MAX_FAILURES_IN_A_ROW)
        self._second_looks += was_finished

    def _choose_next(self, study: AskTellStudy) -> tuple[Point, TrialPhase]:
        if (cheaper := self._find_cheaper(study)) is not None:
            return cheaper, "confirm" if any(run.parallelism == cheaper for run in study.runs) else "search"
        unsure = study.unsure
        if unsure is not None:
            windows = next(run.windows for run in study.runs if run.parallelism == unsure)
            if windows < self.settings.windows:
                return unsure, "confirm"
        return study.ask(), "search"

    def _find_cheaper(self, study: AskTellStudy) -> Point | None:
        """Return a cheaper configuration that is worth a trial although one is accepted already."""
        may_look = self.settings.windows > 1 and self._second_looks < MAX_SECOND_LOOKS
        return study.cheaper if may_look and study.stop_reason == "target-met" else None

    # -- the outcome --------------------------------------------------------------------------------------------------

    def _report_best(self, floor: FoundFloor, study: AskTellStudy, stop_reason: str) -> Outcome:
        if not study.runs:
            return self._report_miss(floor, stop_reason)
        best = study.answer
        if best.latency is None:
            return self._report_miss(self._move_to_most_carried(floor), stop_reason)
        named = self.job.topology.named(best.parallelism)
        last = self.trials.find_last(named)
        chosen = replace(last, parallelism=named, latency_seconds=best.latency, score=best.score, detail="")
        outcome = self._make_outcome(floor, chosen, stop_reason, met_target=best.trusted)
        return replace(outcome, model=study.model(self.job.rate), remarks=tuple(study.remarks))

    def _report_miss(self, floor: FoundFloor, stop_reason: str) -> Outcome:
        """Return an outcome without a configuration that holds the rate: the nearest one."""
        return self._make_outcome(floor, self.trials.find_last(floor.parallelism), stop_reason, met_target=False)

    def _make_outcome(self, floor: FoundFloor, best: Evaluation, stop_reason: str, *, met_target: bool) -> Outcome:
        return Outcome(
            job=self.job,
            simulated=self.trials.engine.simulated,
            floor=dict(floor.parallelism),
            sizing=self.knowledge.size_above(floor),
            best=best,
            met_target=met_target,
            stop_reason=stop_reason,
            evaluations=tuple(self.trials.evaluations),
            model=None,
            confidence=self.settings.confidence,
            floor_holds=floor.holds,
            fixed_seconds=self.knowledge.fixed_seconds,
            slowdown=self.knowledge.slowdowns.slowdown,
        )

    def _move_to_most_carried(self, floor: FoundFloor) -> FoundFloor:
        return replace(floor, parallelism=self.knowledge.find_most_carried())


def _find_trials_of_broken_engine(past: Sequence[JournalledTrial]) -> set[int]:
    """Return the numbers of past trials that failed so often in a row that the engine was the cause."""
    numbers: set[int] = set()
    for verdict, group in groupby((each.evaluation for each in past), key=lambda each: each.verdict):
        block = [each.number for each in group]
        if verdict is Verdict.FAILED and len(block) >= MAX_FAILURES_IN_A_ROW:
            numbers.update(block)
    return numbers
