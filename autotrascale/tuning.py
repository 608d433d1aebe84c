"""One tuning run at one input rate, from nothing known to a configuration that holds the target.

    1. floor     run and size anew until the throughput holds the rate (§III-C). With a stored model, begin at the floor
                 that it leads to expect; if that holds the rate, less is computed from it and not run
    2. search    above the floor, ask the study, run, tell, until it is finished (Algorithms 1 and 2)
    3. confirm   where a reading is too close to the target to be trusted, look a second time at the same configuration

Runs of the first step are told to the study too: they were paid for. This module knows the order and nothing else;
what to run is decided in `plan`, running is the engine's affair, and remembering is the journal's. Each trial is in
the journal before anything is decided from it; a run that is given the trials of a journal goes on after the last.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from autotrascale.domain import checks
from autotrascale.domain.errors import EngineError, InputError
from autotrascale.domain.job import Job
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.engine import Engine
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.search.lattice import Point
from autotrascale.plan.search.runs import LEAST_LATENCY
from autotrascale.plan.search.study import SearchSettings, Study
from autotrascale.plan.sizing.sizing import Sizing
from autotrascale.plan.sizing.throughput import SearchResult, StopReason, ThroughputSearch

Phase = Literal["floor", "search", "confirm"]

CORRECTIONS = 2  # of capacities that were measured too high, while the floor is looked for
# An engine that fails this often in a row is broken, not slow: going on would only use up the budget.
FAILURES_IN_A_ROW = 3


@dataclass(frozen=True)
class Tuning:
    """The `tuning:` section of a job file."""

    alpha: float = 0.5
    over_allocation: float = 0.5
    total_trials: int = 20
    max_seconds: float | None = None  # no trial begins after so long; trials of an earlier sitting count too
    seed: int = 0
    initial: Mapping[str, int] = field(default_factory=dict)  # where the floor is looked for from; else all minima
    noise: float = 0.05
    confidence: float = 0.97
    windows: int = 2  # looks at one configuration at most; 1: never confirm
    faithful: bool = False  # the paper's algorithms, step by step

    def __post_init__(self) -> None:
        checks.share("alpha", self.alpha)
        checks.non_negative("over_allocation", self.over_allocation)
        checks.count("total_trials", self.total_trials)
        if self.max_seconds is not None:
            checks.positive("max_seconds", self.max_seconds)
        checks.count("seed", self.seed, least=0)
        checks.positive("noise", self.noise)
        checks.share("noise", self.noise)
        checks.share("confidence", self.confidence)
        checks.count("windows", self.windows)


@dataclass(frozen=True)
class Evaluation:
    """One trial as the user is told of it."""

    number: int
    phase: Phase
    parallelism: Mapping[str, int]
    verdict: Verdict
    latency_seconds: float | None
    throughput: float | None
    seconds: float
    score: float | None = None  # None while the floor is looked for: scores are relative to it
    detail: str = ""


@dataclass(frozen=True)
class Recorded:
    """An evaluation and the trial it was read from: all that going on after it takes."""

    evaluation: Evaluation
    trial: Trial


class Journal(Protocol):
    def begin(self, number: int, phase: Phase, parallelism: Mapping[str, int]) -> None:
        """A trial is about to run. Raises when this run may not go on."""
        ...

    def done(self, recorded: Recorded) -> None:
        """It was measured. When this returns, it is kept."""
        ...


@dataclass(frozen=True)
class Progress:
    """Where a run stands, said before each trial (`done` is None) and after it."""

    phase: Phase
    number: int
    total: int
    parallelism: Mapping[str, int]
    done: Evaluation | None
    best: Mapping[str, int] | None
    best_latency: float | None
    seconds_left: float | None  # at most: every trial of the budget, as long as those so far


@dataclass(frozen=True)
class Outcome:
    job: Job
    simulated: bool
    floor: Mapping[str, int]
    sizing: Sizing | None
    best: Evaluation
    met_target: bool
    stop_reason: str
    evaluations: tuple[Evaluation, ...]
    model: BenefitModel | None
    remarks: tuple[str, ...] = ()


Report = Callable[[Progress], None]
Seen = Callable[[Snapshot], None]


def tune(
    job: Job, engine: Engine, settings: Tuning | None = None, *, sources: Sequence[BenefitModel] = (),
    report: Report = lambda _: None, clock: Callable[[], float] = time.monotonic, journal: Journal | None = None,
    past: Sequence[Recorded] = (), seen: Seen = lambda _: None,
) -> Outcome:  # fmt: skip
    """The whole run, or the rest of one whose trials so far are `past`. The engine stays open: it is the caller's.
    `seen` is told of each snapshot."""
    if job.rate == 0:
        raise InputError("source_rates", "are all zero, so there is nothing to measure", seen=dict(job.source_rates),
                         remedy="give each source a rate")  # fmt: skip
    return _Run(job, engine, settings or Tuning(), sources, report, clock, journal, past, seen).go()


class _Run:
    def __init__(
        self, job: Job, engine: Engine, settings: Tuning, sources: Sequence[BenefitModel], report: Report,
        clock: Callable[[], float], journal: Journal | None, past: Sequence[Recorded], seen: Seen,
    ) -> None:  # fmt: skip
        self.job, self.engine, self.settings, self.sources = job, engine, settings, sources
        self.report, self.clock, self.journal, self.seen = report, clock, journal, seen
        self.past = deque(past)
        self.evaluations: list[Evaluation] = []
        self.study: Study | None = None
        self._failures = 0
        self._before = sum(each.evaluation.seconds for each in past)
        self._began = clock()

    def go(self) -> Outcome:
        floor, sizing, without = self._find_floor()
        if floor is None:
            return self._outcome(self._best_throughput().parallelism, None, without)
        sizing = None if sizing is None else sizing.above(self.job.topology.vector(floor))
        self.study = self._open_study(floor, sizing)
        for evaluation in self.evaluations:
            self._tell(evaluation)
        while not self.study.finished and self._spent is None:
            self._tell(self._search_step(self.study))
        return self._outcome(floor, sizing, self.study.stop_reason or self._spent or "budget")

    @property
    def _spent(self) -> str | None:
        """Which budget is used up. Trials of the journal are paid for: recalling them takes none of the time."""
        if len(self.evaluations) >= self.settings.total_trials:
            return "budget"
        most, used = self.settings.max_seconds, self._before + self.clock() - self._began
        return "wall-clock" if most is not None and not self.past and self.evaluations and used >= most else None

    # -- 1. floor -----------------------------------------------------------------------------------------------------

    def _find_floor(self) -> tuple[dict[str, int] | None, Sizing | None, str]:
        """k', what it was sized by, and why there is no k' when there is none."""
        search = self._floor_search(self._start())
        sizing: Sizing | None = None
        held: SearchResult | None = None
        spent = None
        while not search.finished and (spent := self._spent) is None:
            trial = self._floor_step(search)
            # A trial that failed says nothing of the throughput, whatever it took in meanwhile.
            search.tell(None if trial.verdict is Verdict.FAILED else trial.snapshot)
            sizing = search.sizing or sizing
            if (less := self._less(search, trial.snapshot)) is not None:
                if self._known:
                    return _lower(less, search.result.parallelism), sizing, ""
                held, search = search.result, self._floor_search(less)
        found = search.result if search.finished and search.result.met else held
        if found is not None:
            return dict(found.parallelism), sizing, ""
        if not search.finished:
            return None, sizing, spent or "budget"
        failed = search.result.stop_reason is StopReason.FAILED
        return None, sizing, "no-metrics" if failed else "rate-out-of-reach"

    def _start(self) -> Mapping[str, int] | None:
        """As asked for; else what the nearest model leads to expect; else all minima."""
        if self.settings.initial:
            return starting_point(self.job, self.settings.initial)
        return likely_floor(self.job, self._known) if self._known else None

    @property
    def _known(self) -> list[BenefitModel]:
        """The sources by which the floor is looked for."""
        if self.settings.initial or self.settings.faithful:
            return []
        return [model for model in self.sources if len(model.floor) == len(self.job.topology)]

    def _floor_search(self, start: Mapping[str, int] | None) -> ThroughputSearch:
        return ThroughputSearch(
            self.job.topology, self.job.source_rates, self.job.p_max, target=self.job.target, start=start,
            tolerance=self.job.target.throughput_tolerance, corrections=0 if self.settings.faithful else CORRECTIONS,
        )  # fmt: skip

    def _less(self, search: ThroughputSearch, seen: Snapshot | None) -> dict[str, int] | None:
        """What would do where the first run holds the rate with more: a search is content with such a start."""
        if len(self.evaluations) > 1 or seen is None or not search.finished or not search.result.met:
            return None
        wanted = search.recommend(seen)
        return wanted if wanted is not None and sum(wanted.values()) < sum(seen.parallelism.values()) else None

    def _floor_step(self, search: ThroughputSearch) -> Trial:
        if self.past and self.past[0].evaluation.phase == "floor":
            return self._recall().trial
        return self._evaluate("floor", search.ask()).trial

    def _best_throughput(self) -> Evaluation:
        return max(self.evaluations, key=lambda e: (e.throughput or 0.0, -sum(e.parallelism.values())))

    # -- 2. search, 3. confirm ----------------------------------------------------------------------------------------

    def _open_study(self, floor: Mapping[str, int], sizing: Sizing | None) -> Study:
        s, vector = self.settings, self.job.topology.vector
        return Study(
            floor=vector(floor), p_max=self.job.upper, latency_target=self.job.target.latency_seconds, alpha=s.alpha,
            over_allocation=s.over_allocation, seed=s.seed, source=list(self.sources), max_runs=s.total_trials,
            faithful=s.faithful, sizing=sizing, settings=SearchSettings(
                s.noise, s.confidence, self.job.rate * (1 - self.job.target.throughput_tolerance)
            ),
        )  # fmt: skip

    def _search_step(self, study: Study) -> Evaluation:
        if self.past:
            return self._recall().evaluation
        k, phase = self._next(study)
        return self._evaluate(phase, self.job.topology.named(k)).evaluation

    def _next(self, study: Study) -> tuple[Point, Phase]:
        unsure = study.unsure
        if unsure is not None:
            windows = next(run.windows for run in study.runs if run.parallelism == unsure)
            if windows < self.settings.windows:
                return unsure, "confirm"
        return study.ask(), "search"

    def _tell(self, evaluation: Evaluation) -> None:
        """A run below the floor says nothing that the study, which lives above it, could place."""
        study, k = self.study, self.job.topology.vector(evaluation.parallelism)
        if study is None or k not in study.lattice:
            return
        failed = evaluation.verdict is not Verdict.STABLE or evaluation.latency_seconds is None
        latency = None if failed else evaluation.latency_seconds
        study.tell(k, latency=latency, throughput=evaluation.throughput, failed=failed)

    # -- one trial ----------------------------------------------------------------------------------------------------

    def _recall(self) -> Recorded:
        """A trial of the journal instead of a new one."""
        recorded = self.past.popleft()
        self.evaluations.append(recorded.evaluation)
        return recorded

    def _evaluate(self, phase: Phase, parallelism: Mapping[str, int]) -> Recorded:
        self._say(phase, parallelism, None)
        if self.journal is not None:
            self.journal.begin(self._number, phase, parallelism)
        began = self.clock()
        trial = self.engine.run(parallelism, self.job.source_rates)
        if trial.snapshot is not None:
            self.seen(trial.snapshot)
        recorded = Recorded(self._read(phase, trial, self.clock() - began), trial)
        if self.journal is not None:
            self.journal.done(recorded)
        self.evaluations.append(recorded.evaluation)
        self._say(phase, parallelism, recorded.evaluation)
        self._failures = self._failures + 1 if trial.verdict is Verdict.FAILED else 0
        if self._failures >= FAILURES_IN_A_ROW:
            raise EngineError(f"{self._failures} trials in a row failed, the last one so: {trial.detail}")
        return recorded

    @property
    def _number(self) -> int:
        """Of the next trial. Those of the journal keep theirs, those not yet recalled included."""
        return len(self.evaluations) + len(self.past) + 1

    def _read(self, phase: Phase, trial: Trial, seconds: float) -> Evaluation:
        snapshot, statistic = trial.snapshot, self.job.target.statistic
        latency = None
        if trial.verdict is Verdict.STABLE and snapshot is not None:
            latency = snapshot.latency_seconds.of(statistic)
            if latency is None:
                raise InputError("target.statistic", "is not measured by this engine", seen=statistic,
                                 remedy="aim at another statistic")  # fmt: skip
            latency = max(latency, LEAST_LATENCY)
        k = self.job.topology.vector(trial.parallelism)
        score = (
            None if self.study is None else float(self.study.benefit.score(k, math.inf if latency is None else latency))
        )
        return Evaluation(
            number=self._number, phase=phase, parallelism=dict(trial.parallelism), verdict=trial.verdict,
            latency_seconds=latency, throughput=None if snapshot is None else snapshot.throughput, seconds=seconds,
            score=score, detail=trial.detail,
        )  # fmt: skip

    def _say(self, phase: Phase, parallelism: Mapping[str, int], done: Evaluation | None) -> None:
        best = None if self.study is None or not self.study.runs else self.study.best
        left = self.settings.total_trials - len(self.evaluations)
        mean = sum(e.seconds for e in self.evaluations) / len(self.evaluations) if self.evaluations else None
        self.report(
            Progress(
                phase, done.number if done else self._number, self.settings.total_trials, dict(parallelism), done,
                None if best is None else self.job.topology.named(best.parallelism),
                None if best is None else best.latency, None if mean is None else mean * left,
            )
        )  # fmt: skip

    def _outcome(self, floor: Mapping[str, int], sizing: Sizing | None, stop_reason: str) -> Outcome:
        study = self.study
        if study is None or not study.runs:
            return Outcome(
                self.job, self.engine.simulated, dict(floor), sizing, self._best_throughput(), False, stop_reason,
                tuple(self.evaluations), None,
            )  # fmt: skip
        best = study.best
        named = self.job.topology.named(best.parallelism)
        last = next(e for e in reversed(self.evaluations) if dict(e.parallelism) == named)
        chosen = Evaluation(
            last.number, last.phase, named, last.verdict, best.latency, last.throughput, last.seconds, best.score
        )
        return Outcome(
            self.job, self.engine.simulated, dict(floor), sizing, chosen, best.met_target, stop_reason,
            tuple(self.evaluations), study.model(self.job.rate), tuple(study.remarks),
        )  # fmt: skip


def starting_point(job: Job, initial: Mapping[str, int]) -> dict[str, int]:
    most = job.topology.named(job.upper)
    for name, k in initial.items():
        place = f"tuning.initial.{name}"
        if name not in job.topology.operators:
            raise InputError(place, "names an operator that does not exist",
                             remedy=f"use one of {', '.join(job.topology)}")  # fmt: skip
        checks.count(place, k)
        least = job.topology.operators[name].minimum
        if not least <= k <= most[name]:
            raise InputError(place, f"lies outside [{least}, {most[name]}]", seen=k, remedy="start within the bounds")
    return {name: initial.get(name, operator.minimum) for name, operator in job.topology.operators.items()}


def likely_floor(job: Job, sources: Sequence[BenefitModel]) -> dict[str, int]:
    """The floor of the source nearest in rate, in proportion to the rate. A run will tell: it only has to be near."""
    nearest = min(sources, key=lambda model: abs(math.log(model.rate / job.rate)))
    share = job.rate / nearest.rate
    bounds = zip(job.topology.operators.values(), job.upper, nearest.floor, strict=True)
    return job.topology.named(
        tuple(min(max(math.ceil(k * share), operator.minimum), most) for operator, most, k in bounds)
    )


def _lower(these: Mapping[str, int], those: Mapping[str, int]) -> dict[str, int]:
    """Operator by operator: what held the rate with so many needs no more."""
    return {name: min(k, those[name]) for name, k in these.items()}
