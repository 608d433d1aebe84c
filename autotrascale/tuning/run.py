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
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from autotrascale.domain.errors import EngineError, InputError
from autotrascale.domain.job import Job
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.engine import Engine
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.search.lattice import Point
from autotrascale.plan.search.study import SearchSettings, Study
from autotrascale.plan.sizing.sizing import Sizing, size
from autotrascale.plan.sizing.slowdown import Slowdowns
from autotrascale.plan.sizing.throughput import Step, look_back, no_better
from autotrascale.tuning.floor import Floor, FloorPhase
from autotrascale.tuning.trials import (
    Evaluation,
    Journal,
    JournalledTrial,
    Outcome,
    Phase,
    Progress,
    Report,
    Seen,
    Tuning,
    fixed_seconds,
    judged,
    latency_of,
    least_latency,
)

# An engine that fails this often in a row is broken, not slow: going on would only use up the budget.
FAILURES_IN_A_ROW = 3
FAILURES_AT_ONE_FLOOR = 2  # … and at the same parallelism, while nothing else can be run
HOPELESS = 1.2  # times the target: what no parallelism can better, with room for the error of a reading
SECOND_LOOKS = 2  # windows for cheaper configurations, once one is accepted


def tune(
    job: Job, engine: Engine, settings: Tuning | None = None, *, sources: Sequence[BenefitModel] = (),
    report: Report = lambda _: None, clock: Callable[[], float] = time.monotonic, journal: Journal | None = None,
    past: Sequence[JournalledTrial] = (), seen: Seen = lambda _: None,
) -> Outcome:  # fmt: skip
    """The whole run, or the rest of one whose trials so far are `past`. The engine stays open: it is the caller's.
    `seen` is told of each snapshot. A job or host that breaks again and again is an `EngineError`."""
    if job.rate == 0:
        raise InputError("source_rates", "are all zero, so there is nothing to measure", seen=dict(job.source_rates),
                         remedy="give each source a rate")  # fmt: skip
    return _Run(job, engine, settings or Tuning(), sources, report, clock, journal, past, seen).go()


class _Run:
    def __init__(
        self, job: Job, engine: Engine, settings: Tuning, sources: Sequence[BenefitModel], report: Report,
        clock: Callable[[], float], journal: Journal | None, past: Sequence[JournalledTrial], seen: Seen,
    ) -> None:  # fmt: skip
        self.job, self.engine, self.settings, self.sources = job, engine, settings, sources
        self.report, self.clock, self.journal, self.seen = report, clock, journal, seen
        self.past = deque(past)
        self.evaluations: list[Evaluation] = []
        self.study: Study | None = None
        self._fixed: float | None = None  # the least of what a batch takes beside its operators
        self._slowdowns = Slowdowns()
        self._steps: list[Step] = []  # what each trial carried
        self._failures = 0
        self._broken = _while_broken(past)
        self._second_looks = 0
        self._before = sum(each.evaluation.seconds for each in past)
        self._began = clock()

    def go(self) -> Outcome:
        floor = FloorPhase(self.job, self.settings, self.sources).find(self._floor_step, lambda: self._spent)
        self._check_anything_ran()
        if floor.ended is not None:
            return self._without_study(floor, floor.ended)
        self.study = study = self._open_study(floor)
        for evaluation in self.evaluations:
            self._tell(evaluation)
        while self._spent is None and not self._is_over(floor, study):
            accepted = study.finished
            self._search_step(study)
            self._second_looks += accepted
        if self._nothing_carries_more(floor):
            return self._without_study(self._look_back(floor), "rate-out-of-reach")
        return self._outcome(floor, study, study.stop_reason or self._spent or "target-out-of-reach")

    def _look_back(self, floor: Floor) -> Floor:
        """What carried most, on the fewest instances of those that noise cannot tell apart."""
        return replace(floor, parallelism=dict(look_back(self._steps).parallelism))

    def _is_over(self, floor: Floor, study: Study) -> bool:
        if study.finished:
            return self._cheaper(study) is None
        return self.evaluations[-1].phase != "floor" and (
            self._out_of_reach(floor) or self._nothing_carries_more(floor)
        )

    def _nothing_carries_more(self, floor: Floor) -> bool:
        """No trial has held the rate, and more of all that is busy than the floor has carried no more than it."""
        if floor.holds or any(step.keeps_up for step in self._steps):
            return False
        least = [step for step in self._steps if step.parallelism == floor.parallelism]
        return any(no_better(more, less) for more in self._steps for less in least)

    def _out_of_reach(self, floor: Floor) -> bool:
        """No parallelism can meet the target, whatever is run: one trial above the floor says how near it gets."""
        least = least_latency(floor.sizing, self._fixed)
        return least is not None and least > HOPELESS * self.job.target.latency_seconds

    @property
    def _spent(self) -> str | None:
        """Which budget is used up. Trials of the journal are paid for: recalling them takes none of the time."""
        if len(self.evaluations) >= self.settings.total_trials:
            return "budget"
        most, used = self.settings.max_seconds, self._before + self.clock() - self._began
        return "wall-clock" if most is not None and not self.past and self.evaluations and used >= most else None

    # -- 1. floor -----------------------------------------------------------------------------------------------------

    def _floor_step(self, parallelism: Mapping[str, int]) -> JournalledTrial:
        if self.past and self.past[0].evaluation.phase == "floor":
            return self._recall()
        return self._evaluate("floor", parallelism, FAILURES_AT_ONE_FLOOR)

    def _check_anything_ran(self) -> None:
        """A run of failures alone has nothing to answer."""
        if self.evaluations and all(each.verdict is Verdict.FAILED for each in self.evaluations):
            raise EngineError(f"every trial failed, the last one so: {self.evaluations[-1].detail}")

    # -- 2. search, 3. confirm ----------------------------------------------------------------------------------------

    def _open_study(self, floor: Floor) -> Study:
        s, vector = self.settings, self.job.topology.vector(floor.parallelism)
        return Study(
            floor=vector, p_max=self.job.upper, latency_target=self.job.target.latency_seconds, alpha=s.alpha,
            over_allocation=s.over_allocation, seed=s.seed, source=list(self.sources), max_runs=s.total_trials,
            faithful=s.faithful, sizing=self._sizing(floor),
            settings=SearchSettings(
                s.noise, s.confidence, self.job.rate * (1 - self.job.target.throughput_tolerance)
            ),
        )  # fmt: skip

    def _search_step(self, study: Study) -> None:
        if self.past:
            self._recall()
            return
        k, phase = self._next(study)
        self._evaluate(phase, self.job.topology.named(k), FAILURES_IN_A_ROW)

    def _next(self, study: Study) -> tuple[Point, Phase]:
        if (cheaper := self._cheaper(study)) is not None:
            return cheaper, "confirm"
        unsure = study.unsure
        if unsure is not None:
            windows = next(run.windows for run in study.runs if run.parallelism == unsure)
            if windows < self.settings.windows:
                return unsure, "confirm"
        return study.ask(), "search"

    def _cheaper(self, study: Study) -> Point | None:
        """What is worth a second look though a configuration is accepted already."""
        may = self.settings.windows > 1 and self._second_looks < SECOND_LOOKS
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
        study.tell(k, latency=latency, throughput=evaluation.throughput, failed=failed)

    # -- one trial ----------------------------------------------------------------------------------------------------

    def _recall(self) -> JournalledTrial:
        """A trial of the journal instead of a new one."""
        return self._keep(self.past.popleft())

    def _keep(self, done: JournalledTrial) -> JournalledTrial:
        self.evaluations.append(done.evaluation)
        if done.trial.snapshot is not None:
            self._learn(done.evaluation, done.trial.snapshot)
        self._tell(done.evaluation)
        return done

    def _learn(self, evaluation: Evaluation, snapshot: Snapshot) -> None:
        """What a miss may be put down to."""
        sized = size(snapshot, self.job.target)
        sizing = sized if isinstance(sized, Sizing) else None
        steady = evaluation.verdict is Verdict.STABLE
        self._steps.append(Step(evaluation.parallelism, evaluation.throughput, steady, sizing))
        fixed = fixed_seconds(snapshot)
        if fixed is not None:
            self._fixed = fixed if self._fixed is None else min(self._fixed, fixed)
        self._slowdowns.look(snapshot)

    def _evaluate(self, phase: Phase, parallelism: Mapping[str, int], most_failures: int) -> JournalledTrial:
        self._say(phase, parallelism, None)
        if self.journal is not None:
            self.journal.begin(self._number, phase, parallelism)
        began = self.clock()
        trial = self.engine.run(parallelism, self.job.source_rates)
        if trial.snapshot is not None:
            self.seen(trial.snapshot)
        done = JournalledTrial(self._read(phase, trial, self.clock() - began), trial)
        if self.journal is not None:
            self.journal.done(done)
        self._keep(done)
        self._say(phase, parallelism, done.evaluation)
        self._failures = self._failures + 1 if trial.verdict is Verdict.FAILED else 0
        if self._failures >= most_failures:
            raise EngineError(f"{self._failures} trials in a row failed, the last one so: {trial.detail}")
        return done

    @property
    def _number(self) -> int:
        """Of the next trial. Those of the journal keep theirs, those not yet recalled included."""
        return len(self.evaluations) + len(self.past) + 1

    def _read(self, phase: Phase, trial: Trial, seconds: float) -> Evaluation:
        verdict, detail = judged(self.job, trial)
        latency = latency_of(self.job, trial)
        return Evaluation(
            number=self._number, phase=phase, parallelism=dict(trial.parallelism), verdict=verdict,
            latency_seconds=latency, throughput=None if trial.snapshot is None else trial.snapshot.throughput,
            seconds=seconds, score=self._score(trial.parallelism, latency), detail=detail,
            shortage=trial.shortage, critical=None if trial.snapshot is None else trial.snapshot.critical,
        )  # fmt: skip

    def _score(self, parallelism: Mapping[str, int], latency: float | None) -> float | None:
        if self.study is None:
            return None
        k = self.job.topology.vector(parallelism)
        return float(self.study.benefit.score(k, math.inf if latency is None else latency))

    def _say(self, phase: Phase, parallelism: Mapping[str, int], done: Evaluation | None) -> None:
        best = None if self.study is None or not self.study.runs else self.study.answer
        left = self.settings.total_trials - len(self.evaluations)
        mean = sum(e.seconds for e in self.evaluations) / len(self.evaluations) if self.evaluations else None
        self.report(
            Progress(
                phase, done.number if done else self._number, self.settings.total_trials, dict(parallelism), done,
                None if best is None else self.job.topology.named(best.parallelism),
                None if best is None else best.latency, None if mean is None else mean * left,
                best is not None and best.met_target, best is not None and best.trusted,
                None if best is None else best.score,
            )
        )  # fmt: skip

    # -- the end ------------------------------------------------------------------------------------------------------

    def _outcome(self, floor: Floor, study: Study, stop_reason: str) -> Outcome:
        if not study.runs:
            return self._without_study(floor, stop_reason)
        best = study.answer
        if best.latency is None:
            return self._without_study(self._look_back(floor), stop_reason)
        named = self.job.topology.named(best.parallelism)
        last = self._last_of(named)
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
            self.job, self.engine.simulated, dict(floor.parallelism), self._sizing(floor), chosen, best.trusted,
            stop_reason, tuple(self.evaluations), study.model(self.job.rate), tuple(study.remarks),
            self.settings.confidence, floor.holds, self._fixed, self._slowdowns.found,
        )  # fmt: skip

    def _without_study(self, floor: Floor, stop_reason: str) -> Outcome:
        """Nothing was found that holds the rate: what came nearest."""
        nearest = self._last_of(floor.parallelism)
        return Outcome(
            self.job, self.engine.simulated, dict(floor.parallelism), self._sizing(floor), nearest, False, stop_reason,
            tuple(self.evaluations), None, (), self.settings.confidence, floor.holds, self._fixed,
            self._slowdowns.found,
        )  # fmt: skip

    def _sizing(self, floor: Floor) -> Sizing | None:
        return None if floor.sizing is None else floor.sizing.above(self.job.topology.vector(floor.parallelism))

    def _last_of(self, parallelism: Mapping[str, int]) -> Evaluation:
        """What ran may differ from what was asked for, so that nothing was asked for under this parallelism."""
        same = [each for each in self.evaluations if dict(each.parallelism) == dict(parallelism)] or self.evaluations
        return next((each for each in reversed(same) if each.verdict is not Verdict.FAILED), same[-1])


def _while_broken(past: Sequence[JournalledTrial]) -> set[int]:
    """Numbers of the trials that ended an earlier sitting: so many failures in a row are the engine's."""
    numbers: set[int] = set()
    for verdict, group in groupby((each.evaluation for each in past), key=lambda each: each.verdict):
        block = [each.number for each in group]
        if verdict is Verdict.FAILED and len(block) >= FAILURES_IN_A_ROW:
            numbers.update(block)
    return numbers
