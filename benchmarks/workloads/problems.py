"""Harder tuning problems with a known answer than in `families.py`; half of them are held out.

    problem = draw_problem("total", number=3)
    problem.case                    # a `Case`: floor, target, noisy readings, truth
    problem.at_rate(1.4)            # the same job at 1.4 times the rate, with a target chosen in the same way

| aim | target |
|---|---|
| near-8 | 8 % above the latency of the best frugal point |
| near | above it by 1.4 to 2 times the noise of a reading |
| interior | above it by 1.6 to 4 times the noise; raising any one operator to P_max misses the target |
| barely | above it by 1.6 times the noise; missed by points that leave 0.03 of the stop rule's resources unused |
| share | met by 3 to 70 % of the frugal points, and above the best of them by at least twice the noise |

For a closer target, no reasonable number of runs could tell whether a configuration meets it.

A hash divides the numbers of problems into a development half and a held-out half. `development_numbers` counts up.
`held_out_numbers` draws from the other half by a seed, so each seed gives problems that development never used.
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
from benchmarks.workloads.case import Case, Vector, find_throughput_floor
from benchmarks.workloads.descent import bound_least_latency, find_least_latency
from benchmarks.workloads.families import FEASIBLE_SHARE, SLOWEST_TARGET
from benchmarks.workloads.lattice import sample_frugal
from benchmarks.workloads.readings import UNDISTURBED, Disturbance
from benchmarks.workloads.shapes import RECIPES, Recipe, Rng, log_uniform

# Distance of the target from the best frugal point, in multiples of the noise.
MARGINS = {"near": (1.4, 2.0), "interior": (1.6, 4.0), "barely": (1.6, 1.6), "share": (2.0, 2.0)}
NEAR_8 = 0.08
UNUSED = 0.03  # of mean(k'/k), above the limit of the stop rule
HIGHEST_FLOOR = 0.75  # of P_max
LARGEST_NUMBER = 1 << 31
SAMPLES = 2000
REDRAWS = 400


@dataclass(frozen=True)
class Aim:
    """The choice of a target: `margin` above the least latency of the frugal points, or met by a `share` of them."""

    kind: str
    margin: float
    share: float = 0.0

    @classmethod
    def draw(cls, kind: str, noise: float, rng: Rng) -> Aim:
        share = log_uniform(rng, *FEASIBLE_SHARE)
        margin = NEAR_8 if kind == "near-8" else noise * float(rng.uniform(*MARGINS[kind]))
        return cls(kind, margin, share)

    def target(self, case: Case) -> float | None:
        """Return the target in seconds, or None if the case has no target of this kind."""
        if self.kind == "barely" and self._cannot_be_barely(case):
            return None
        least = find_least_latency(case, case.resource_limit)
        if not np.isfinite(least.latency):
            return None
        target = _round_up(least.latency * (1 + self.margin))
        if self.kind == "share":
            share = self._latency_quantile(case)
            target = max(target, _round_up(share) if np.isfinite(share) else share)
            if target > SLOWEST_TARGET * least.latency:
                return None
        if self.kind == "interior" and not _is_interior(case, least.parallelism, target):
            return None
        if self.kind == "barely" and find_least_latency(case, case.resource_limit + UNUSED).latency <= target:
            return None
        return target

    def _cannot_be_barely(self, case: Case) -> bool:
        """Return whether a cheap point is about as fast as the fastest: a quick test before the exact search."""
        fastest = bound_least_latency(case, case.resource_limit)
        return bound_least_latency(case, case.resource_limit + UNUSED) <= fastest * (1 + self.margin)

    def _latency_quantile(self, case: Case) -> float:
        rng = np.random.default_rng(case.seed)
        frugal = sample_frugal(case.floor, case.p_max, case.resource_limit, SAMPLES, rng)
        return float(np.quantile(case.latency(frugal), self.share, method="inverted_cdf"))


@dataclass(frozen=True)
class Problem:
    """A case, and the way in which its target was chosen."""

    case: Case
    aim: Aim

    def at_rate(self, factor: float) -> Case | None:
        """Return the same job at `factor` times the rate, or None if the rate is out of reach.

        The target is chosen anew. For the aim `share` it stays if a frugal point is well within it.
        """
        case = self.case
        if factor == 1:
            return case
        rates = {name: rate * factor for name, rate in case.source_rates.items()}
        floor = find_sustaining_floor(case.job, case.topology, rates, case.p_max)
        if floor is None:
            return None
        changed = replace(case, source_rates=rates, floor=floor)
        nearest = find_least_latency(changed, changed.resource_limit).latency * (1 + self.aim.margin)
        if not np.isfinite(nearest):
            return None
        if self.aim.kind == "share":
            nearest = max(nearest, case.latency_target)
        return replace(changed, latency_target=_round_up(nearest))


def draw_problem(family: str, number: int, operators: int | None = None) -> Problem:
    """Return a problem, the same for the same number, with `operators` operators if given."""
    if family not in RECIPES:
        raise InputError("family", "is not known", seen=family, remedy=f"use one of {', '.join(RECIPES)}")
    rng = np.random.default_rng([zlib.crc32(family.encode()), number])
    for _ in range(REDRAWS):
        problem = _attempt(family, RECIPES[family], number, operators, rng)
        if problem is not None:
            return problem
    raise InputError(
        "number", f"gives no valid problem of {family} in {REDRAWS} draws", seen=number, remedy="take another"
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
    """Return a problem with this job. None if its floor is too high or meets the target already."""
    floor = find_sustaining_floor(job, topology, rates, p_max)
    if floor is None or max(floor) > HIGHEST_FLOOR * p_max:
        return None
    case = Case(family, number, job, topology, rates, floor, 1.0, p_max, disturbance=disturbance)
    target = aim.target(case)
    if target is None or case.latency(floor)[0] <= target:
        return None
    return Problem(replace(case, latency_target=target), aim)


def _round_up(target: float) -> float:
    """Round up to four digits, so that the margin stays at least as large."""
    unit = 10.0 ** (np.floor(np.log10(target)) - 3)
    return float(f"{np.ceil(target / unit - 1e-9) * unit:.4g}")


def _is_interior(case: Case, best: Vector, target: float) -> bool:
    """Return whether raising any one operator to P_max misses the target."""
    rows = np.tile(best, (len(best), 1))
    np.fill_diagonal(rows, case.p_max)
    return bool((case.latency(rows) > target).all())


# --- the floor ------------------------------------------------------------------------------------------------------


def find_sustaining_floor(job: SimulatedJob, topology: Topology, rates: dict[str, float], p_max: int) -> Vector | None:
    """Return the least vector that sustains the rate, or None if the rate is out of reach.

    Starts at DS2's floor, raises the bottleneck until the rate is sustained, and then removes spare instances.
    """
    start = find_throughput_floor(job, topology, rates, p_max)
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
    return _remove_spare(compiled, k)


def sustains(compiled: CompiledJob, k: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> bool:
    """Return whether k sustains the rate, in batches within the allowed length."""
    state = compiled.steady(k)
    return bool(np.isfinite(state.latency[0]) and state.batch_seconds[0] <= compiled.job.batch.longest_seconds)


def _remove_spare(compiled: CompiledJob, k: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Vector:
    """Remove spare instances from k, those of the largest operators first."""
    while True:
        for i in np.argsort(-k):
            less = k.copy()
            less[i] -= 1
            if less[i] >= 1 and sustains(compiled, less):
                k = less
                break
        else:
            return tuple(int(x) for x in k)


# --- development and held-out numbers ---------------------------------------------------------------------------------


def is_held_out(family: str, number: int) -> bool:
    """Return whether the hash of a number puts it into the held-out half."""
    return bool(blake2b(f"kept apart/{family}/{number}".encode(), digest_size=1).digest()[0] & 1)


def development_numbers(family: str) -> Iterator[int]:
    """Yield the numbers for development, in ascending order."""
    return (number for number in count() if not is_held_out(family, number))


def held_out_numbers(family: str, seed: int) -> Iterator[int]:
    """Yield held-out numbers, drawn by `seed`."""
    rng = np.random.default_rng([seed, zlib.crc32(family.encode())])
    drawn = (int(rng.integers(LARGEST_NUMBER)) for _ in count())
    return (number for number in drawn if is_held_out(family, number))
