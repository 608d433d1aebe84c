"""Problems with a known answer, harder than those of `families.py`, of which one half is kept apart.

    problem = draw("total", number=3)
    problem.case                    # a `Case`: floor, target, noisy readings, truth
    problem.at_rate(1.4)            # the same job at 1.4 times the rate, its target chosen anew in the same way

| aim | target |
|---|---|
| near-8 | 8 % above what the best frugal point can do |
| near | 1.4 to 2 times the noise of a reading above it |
| interior | 1.6 to 4 times, where at the best point any operator alone, raised to P_max, misses the target |
| barely | 1.6 times, and missed by every point that leaves 0.03 of the stop rule's resources unused |
| share | met by 3 to 70 % of the frugal points, and at least twice the noise above the best of them |

Nearer than that, no number of runs worth making could tell whether a configuration meets the target.

Numbers are split in two by a hash: those *seen* are for development, those *kept apart* for judging. Nobody chooses:
`seen` counts upwards, `apart` draws numbers of the other half by a seed, so that each seed gives jobs never looked at.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import count

import numpy as np

from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Topology
from autotrascale.execute.simulator.simulated_job import SimulatedJob
from autotrascale.execute.simulator.steady_state import CompiledJob, compile_job
from benchmarks.workloads.case import Case, Vector, throughput_floor
from benchmarks.workloads.descent import about_least_latency, least_latency
from benchmarks.workloads.families import FEASIBLE_SHARE, SLOWEST_TARGET
from benchmarks.workloads.lattice import sample_frugal
from benchmarks.workloads.readings import UNDISTURBED, Disturbance
from benchmarks.workloads.shapes import RECIPES, Recipe, Rng, log_uniform

# How far above the best frugal point, in multiples of the noise.
MARGINS = {"near": (1.4, 2.0), "interior": (1.6, 4.0), "barely": (1.6, 1.6), "share": (2.0, 2.0)}
NEAR_8 = 0.08
UNUSED = 0.03  # of mean(k'/k), above what the stop rule asks for
HIGHEST_FLOOR = 0.75  # of P_max
LARGEST_NUMBER = 1 << 31
SAMPLES = 2000
REDRAWS = 400


@dataclass(frozen=True)
class Aim:
    """How the target is chosen: `margin` above the least latency of the frugal points; `share` of them that meet it."""

    kind: str
    margin: float
    share: float = 0.0

    @classmethod
    def draw(cls, kind: str, noise: float, rng: Rng) -> Aim:
        share = log_uniform(rng, *FEASIBLE_SHARE)
        margin = NEAR_8 if kind == "near-8" else noise * float(rng.uniform(*MARGINS[kind]))
        return cls(kind, margin, share)

    def target(self, case: Case) -> float | None:
        """None where the case has none of this kind."""
        if self.kind == "barely" and self._surely_not_barely(case):
            return None
        least = least_latency(case, case.resource_limit)
        if not np.isfinite(least.latency):
            return None
        target = _rounded(least.latency * (1 + self.margin))
        if self.kind == "share":
            share = self._quantile(case)
            target = max(target, _rounded(share) if np.isfinite(share) else share)
            if target > SLOWEST_TARGET * least.latency:
                return None
        if self.kind == "interior" and not _interior(case, least.parallelism, target):
            return None
        if self.kind == "barely" and least_latency(case, case.resource_limit + UNUSED).latency <= target:
            return None
        return target

    def _surely_not_barely(self, case: Case) -> bool:
        """A point that is cheap enough is about as fast as any."""
        fastest = about_least_latency(case, case.resource_limit)
        return about_least_latency(case, case.resource_limit + UNUSED) <= fastest * (1 + self.margin)

    def _quantile(self, case: Case) -> float:
        rng = np.random.default_rng(case.seed)
        frugal = sample_frugal(case.floor, case.p_max, case.resource_limit, SAMPLES, rng)
        return float(np.quantile(case.latency(frugal), self.share, method="inverted_cdf"))


@dataclass(frozen=True)
class Problem:
    case: Case
    aim: Aim

    def at_rate(self, factor: float) -> Case | None:
        """The same job at `factor` times the rate. Where the aim is a share, the target stays if some frugal point is
        well within it; else it is chosen anew. None when the rate is out of reach."""
        case = self.case
        if factor == 1:
            return case
        rates = {name: rate * factor for name, rate in case.source_rates.items()}
        floor = sustaining_floor(case.job, case.topology, rates, case.p_max)
        if floor is None:
            return None
        changed = replace(case, source_rates=rates, floor=floor)
        nearest = least_latency(changed, changed.resource_limit).latency * (1 + self.aim.margin)
        if not np.isfinite(nearest):
            return None
        if self.aim.kind == "share":
            nearest = max(nearest, case.latency_target)
        return replace(changed, latency_target=_rounded(nearest))


def draw_problem(family: str, number: int, operators: int | None = None) -> Problem:
    """One problem, the same for the same number; with so many `operators`, where given."""
    if family not in RECIPES:
        raise InputError("family", "is not known", seen=family, remedy=f"use one of {', '.join(RECIPES)}")
    rng = np.random.default_rng([zlib.crc32(family.encode()), number])
    for _ in range(REDRAWS):
        problem = _attempt(family, RECIPES[family], number, operators, rng)
        if problem is not None:
            return problem
    raise InputError(
        "number", f"gives no sound problem of {family} in {REDRAWS} draws", seen=number, remedy="take another"
    )


def _attempt(family: str, recipe: Recipe, number: int, operators: int | None, rng: Rng) -> Problem | None:
    draft = recipe.draft(rng, operators)
    job = draft.job()
    aim = Aim.draw(recipe.aim, job.noise, rng)
    return make_problem(family, number, job, draft.topology, draft.rates, draft.p_max, aim, recipe.disturbance(draft))


def make_problem(
    family: str,
    number: int,
    job: SimulatedJob,
    topology: Topology,
    rates: dict[str, float],
    p_max: int,
    aim: Aim,
    disturbance: Disturbance = UNDISTURBED,
) -> Problem | None:
    """A problem of this job; None where its floor is too high, or where nothing has to be searched above it."""
    floor = sustaining_floor(job, topology, rates, p_max)
    if floor is None or max(floor) > HIGHEST_FLOOR * p_max:
        return None
    case = Case(family, number, job, topology, rates, floor, 1.0, p_max, disturbance=disturbance)
    target = aim.target(case)
    if target is None or case.latency(floor)[0] <= target:
        return None
    return Problem(replace(case, latency_target=target), aim)


def _rounded(target: float) -> float:
    """Upwards, so that a margin stays what it is said to be."""
    unit = 10.0 ** (np.floor(np.log10(target)) - 3)
    return float(f"{np.ceil(target / unit - 1e-9) * unit:.4g}")


def _interior(case: Case, best: Vector, target: float) -> bool:
    """More of any operator alone makes the latency worse than the target."""
    rows = np.tile(best, (len(best), 1))
    np.fill_diagonal(rows, case.p_max)
    return bool((case.latency(rows) > target).all())


# --- the floor ------------------------------------------------------------------------------------------------------


def sustaining_floor(job: SimulatedJob, topology: Topology, rates: dict[str, float], p_max: int) -> Vector | None:
    """DS2's floor, and from there what running it would show: more of the operator that is tightest until the rate is
    held, and none that could be spared. None when the rate is out of reach."""
    start = throughput_floor(job, topology, rates, p_max)
    if start is None:
        return None
    compiled = compile_job(job, topology, rates)
    k = np.array(start, dtype=np.int64)
    while not sustains(compiled, k):
        share = compiled.steady(k).utilisation[0] / (k if job.execution == "micro-batch" else 1)
        tightest = int(np.where(k < p_max, share, -np.inf).argmax())
        if k[tightest] >= p_max:
            return None
        k[tightest] += 1
    return _spared(compiled, k)


def sustains(compiled: CompiledJob, k: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> bool:
    """Does k hold the rate, in batches no longer than allowed?"""
    state = compiled.steady(k)
    return bool(np.isfinite(state.latency[0]) and state.batch_seconds[0] <= compiled.job.batch.longest_seconds)


def _spared(compiled: CompiledJob, k: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Vector:
    """k less every instance that it can do without, those of the largest operators first."""
    while True:
        for i in np.argsort(-k):
            less = k.copy()
            less[i] -= 1
            if less[i] >= 1 and sustains(compiled, less):
                k = less
                break
        else:
            return tuple(int(x) for x in k)


# --- seen, and kept apart ---------------------------------------------------------------------------------------------


def is_held_out(family: str, number: int) -> bool:
    """Of each family, about every second number, by its hash."""
    return bool(blake2b(f"kept apart/{family}/{number}".encode(), digest_size=1).digest()[0] & 1)


def development_numbers(family: str) -> Iterator[int]:
    """The numbers to develop with."""
    return (number for number in count() if not is_held_out(family, number))


def held_out_numbers(family: str, seed: int) -> Iterator[int]:
    """Numbers of the other half, drawn by `seed`."""
    rng = np.random.default_rng([seed, zlib.crc32(family.encode())])
    drawn = (int(rng.integers(LARGEST_NUMBER)) for _ in count())
    return (number for number in drawn if is_held_out(family, number))
