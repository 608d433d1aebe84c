"""The order of a tuning run.

    1. floor     run and size anew until the throughput holds the rate (§III-C). With a stored model, begin at the floor
                 that it leads to expect; if that holds the rate, less is computed from it and not run
    2. search    above the floor, ask the study, run, tell, until it is finished (Algorithms 1 and 2)
    3. confirm   where a reading is too close to the target to be trusted, look a second time at the same configuration;
                 and once one is accepted, at a cheaper one that is likely to do and not yet trusted

Runs of the first step are told to the study too: they were paid for. This module knows the order and nothing else;
what to run is decided in `plan`, running is the engine's affair, and remembering is the journal's. Each trial is in
the journal before anything is decided from it; a run that is given the trials of a journal goes on after the last.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from autotrascale.domain.errors import InputError
from autotrascale.domain.job import Job
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.trial import Verdict
from autotrascale.execute.engine import Engine
from autotrascale.plan.policies.registry import OURS, PolicyChoice
from autotrascale.plan.search.ask_tell import AskTellStudy, SearchSettings
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.search.lattice import Point
from autotrascale.plan.sizing.floor_search import FloorStep, choose_best_step, is_no_better
from autotrascale.plan.sizing.sizing import Sizing, size
from autotrascale.plan.sizing.slowdown import SlowdownDetector
from autotrascale.tuning.floor_search import FloorSearch, FoundFloor
from autotrascale.tuning.policy_run import PolicyRun
from autotrascale.tuning.trial_records import (
    Evaluation,
    JournalledTrial,
    Outcome,
    ReportProgress,
    SnapshotListener,
    TrialJournal,
    TrialPhase,
    TuningSettings,
    compute_least_latency,
    measure_fixed_seconds,
)
from autotrascale.tuning.trial_runner import BestSoFar, TrialRunner

# An engine that fails this often in a row is broken, not slow: going on would only use up the budget.
MAX_FAILURES_IN_A_ROW = 3
MAX_FAILURES_AT_FLOOR = 2  # … and at the same parallelism, while nothing else can be run
OUT_OF_REACH_RATIO = 1.2  # times the target: what no parallelism can better, with room for the error of a reading
MAX_SECOND_LOOKS = 2  # windows for cheaper configurations, once one is accepted


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
    """The whole run, or the rest of one whose trials so far are `past`. The engine stays open: it is the caller's.
    `seen` is told of each snapshot. `policy`: who is asked what to run, in place of this search. A job or host that
    breaks again and again is an `EngineError`."""
    if job.rate == 0:
        raise InputError(
            "source_rates",
            "are all zero, so there is nothing to measure",
            seen=dict(job.source_rates),
            remedy="give each source a rate",
        )
    trials = TrialRunner(job, engine, settings or TuningSettings(), report, clock, journal, past, seen)
    if policy is not None and policy.name != OURS:
        return PolicyRun(trials, policy).go()
    return _Run(trials, sources).go()


class _Run:
    def __init__(self, trials: TrialRunner, sources: Sequence[BenefitModel]) -> None:
        self.trials, self.job, self.settings, self.sources = trials, trials.job, trials.settings, sources
        trials.kept, trials.score, trials.best = self._learn, self._score, self._best
        self.study: AskTellStudy | None = None
        self._fixed: float | None = None  # the least of what a batch takes beside its operators
        self._slowdowns = SlowdownDetector()
        self._steps: list[FloorStep] = []  # what each trial carried
        self._sizings: dict[int, Sizing | None] = {}  # of each trial, by its number
        self._broken = _while_broken(trials.past)
        self._second_looks = 0

    def go(self) -> Outcome:
        floor = FloorSearch(self.job, self.settings, self.sources).find(self._floor_step, lambda: self.trials.spent)
        self.trials.check_anything_ran()
        if floor.ended is not None:
            return self._without_study(floor, floor.ended)
        self.study = study = self._open_study(floor)
        for evaluation in self.trials.evaluations:
            self._tell(evaluation)
        while self.trials.spent is None and not self._is_over(floor, study):
            accepted = study.finished
            self._search_step(study)
            self._second_looks += accepted
        if self._nothing_carries_more(floor):
            return self._without_study(self._look_back(floor), "rate-out-of-reach")
        return self._outcome(floor, study, study.stop_reason or self.trials.spent or "target-out-of-reach")

    def _look_back(self, floor: FoundFloor) -> FoundFloor:
        """What carried most, on the fewest instances of those that noise cannot tell apart."""
        return replace(floor, parallelism=dict(choose_best_step(self._steps).parallelism))

    def _is_over(self, floor: FoundFloor, study: AskTellStudy) -> bool:
        if study.finished:
            return self._cheaper(study) is None
        return self.trials.evaluations[-1].phase != "floor" and (
            self._out_of_reach(floor) or self._nothing_carries_more(floor)
        )

    def _nothing_carries_more(self, floor: FoundFloor) -> bool:
        """No trial has held the rate, and more of all that is busy than the floor has carried no more than it."""
        if floor.holds or any(step.keeps_up for step in self._steps):
            return False
        least = [step for step in self._steps if step.parallelism == floor.parallelism]
        return any(is_no_better(more, less) for more in self._steps for less in least)

    def _out_of_reach(self, floor: FoundFloor) -> bool:
        """No parallelism can meet the target, whatever is run: one trial above the floor says how near it gets."""
        least = compute_least_latency(floor.sizing, self._fixed)
        return least is not None and least > OUT_OF_REACH_RATIO * self.job.target.latency_seconds

    # -- 1. floor -----------------------------------------------------------------------------------------------------

    def _floor_step(self, parallelism: Mapping[str, int]) -> JournalledTrial:
        past = self.trials.past
        if past and past[0].evaluation.phase == "floor":
            return self.trials.recall()
        return self.trials.run("floor", parallelism, MAX_FAILURES_AT_FLOOR)

    # -- 2. search, 3. confirm ----------------------------------------------------------------------------------------

    def _open_study(self, floor: FoundFloor) -> AskTellStudy:
        s, vector = self.settings, self.job.topology.vector(floor.parallelism)
        return AskTellStudy(
            floor=vector,
            p_max=self.job.upper,
            latency_target=self.job.target.latency_seconds,
            alpha=s.alpha,
            over_allocation=s.over_allocation,
            seed=s.seed,
            source=list(self.sources),
            max_runs=s.total_trials,
            faithful=s.faithful,
            sizing=self._sizing(floor),
            settings=SearchSettings(s.noise, s.confidence, self.job.rate * (1 - self.job.target.throughput_tolerance)),
        )

    def _search_step(self, study: AskTellStudy) -> None:
        if self.trials.past:
            self.trials.recall()
            return
        k, phase = self._next(study)
        self.trials.run(phase, self.job.topology.named(k), MAX_FAILURES_IN_A_ROW)

    def _next(self, study: AskTellStudy) -> tuple[Point, TrialPhase]:
        if (cheaper := self._cheaper(study)) is not None:
            return cheaper, "confirm" if any(run.parallelism == cheaper for run in study.runs) else "search"
        unsure = study.unsure
        if unsure is not None:
            windows = next(run.windows for run in study.runs if run.parallelism == unsure)
            if windows < self.settings.windows:
                return unsure, "confirm"
        return study.ask(), "search"

    def _cheaper(self, study: AskTellStudy) -> Point | None:
        """What is worth a second look though a configuration is accepted already."""
        may = self.settings.windows > 1 and self._second_looks < MAX_SECOND_LOOKS
        return study.cheaper if may and study.stop_reason == "target-met" else None

    def _tell(self, evaluation: Evaluation) -> None:
        """A run below the floor says nothing that the study, which lives above it, could place. Nor does one that
        failed because the engine was broken, or that failed and was run again."""
        study, k = self.study, self.job.topology.vector(evaluation.parallelism)
        again = evaluation.phase == "floor" and evaluation.verdict is Verdict.FAILED
        if study is None or k not in study.lattice or again or evaluation.number in self._broken:
            return
        failed = evaluation.verdict is not Verdict.STABLE or evaluation.latency_seconds is None
        latency = None if failed else evaluation.latency_seconds
        sizing = self._sizings.get(evaluation.number)
        study.tell(k, latency=latency, throughput=evaluation.throughput, failed=failed, sizing=sizing)

    # -- what a trial teaches -----------------------------------------------------------------------------------------

    def _learn(self, done: JournalledTrial) -> None:
        if done.trial.snapshot is not None:
            self._measured(done.evaluation, done.trial.snapshot)
        self._tell(done.evaluation)

    def _measured(self, evaluation: Evaluation, snapshot: Snapshot) -> None:
        """What a miss may be put down to, and what the study learns of it beside its latency."""
        sized = size(snapshot, self.job.target)
        sizing = sized if isinstance(sized, Sizing) else None
        self._sizings[evaluation.number] = sizing
        steady = evaluation.verdict is Verdict.STABLE
        self._steps.append(FloorStep(evaluation.parallelism, evaluation.throughput, steady, sizing))
        fixed = measure_fixed_seconds(snapshot)
        if fixed is not None:
            self._fixed = fixed if self._fixed is None else min(self._fixed, fixed)
        self._slowdowns.observe(snapshot)

    def _score(self, parallelism: Mapping[str, int], latency: float | None) -> float | None:
        if self.study is None:
            return None
        k = self.job.topology.vector(parallelism)
        return float(self.study.benefit.score(k, math.inf if latency is None else latency))

    def _best(self) -> BestSoFar:
        if self.study is None or not self.study.runs:
            return BestSoFar()
        best = self.study.answer
        named = self.job.topology.named(best.parallelism)
        return BestSoFar(named, best.latency, best.met_target, best.trusted, best.score)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _outcome(self, floor: FoundFloor, study: AskTellStudy, stop_reason: str) -> Outcome:
        if not study.runs:
            return self._without_study(floor, stop_reason)
        best = study.answer
        if best.latency is None:
            return self._without_study(self._look_back(floor), stop_reason)
        named = self.job.topology.named(best.parallelism)
        last = self.trials.last_of(named)
        chosen = Evaluation(
            last.number,
            last.phase,
            named,
            last.verdict,
            best.latency,
            last.throughput,
            last.seconds,
            best.score,
            shortage=last.shortage,
            critical=last.critical,
        )
        return Outcome(
            self.job,
            self.trials.engine.simulated,
            dict(floor.parallelism),
            self._sizing(floor),
            chosen,
            best.trusted,
            stop_reason,
            tuple(self.trials.evaluations),
            study.model(self.job.rate),
            tuple(study.remarks),
            self.settings.confidence,
            floor.holds,
            self._fixed,
            self._slowdowns.slowdown,
        )

    def _without_study(self, floor: FoundFloor, stop_reason: str) -> Outcome:
        """Nothing was found that holds the rate: what came nearest."""
        nearest = self.trials.last_of(floor.parallelism)
        return Outcome(
            self.job,
            self.trials.engine.simulated,
            dict(floor.parallelism),
            self._sizing(floor),
            nearest,
            False,
            stop_reason,
            tuple(self.trials.evaluations),
            None,
            (),
            self.settings.confidence,
            floor.holds,
            self._fixed,
            self._slowdowns.slowdown,
        )

    def _sizing(self, floor: FoundFloor) -> Sizing | None:
        return None if floor.sizing is None else floor.sizing.above(self.job.topology.vector(floor.parallelism))


def _while_broken(past: Sequence[JournalledTrial]) -> set[int]:
    """Numbers of the trials that ended an earlier sitting: so many failures in a row are the engine's."""
    numbers: set[int] = set()
    for verdict, group in groupby((each.evaluation for each in past), key=lambda each: each.verdict):
        block = [each.number for each in group]
        if verdict is Verdict.FAILED and len(block) >= MAX_FAILURES_IN_A_ROW:
            numbers.update(block)
    return numbers
