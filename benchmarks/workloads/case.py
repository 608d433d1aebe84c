"""A tuning problem with a known answer: a simulated job at a rate, its floor, its target and its true optimum.

| symbol | meaning | unit |
|---|---|---|
| k' | throughput floor: the least fixed point of DS2's rule on the noise-free loads | instances |
| F | benefit score, α·min(1, l_t/l) + (1 − α)·mean(k'/k) | |
| r_stop | 1/(1 + w): the value that mean(k'/k) must reach for the stop rule | |
| h | overhead share of the longest allowed batch | |
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
from benchmarks.workloads.lattice import Ints, list_frugal_points, sample_frugal
from benchmarks.workloads.readings import UNDISTURBED, Disturbance, Windows

Bools = NDArray[np.bool_]
Vector = tuple[int, ...]


@dataclass(frozen=True)
class Point:
    """A lattice point with its true, noise-free score and latency (seconds)."""

    parallelism: Vector
    score: float
    latency: float


@dataclass(frozen=True)
class Optimum:
    """The point with the highest score, and the best point that meets the latency target.

    Attributes:
        best: highest score of all points.
        feasible: highest score of the points that meet the target; None if no point does.
        evaluated: number of points that were computed; all others are proven worse.
    """

    best: Point
    feasible: Point | None
    evaluated: int


@dataclass(frozen=True)
class Case:
    """A tuning problem, determined by (family, seed). All its figures are simulated."""

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
        """Return r_stop."""
        return 1 / (1 + self.over_allocation)

    def latency(self, K: ArrayLike) -> Floats:
        """Return the true mean latency of each row of K in seconds, inf where the job cannot keep up."""
        return self.compiled.latency(K)

    def measure(self, k: Vector, rng: np.random.Generator) -> float:
        """Return a noisy reading of the latency at k."""
        return float(self.latency(k)[0] * np.exp(self.job.noise * rng.standard_normal()))

    def windows(self, seed: int) -> Windows:
        """Return a series of readings with noise and drift."""
        return Windows(self.compiled, self.job.noise, self.disturbance, seed)

    def score(self, K: ArrayLike) -> Floats:
        """Return the true F of each row of K."""
        K = np.atleast_2d(np.asarray(K, dtype=np.int64))
        return self.benefit.score(K, self.latency(K))

    def accepts(self, K: ArrayLike) -> Bools:
        """Return whether the stop rule accepts each row of K without noise."""
        K = np.atleast_2d(np.asarray(K, dtype=np.int64))
        frugal = self.benefit.resources(K) >= self.resource_limit - 1e-9
        return np.asarray(frugal & (self.latency(K) <= self.latency_target))

    def optimum(self) -> Optimum:
        """Return the exact optimum over the whole lattice. It is computed once."""
        return self._optimum

    def at_rate(self, factor: float, margin: float = 0.0) -> Case | None:
        """Return the same job and target at `factor` times the rate.

        None if the floor is out of reach, or if the stop rule accepts no point `margin` below the target.
        """
        rates = {name: rate * factor for name, rate in self.source_rates.items()}
        floor = find_throughput_floor(self.job, self.topology, rates, self.p_max)
        if floor is None:
            return None
        case = replace(self, source_rates=rates, floor=floor)
        return case if case.is_reachable(margin) else None

    def is_reachable(self, margin: float = 0.0) -> bool:
        """Return whether the stop rule accepts a point `margin` below the target. Exact: a sample, then all points."""
        strict = replace(self, latency_target=self.latency_target * (1 - margin))
        rng = np.random.default_rng(self.seed)
        if strict.accepts(sample_frugal(self.floor, self.p_max, self.resource_limit, 2000, rng)).any():
            return True
        return any(strict.accepts(K).any() for K in list_frugal_points(self.floor, self.p_max, self.resource_limit))

    @cached_property
    def _optimum(self) -> Optimum:
        search = _Search(self)
        search.evaluate(np.asarray([self.floor], dtype=np.int64))
        rng = np.random.default_rng(self.seed)
        for r_min in (self.resource_limit, 0.0):
            search.evaluate(sample_frugal(self.floor, self.p_max, r_min, 1000, rng))
        search.descend()
        for K in list_frugal_points(self.floor, self.p_max, search.bound):
            search.evaluate(K)
        return search.result()


class _Search:
    """The best points of an exact search so far."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.best: Point | None = None
        self.feasible: Point | None = None
        self.evaluated = 0

    def evaluate(self, K: Ints) -> None:
        """Score the rows of K that can still win, and keep the best. Of equal rows, the first in lattice order wins."""
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
        """Return r_min. The score F_c of a feasible point bounds both winners, since F_best ≥ F_c."""
        if self.feasible is None:
            return 0.0
        return (self.feasible.score - self.case.alpha) / max(1 - self.case.alpha, 1e-12)

    def descend(self) -> None:
        """Improve the feasible point along single operators and pairs, so that little is left to enumerate."""
        while self.feasible is not None:
            before = self.feasible.score
            self.evaluate(_neighbours(self.feasible.parallelism, self.case.floor, self.case.p_max))
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
    """Return every point that differs from k in at most two operators."""
    rows = [np.asarray([k], dtype=np.int64)]
    for i in range(len(k)):
        for j in range(i + 1, len(k)):
            first, second = np.meshgrid(np.arange(floor[i], p_max + 1), np.arange(floor[j], p_max + 1))
            plane = np.tile(np.asarray(k, dtype=np.int64), (first.size, 1))
            plane[:, i], plane[:, j] = first.ravel(), second.ravel()
            rows.append(plane)
    return np.concatenate(rows)


def find_throughput_floor(
    job: SimulatedJob, topology: Topology, source_rates: Mapping[str, float], p_max: int, steps: int = 60
) -> Vector | None:
    """Return k', by DS2's rule on the noise-free loads, or None if an operator needs more than p_max.

    Contention makes the loads depend on k, so the rule is iterated from one instance each until it is stable.
    """
    compiled = compile_job(job, topology, source_rates)
    k = np.ones(len(topology), dtype=np.int64)
    for _ in range(steps):
        wanted = _apply_ds2_rule(compiled, k, p_max)
        if wanted is None:
            return None
        grown = np.maximum(k, wanted)  # loads only grow with k, so the floor must not shrink
        if (grown == k).all():
            return tuple(int(x) for x in k)
        k = grown
    return None


def _apply_ds2_rule(compiled: CompiledJob, k: Ints, p_max: int) -> Ints | None:
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
