"""A tuning problem with a known answer: a simulated job at a rate, its floor, its target, and the true optimum.

| symbol | meaning | unit |
|---|---|---|
| k' | throughput floor, the least fixed point of DS2's rule on the noise-free loads | instances |
| F | benefit score, α·min(1, l_t/l) + (1 − α)·mean(k'/k) | |
| r_stop | 1/(1 + w): what mean(k'/k) must reach for the stop rule when the latency is met | |
| h | overhead share of the longest batch allowed | |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autotrascale.domain.topology import Topology
from autotrascale.execute.simulator.simulated_job import SimulatedJob
from autotrascale.execute.simulator.steady_state import CompiledJob, Floats, compile_job
from autotrascale.plan.search.score import Benefit
from autotrascale.plan.sizing.floor import floor_micro_batch, floor_pipelined
from benchmarks.workloads.lattice import Ints, frugal_points, sample_frugal
from benchmarks.workloads.readings import UNDISTURBED, Disturbance, Windows

Bools = NDArray[np.bool_]
Vector = tuple[int, ...]


@dataclass(frozen=True)
class Point:
    """A lattice point and what is true of it, noise-free."""

    parallelism: Vector
    score: float
    latency: float


@dataclass(frozen=True)
class Optimum:
    """The highest score anywhere, and the highest among the points that meet the latency target (None: none does)."""

    best: Point
    feasible: Point | None
    evaluated: int  # lattice points that had to be looked at; the others are proven worse


@dataclass(frozen=True)
class Case:
    """Deterministic by (family, seed). Every figure it gives is simulated."""

    family: str
    seed: int
    job: SimulatedJob
    topology: Topology
    source_rates: Mapping[str, float]
    floor: Vector
    latency_target: float
    p_max: int = 40
    alpha: float = 0.5
    over_allocation: float = 0.5
    disturbance: Disturbance = UNDISTURBED

    @cached_property
    def compiled(self) -> CompiledJob:
        return compile_job(self.job, self.topology, self.source_rates)

    @property
    def rate(self) -> float:
        return sum(self.source_rates.values())

    @cached_property
    def benefit(self) -> Benefit:
        return Benefit(self.floor, self.latency_target, self.alpha, self.over_allocation)

    @property
    def resource_limit(self) -> float:
        """r_stop."""
        return 1 / (1 + self.over_allocation)

    def latency(self, K: ArrayLike) -> Floats:
        """True mean latency of each row of K, in seconds, inf where the job cannot keep up."""
        return self.compiled.latency(K)

    def measure(self, k: Vector, rng: np.random.Generator) -> float:
        """One noisy reading of the latency at k."""
        return float(self.latency(k)[0] * np.exp(self.job.noise * rng.standard_normal()))

    def windows(self, seed: int) -> Windows:
        """A series of readings, with all that disturbs them."""
        return Windows(self.compiled, self.job.noise, self.disturbance, seed)

    def score(self, K: ArrayLike) -> Floats:
        """True F of each row of K."""
        K = np.atleast_2d(np.asarray(K, dtype=np.int64))
        return self.benefit.score(K, self.latency(K))

    def accepts(self, K: ArrayLike) -> Bools:
        """Would the stop rule take it, were there no noise?"""
        K = np.atleast_2d(np.asarray(K, dtype=np.int64))
        frugal = self.benefit.resources(K) >= self.resource_limit - 1e-9
        return np.asarray(frugal & (self.latency(K) <= self.latency_target))

    def optimum(self) -> Optimum:
        """Exact, over the whole lattice; looked for once and kept."""
        return self._optimum

    def at_rate(self, factor: float, margin: float = 0.0) -> Case | None:
        """The same job and target at `factor` times the rate. None when the floor is out of reach there, or when the
        stop rule has no point to take (`margin` below the target)."""
        rates = {name: rate * factor for name, rate in self.source_rates.items()}
        floor = throughput_floor(self.job, self.topology, rates, self.p_max)
        if floor is None:
            return None
        case = replace(self, source_rates=rates, floor=floor)
        return case if case.reachable(margin) else None

    def reachable(self, margin: float = 0.0) -> bool:
        """Is there a point that the stop rule takes, `margin` below the target? Exact: a sample, then all frugal
        points if it finds none."""
        strict = replace(self, latency_target=self.latency_target * (1 - margin))
        rng = np.random.default_rng(self.seed)
        if strict.accepts(sample_frugal(self.floor, self.p_max, self.resource_limit, 2000, rng)).any():
            return True
        return any(strict.accepts(K).any() for K in frugal_points(self.floor, self.p_max, self.resource_limit))

    @cached_property
    def _optimum(self) -> Optimum:
        search = _Search(self)
        search.look(np.asarray([self.floor], dtype=np.int64))
        rng = np.random.default_rng(self.seed)
        for r_min in (self.resource_limit, 0.0):
            search.look(sample_frugal(self.floor, self.p_max, r_min, 1000, rng))
        search.descend()
        for K in frugal_points(self.floor, self.p_max, search.bound):
            search.look(K)
        return search.result()


class _Search:
    """The incumbents of one exact search: highest score, and highest score with the latency met."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.best: Point | None = None
        self.feasible: Point | None = None
        self.evaluated = 0

    def look(self, K: Ints) -> None:
        """Scores the rows that can still matter and keeps the winners; of equals, the first in lattice order."""
        K = K[self.case.benefit.resources(K) >= self.bound - 1e-9]
        if len(K) == 0:
            return
        self.evaluated += len(K)
        latency = self.case.latency(K)
        score = self.case.benefit.score(K, latency)
        self.best = _better(self.best, K, score, latency)
        met = latency <= self.case.latency_target
        if met.any():
            self.feasible = _better(self.feasible, K[met], score[met], latency[met])

    @property
    def bound(self) -> float:
        """r_min. A feasible point of score F_c bounds both winners, since F_best ≥ F_c."""
        if self.feasible is None:
            return 0.0
        return (self.feasible.score - self.case.alpha) / max(1 - self.case.alpha, 1e-12)

    def descend(self) -> None:
        """Improves the feasible incumbent along single operators and pairs, so that little is left to enumerate."""
        while self.feasible is not None:
            before = self.feasible.score
            self.look(_neighbours(self.feasible.parallelism, self.case.floor, self.case.p_max))
            if self.feasible.score <= before:
                return

    def result(self) -> Optimum:
        if self.best is None:
            raise AssertionError("the lattice holds at least the floor")
        return Optimum(self.best, self.feasible, self.evaluated)


def _better(known: Point | None, K: Ints, score: Floats, latency: Floats) -> Point:
    top = np.flatnonzero(score >= score.max() - 1e-12)
    i = int(top[np.lexsort(K[top].T[::-1])[0]])
    found = Point(tuple(int(x) for x in K[i]), float(score[i]), float(latency[i]))
    if known is None or found.score > known.score + 1e-12:
        return found
    if found.score < known.score - 1e-12:
        return known
    return min(known, found, key=lambda point: point.parallelism)


def _neighbours(k: Vector, floor: Vector, p_max: int) -> Ints:
    """Every point that differs from k in at most two operators."""
    rows = [np.asarray([k], dtype=np.int64)]
    for i in range(len(k)):
        for j in range(i + 1, len(k)):
            first, second = np.meshgrid(np.arange(floor[i], p_max + 1), np.arange(floor[j], p_max + 1))
            plane = np.tile(np.asarray(k, dtype=np.int64), (first.size, 1))
            plane[:, i], plane[:, j] = first.ravel(), second.ravel()
            rows.append(plane)
    return np.concatenate(rows)


def throughput_floor(
    job: SimulatedJob, topology: Topology, source_rates: Mapping[str, float], p_max: int, steps: int = 60
) -> Vector | None:
    """k', by DS2's rule on the noise-free loads, iterated from one instance each until it stands still (contention
    makes the loads depend on k). None when some operator would need more than p_max."""
    compiled = compile_job(job, topology, source_rates)
    k = np.ones(len(topology), dtype=np.int64)
    for _ in range(steps):
        wanted = _wanted(compiled, k, p_max)
        if wanted is None:
            return None
        grown = np.maximum(k, wanted)  # loads only grow with k, so neither may the floor shrink
        if (grown == k).all():
            return tuple(int(x) for x in k)
        k = grown
    return None


def _wanted(compiled: CompiledJob, k: Ints, p_max: int) -> Ints | None:
    state = compiled.steady(k)
    load = state.load[0]
    if compiled.job.execution == "pipelined":
        wanted = np.asarray(floor_pipelined(load.tolist(), [1] * len(load), [p_max] * len(load)), dtype=np.int64)
        return wanted if (load <= p_max).all() else None
    overhead = float(state.overhead_seconds[0]) / compiled.job.batch.longest_seconds
    wanted = np.asarray(
        floor_micro_batch(load.tolist(), [1] * len(load), [p_max] * len(load), overhead), dtype=np.int64
    )
    return wanted if overhead + (load / wanted).sum() <= 1 + 1e-6 else None
