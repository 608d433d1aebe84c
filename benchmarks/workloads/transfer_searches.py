"""How each search goes on one case: what it runs, when it stops, and how good its recommendation truly is.

A run is one window. Ours runs what a tuning run would: a second window where one reading is too close to the target,
and second looks at what is cheaper once a configuration is accepted. All of them count.
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

BUDGET = 20  # runs; whoever has not stopped by then counts as never
LATER_RUNS = 10  # runs after which the recommendation is judged once more
WINDOWS = TuningSettings().windows
GOAL_MEDIAN_RUNS, GOAL_TAIL_RUNS = 2, 5  # runs to the stop that are wanted: in the median, and in nine of ten

FELL_BEHIND_LOG_RATIO = 3.0  # log ratio that a window which fell behind counts as
SERIES = 20_000  # of readings, to know how soon they show what is true
WINDOW = 60.0  # seconds
Measure = Callable[[tuple[int, ...]], float]  # one noisy reading, in seconds; infinite where the job falls behind
Read = Callable[[tuple[int, ...]], tuple[float, Sizing | None]]  # … and how the window sizes the job


@dataclass(frozen=True)
class SearchTrace:
    """`stop`: runs until a configuration is accepted, infinite when none was; `tried`: configurations until then, as a
    second window of one needs no rescale; `ended`: runs until a tuning run would end.
    Regrets are those of the recommendation: the best score of the lattice less its own, both without noise."""

    stop: float
    tried: float
    ended: float
    reason: str | None
    missed: bool  # what was accepted truly misses the target
    regret_at_stop: float
    regret_later: float | None


class CaseTruth:
    """The truth about a case."""

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
    """What the floor phase of a tuning run leaves behind: one noisy window at the floor, sized."""
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
    """Runs `study` as a tuning run does. Runs and configurations until one was accepted, and runs in all."""
    stop, tried, looks = math.inf, math.inf, 0
    for run in range(1, BUDGET + 1):
        looks += study.finished
        tell(study, _next(study), measure)
        if math.isinf(stop) and study.stop_reason == "target-met":
            stop, tried = run, len(study.runs)
        if study.finished and (study.stop_reason != "target-met" or study.cheaper is None or looks >= MAX_SECOND_LOOKS):
            return stop, tried, run
    return stop, tried, BUDGET


def _next(study: AskTellStudy) -> tuple[int, ...]:
    """As `tuning/run.py` has it."""
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
    """What a tuning run sees of each window. `scale`: how much slower a clock it is read by."""

    def read(k: tuple[int, ...]) -> tuple[float, Sizing | None]:
        latency, compiled, rng = windows.read(k)
        share = min(1.0, float(compiled.steady(k).capacity[0]))
        window = Window(WINDOW, case.source_rates, share, compiled.offered * (1 - share) * WINDOW, Latency())
        sized = size(make_snapshot(case.family, case.topology, compiled, k, window, case.p_max, rng))
        if not isinstance(sized, Sizing) or sized.fixed_seconds is None:
            return scale * latency, sized if isinstance(sized, Sizing) else None
        noise = math.exp(
            case.job.noise * float(rng.standard_normal())
        )  # the simulator tells the cost of a batch exactly
        return scale * latency, replace(sized, fixed_seconds=scale * noise * sized.fixed_seconds)

    return read


def trace_search(study: AskTellStudy, judge: CaseTruth, measure: Read, *, later: bool = False) -> SearchTrace:
    """`later`: goes on until ten runs are told, where it stopped before."""
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
    """Asks for more than it takes to stop, until ten runs are told."""
    for _ in range(runs, LATER_RUNS):
        if len(study.runs) < study.lattice.size:
            tell(study, study.ask(), measure)


def trace_oracle(judge: CaseTruth, measure: Measure, past: Sequence[float] = ()) -> SearchTrace:
    """What nobody can better who believes readings alone: it knows which frugal point is the fastest, runs nothing
    else, and accepts it when so many readings mean that the target is met, with the confidence that we ask for. `past`:
    what readings of an earlier session say of that point, log ratios to its latency, to whoever knows the surface."""
    case = judge.case
    fastest = descent.find_least_latency(case, case.resource_limit)
    known = math.log(case.latency_target / fastest.latency)
    return _read_until_certain(judge, measure, fastest.parallelism, [known - error for error in past])


def trace_lean_oracle(judge: CaseTruth, measure: Measure) -> SearchTrace:
    """What nobody can better, in regret, who is to stop on each job as soon as the goals ask: it knows the whole
    surface, and runs the best score of what is far enough within the target for so few readings to show it; where
    nothing is, the fastest."""
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
        latency = measure(k)  # infinite where a machine that drifts cannot carry the rate
        spare.append(math.log(case.latency_target / latency) if math.isfinite(latency) else -FELL_BEHIND_LOG_RATIO)
        certainty = NormalDist().cdf(sum(spare) / len(spare) / case.job.noise * math.sqrt(len(spare)))
        if certainty >= SearchSettings().confidence:
            return SearchTrace(run, 1, run, "target-met", judge.misses(k), judge.regret(k), None)
    return SearchTrace(math.inf, math.inf, BUDGET, "budget", False, judge.regret(k), None)


@cache
def needed_margin(soon: int, at_most: int) -> float:
    """How far within the target, in units of the noise of a reading, a latency must be for readings of it to show it
    after so many in every second series, and after so many in nine of ten."""
    errors = np.random.default_rng(0).standard_normal((SERIES, at_most))
    needed = NormalDist().inv_cdf(SearchSettings().confidence) * np.sqrt(np.arange(1, at_most + 1))

    def too_few(spare: float) -> float:
        shown = np.cumsum(spare + errors, axis=1) >= needed
        return min(float(shown[:, :soon].any(axis=1).mean()) - 0.5, float(shown.any(axis=1).mean()) - 0.9)

    return float(brentq(too_few, 0.0, 5.0, xtol=1e-3))


def reading_errors(study: AskTellStudy, case: Case) -> list[float]:
    """What was read over what is true, as a log, window by window."""
    told = [run for run in study.runs if run.latency is not None]
    true = case.latency([run.parallelism for run in told]) if told else []
    return [
        math.log(run.latency or 1.0) - math.log(latency)
        for run, latency in zip(told, true, strict=True)
        if math.isfinite(latency)
        for _ in range(run.windows)
    ]


def trace_peer(make: Maker, judge: CaseTruth, measure: Measure, seed: int) -> SearchTrace:
    """A peer accepts as Algorithm 1 does, on one reading, and recommends the run of the highest measured score."""
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
