"""One search on one case: its runs, the run at which it stops, and the true quality of its recommendation.

A run is one window. Our own search runs like a tuning run: a second window where one reading is too close to the
target, and second looks at cheaper configurations once one is accepted. All of these runs count.

| symbol | meaning | unit |
|---|---|---|
| regret | best score of the lattice less that of the recommendation, both without noise | |
| log ratio | ln(target / latency) of one reading | |
| margin | log ratio of the true latency, in standard deviations of a reading | |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from autotrascale.domain.snapshot import Latency
from autotrascale.domain.target import Target
from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.execute.simulator.window_snapshot import Window, make_snapshot
from autotrascale.plan.search.ask_tell import AskTellStudy, SearchSettings
from autotrascale.plan.sizing.sizing import Sizing, size
from autotrascale.tuning.trial_records import TuningSettings
from autotrascale.tuning.tuning_run import MAX_SECOND_LOOKS
from benchmarks.workloads import descent
from benchmarks.workloads.case import Case, Optimum
from benchmarks.workloads.lattice import Ints
from benchmarks.workloads.peers import Maker
from benchmarks.workloads.readings import Windows

BUDGET = 20  # runs; a search that has not stopped by then counts as never
LATER_RUNS = 10  # runs after which the regret is measured once more
WINDOWS = TuningSettings().windows
GOAL_MEDIAN_RUNS, GOAL_TAIL_RUNS = 2, 5  # goals: runs to the stop, in the median and in nine of ten searches

FELL_BEHIND_LOG_RATIO = 3.0  # of a window that fell behind
READING_SERIES = 20_000  # simulated series of readings
WINDOW_SECONDS = 60.0  # seconds
Measure = Callable[[tuple[int, ...]], float]  # one noisy reading, in seconds; infinite where the job falls behind
Read = Callable[[tuple[int, ...]], tuple[float, Sizing | None]]  # a reading, and the sizing of its window


@dataclass(frozen=True)
class SearchTrace:
    """The course of one search.

    Args:
        stop: runs until a configuration is accepted; infinite when none is.
        tried: different configurations until then; a second window of one needs no rescale.
        ended: runs until a tuning run would end.
        reason: stop reason; None while the search goes on.
        missed: whether the accepted configuration truly misses the target.
        regret_at_stop: regret of the recommendation at the stop.
        regret_later: regret after ten runs; None when it was not measured.
    """

    stop: float
    tried: float
    ended: float
    reason: str | None
    missed: bool
    regret_at_stop: float
    regret_later: float | None


class CaseTruth:
    """The true optimum of a case, and the true regret of a configuration."""

    def __init__(self, case: Case) -> None:
        self.case = case

    @cached_property
    def optimum(self) -> Optimum:
        return descent.find_optimum(self.case)

    @property
    def best(self) -> float:
        return self.optimum.best.score

    def regret(self, k: tuple[int, ...]) -> float:
        return self.best - float(self.case.score([k])[0])

    def misses(self, k: tuple[int, ...]) -> bool:
        return bool(self.case.latency([k])[0] > self.case.latency_target)


def measure_floor(case: Case, seed: int) -> Sizing | None:
    """Return the sizing of one noisy window at the floor, which is what a tuning run knows after its floor phase."""
    with SimulatorEngine(case.job, case.topology, p_max=case.p_max, seed=seed) as engine:
        snapshot = engine.run(case.topology.named(case.floor), case.source_rates).snapshot
    sized = None if snapshot is None else size(snapshot, Target(case.latency_target))
    return sized.above(case.floor) if isinstance(sized, Sizing) else None


def make_study(case: Case, seed: int, **options: Any) -> AskTellStudy:
    return AskTellStudy(
        floor=case.floor,
        p_max=case.p_max,
        latency_target=case.latency_target,
        alpha=case.alpha,
        over_allocation=case.over_allocation,
        seed=seed,
        **options,
    )


def run_tuning(study: AskTellStudy, measure: Read) -> tuple[float, float, int]:
    """Run `study` like a tuning run. Return runs and configurations until the first acceptance, and all runs."""
    stop, tried, looks = math.inf, math.inf, 0
    for run in range(1, BUDGET + 1):
        looks += study.finished
        tell(study, _next_configuration(study), measure)
        if math.isinf(stop) and study.stop_reason == "target-met":
            stop, tried = run, len(study.runs)
        if study.finished and (study.stop_reason != "target-met" or study.cheaper is None or looks >= MAX_SECOND_LOOKS):
            return stop, tried, run
    return stop, tried, BUDGET


def _next_configuration(study: AskTellStudy) -> tuple[int, ...]:
    """Return the next configuration, as `autotrascale/tuning/tuning_run.py` chooses it."""
    if study.finished:
        assert study.cheaper is not None
        return study.cheaper
    unsure = study.unsure
    if unsure is not None and next(run.windows for run in study.runs if run.parallelism == unsure) < WINDOWS:
        return unsure
    return study.ask()


def tell(study: AskTellStudy, k: tuple[int, ...], read: Read) -> None:
    latency, sizing = read(k)
    study.tell(k, latency=latency if math.isfinite(latency) else None, failed=not math.isfinite(latency), sizing=sizing)


def make_reader(case: Case, windows: Windows, scale: float = 1.0) -> Read:
    """Return a function that reads one window like a tuning run. `scale` multiplies its latencies."""

    def read(k: tuple[int, ...]) -> tuple[float, Sizing | None]:
        latency, compiled, rng = windows.read(k)
        share = min(1.0, float(compiled.steady(k).capacity[0]))
        window = Window(
            WINDOW_SECONDS, case.source_rates, share, compiled.offered * (1 - share) * WINDOW_SECONDS, Latency()
        )
        sized = size(make_snapshot(case.family, case.topology, compiled, k, window, case.p_max, rng))
        if not isinstance(sized, Sizing) or sized.fixed_seconds is None:
            return scale * latency, sized if isinstance(sized, Sizing) else None
        noise = math.exp(
            case.job.noise * float(rng.standard_normal())
        )  # the simulator tells the cost of a batch exactly
        return scale * latency, replace(sized, fixed_seconds=scale * noise * sized.fixed_seconds)

    return read


def trace_search(study: AskTellStudy, judge: CaseTruth, measure: Read, *, later: bool = False) -> SearchTrace:
    """Return the course of one search. `later` continues it to ten runs, for the later regret."""
    stop, tried, ended = run_tuning(study, measure)
    answer, reason = study.answer.parallelism, study.stop_reason
    missed = math.isfinite(stop) and judge.misses(answer)
    at_stop = judge.regret(answer)
    if later:
        continue_search(study, measure, ended)
    return SearchTrace(
        stop, tried, ended, reason, missed, at_stop, judge.regret(study.best.parallelism) if later else None
    )


def continue_search(study: AskTellStudy, measure: Read, runs: int) -> None:
    """Ask for further configurations until ten runs are told."""
    for _ in range(runs, LATER_RUNS):
        if len(study.runs) < study.lattice.size:
            tell(study, study.ask(), measure)


def trace_oracle(judge: CaseTruth, measure: Measure, past: Sequence[float] = ()) -> SearchTrace:
    """Return the course of an oracle: no search that believes only readings can stop earlier.

    It knows the fastest configuration within the resource limit and runs nothing else. It accepts as soon as the
    readings show with the required confidence that the target is met.

    Args:
        judge: the truth about the case.
        measure: takes one reading.
        past: log errors of readings of an earlier session, for an oracle that knows the surface.
    """
    case = judge.case
    fastest = descent.find_least_latency(case, case.resource_limit)
    known = math.log(case.latency_target / fastest.latency)
    return _read_until_certain(judge, measure, fastest.parallelism, [known - error for error in past])


def trace_lean_oracle(judge: CaseTruth, measure: Measure) -> SearchTrace:
    """Return the course of an oracle with the least regret among those that stop as early as the goals ask.

    It knows the whole surface. It runs the best score among the configurations that are far enough within the target
    for so few readings, or the fastest configuration if there is none.
    """
    case = judge.case
    fastest = descent.find_least_latency(case, case.resource_limit)
    within = case.latency_target * math.exp(-needed_margin(GOAL_MEDIAN_RUNS, GOAL_TAIL_RUNS) * case.job.noise)

    def value(ks: Ints) -> NDArray[np.float64]:
        latency = case.latency(ks)
        frugal = case.benefit.resources(ks) >= case.resource_limit - 1e-9
        return np.where(frugal & (latency <= within), case.score(ks), -latency)

    near = [fastest, judge.optimum.best, judge.optimum.feasible or fastest]
    starts = np.asarray([point.parallelism for point in near], dtype=np.int64)
    k = descent.climb(value, starts, case.floor, case.p_max) if fastest.latency <= within else fastest.parallelism
    return _read_until_certain(judge, measure, k, [])


def _read_until_certain(judge: CaseTruth, measure: Measure, k: tuple[int, ...], spare: list[float]) -> SearchTrace:
    case = judge.case
    for run in range(1, BUDGET + 1):
        latency = measure(k)  # infinite when a drifting machine cannot carry the rate
        spare.append(math.log(case.latency_target / latency) if math.isfinite(latency) else -FELL_BEHIND_LOG_RATIO)
        certainty = NormalDist().cdf(sum(spare) / len(spare) / case.job.noise * math.sqrt(len(spare)))
        if certainty >= SearchSettings().confidence:
            return SearchTrace(run, 1, run, "target-met", judge.misses(k), judge.regret(k), None)
    return SearchTrace(math.inf, math.inf, BUDGET, "budget", False, judge.regret(k), None)


@cache
def needed_margin(soon: int, at_most: int) -> float:
    """Return the margin with which readings show in time that the target is met.

    After `soon` readings they must show it in half of all series, and after `at_most` readings in nine of ten.
    """
    errors = np.random.default_rng(0).standard_normal((READING_SERIES, at_most))
    needed = NormalDist().inv_cdf(SearchSettings().confidence) * np.sqrt(np.arange(1, at_most + 1))

    def too_few(spare: float) -> float:
        shown = np.cumsum(spare + errors, axis=1) >= needed
        return min(float(shown[:, :soon].any(axis=1).mean()) - 0.5, float(shown.any(axis=1).mean()) - 0.9)

    return float(brentq(too_few, 0.0, 5.0, xtol=1e-3))


def reading_errors(study: AskTellStudy, case: Case) -> list[float]:
    """Return the log errors of all readings of a study, window by window."""
    told = [run for run in study.runs if run.latency is not None]
    true = case.latency([run.parallelism for run in told]) if told else []
    return [
        math.log(run.latency or 1.0) - math.log(latency)
        for run, latency in zip(told, true, strict=True)
        if math.isfinite(latency)
        for _ in range(run.windows)
    ]


def trace_peer(make: Maker, judge: CaseTruth, measure: Measure, seed: int) -> SearchTrace:
    """Return the course of another library's search.

    It accepts on one reading, like Algorithm 1, and recommends the run with the highest measured score.
    """
    case = judge.case
    peer = make(case.floor, (case.p_max,) * len(case.floor), seed)
    stop, missed, at_stop, later, best, top = math.inf, False, math.nan, math.nan, case.floor, -1.0
    for run in range(1, BUDGET + 1):
        k = peer.ask()
        latency = measure(k)
        score = float(case.benefit.score(k, latency))
        peer.tell(k, score)
        if score > top:
            best, top = k, score
        if math.isinf(stop) and case.benefit.satisfied(k, latency):
            stop, missed, at_stop = run, judge.misses(k), judge.regret(k)
        if run == LATER_RUNS:
            later = judge.regret(best)
        if math.isfinite(stop) and run >= LATER_RUNS:
            break
    accepted = math.isfinite(stop)
    reason = "target-met" if accepted else "budget"
    return SearchTrace(
        stop, stop, min(stop, BUDGET), reason, missed, at_stop if accepted else judge.regret(best), later
    )
