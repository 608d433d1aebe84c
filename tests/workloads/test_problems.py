"""The harder problems are reachable, their floor sustains the rate, and their answer is true.

Half of them are held out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import ClassVar

import numpy as np
import pytest

from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Topology
from autotrascale.execute.simulator.fluid_job import FluidJob
from autotrascale.execute.simulator.simulated_job import MemoryLimits, SimulatedJob, SimulatedOperator, to_section
from autotrascale.execute.simulator.steady_state import steady_state
from autotrascale.validation import validate
from benchmarks.workloads import descent, problems
from benchmarks.workloads.case import Case
from benchmarks.workloads.lattice import sample_frugal
from benchmarks.workloads.problems import Problem, is_held_out, sustains
from benchmarks.workloads.readings import Disturbance, Windows
from benchmarks.workloads.shapes import FAMILIES, FEWEST, MOST, RECIPES, WIDE

draw = cache(problems.draw_problem)  # a problem is the same each time: draw it once
JOBS = 2  # of those seen, and one more of those kept apart
SMALL = 60_000  # points that enumeration takes in a moment


def drawn(family: str, jobs: int = JOBS) -> list[Problem]:
    """Return problems of both halves, held out by a seed that no benchmark uses."""
    return [
        draw(family, number)
        for number in (*islice(problems.development_numbers(family), jobs), next(problems.held_out_numbers(family, 99)))
    ]


def cases() -> Iterator[Case]:
    """Yield the cases at their own rates and at others."""
    for family in FAMILIES:
        for problem in drawn(family):
            yield problem.case
        for factor in (0.5, 1.4):
            changed = drawn(family)[0].at_rate(factor)
            if changed is not None:
                yield changed


def everything(case: Case) -> np.ndarray:
    axes = [np.arange(low, case.p_max + 1) for low in case.floor]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def small(case: Case) -> Case | None:
    """Return the same job with so few slots that all points can be enumerated, or None."""
    for p_max in range(case.p_max, max(case.floor), -1):
        if math.prod(p_max + 1 - low for low in case.floor) <= SMALL:
            return replace(case, p_max=p_max)
    return None


class TestLaws:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_the_same_number_gives_the_same_problem(self, family: str) -> None:
        assert problems.draw_problem(family, 5) == problems.draw_problem(family, 5)
        assert problems.draw_problem(family, 5) != problems.draw_problem(family, 6)

    @pytest.mark.parametrize("family", FAMILIES)
    def test_they_are_what_their_recipe_says(self, family: str) -> None:
        recipe = RECIPES[family]
        for problem in drawn(family):
            case = problem.case
            assert recipe.operators[0] <= len(case.floor) <= recipe.operators[1]
            assert case.job.execution in recipe.executions
            assert case.p_max in recipe.p_max
            case.job.check_fits(case.topology)
            assert validate(to_section(case.job), SimulatedJob, place="simulator") == case.job

    def test_together_they_cover_two_to_twenty_operators(self) -> None:
        sizes = {len(case.floor) for case in cases()}
        assert min(sizes) == FEWEST
        assert max(sizes) >= WIDE
        assert max(sizes) <= MOST

    def test_the_floor_holds_the_rate_and_spares_nothing(self) -> None:
        for case in cases():
            assert sustains(case.compiled, np.array(case.floor)), case
            for i, k in enumerate(case.floor):
                less = np.array(case.floor)
                less[i] = k - 1
                assert k == 1 or not sustains(case.compiled, less)

    def test_there_is_something_to_search_for(self) -> None:
        for family in FAMILIES:
            for problem in drawn(family):
                case = problem.case
                assert case.latency(case.floor)[0] > case.latency_target
                assert max(case.floor) <= problems.HIGHEST_FLOOR * case.p_max

    def test_every_target_is_within_reach_of_the_stop_rule(self) -> None:
        """A point is checked again, at the margin of the aim."""
        for case in cases():
            witness = descent.find_least_latency(case, case.resource_limit)
            assert case.accepts(witness.parallelism)[0]
            found = descent.find_optimum(case)
            assert found.feasible is not None
            assert case.latency(found.feasible.parallelism)[0] <= case.latency_target
            assert found.best.score >= found.feasible.score
        for family in FAMILIES:
            for problem in drawn(family):
                case = problem.case
                least = descent.find_least_latency(case, case.resource_limit).latency
                assert least * (1 + problem.aim.margin) <= case.latency_target * (1 + 1e-9)
                if problem.aim.kind != "share":
                    assert least * (1 + problem.aim.margin) == pytest.approx(case.latency_target, rel=2e-3)

    def test_where_the_rule_is_barely_satisfiable_nothing_cheaper_meets_the_target(self) -> None:
        """A sample of the cheaper points is checked."""
        for problem in drawn("barely"):
            case, rng = problem.case, np.random.default_rng(1)
            cheaper = sample_frugal(case.floor, case.p_max, case.resource_limit + problems.UNUSED, 4000, rng)
            assert (case.latency(cheaper) > case.latency_target).all()

    def test_where_the_optimum_is_interior_more_of_any_operator_misses(self) -> None:
        for problem in drawn("interior"):
            case = problem.case
            best = descent.find_least_latency(case, case.resource_limit).parallelism
            for i in range(len(best)):
                more = (*best[:i], case.p_max, *best[i + 1 :])
                assert case.latency(more)[0] > case.latency_target

    def test_the_optimum_is_that_of_enumeration(self) -> None:
        """The scores are nearly always equal; otherwise they differ by less than any quoted regret."""
        gaps: list[float] = []
        for case in filter(None, map(small, cases())):
            K = everything(case)
            score, latency = case.score(K), case.latency(K)
            met, frugal = latency <= case.latency_target, case.benefit.resources(K) >= case.resource_limit - 1e-9
            found = descent.find_optimum(case)
            gaps.append(score.max() - found.best.score)
            assert (found.feasible is not None) == bool(met.any())
            if found.feasible is not None:
                gaps.append(score[met].max() - found.feasible.score)
            least = descent.find_least_latency(case, case.resource_limit).latency
            gaps.append(math.log(least / latency[frugal].min()))
        assert len(gaps) >= 60
        assert -1e-9 < min(gaps) <= max(gaps) < 1e-3
        assert np.mean(np.array(gaps) < 1e-9) >= 0.98

    def test_one_vector_or_many_give_the_same_truth(self) -> None:
        rng = np.random.default_rng(5)
        for case in cases():
            K = rng.integers(case.floor, case.p_max + 1, size=(10, len(case.floor)))
            assert case.latency(K) == pytest.approx(np.concatenate([case.latency(k) for k in K]), rel=1e-12)

    def test_over_time_they_settle_where_the_steady_state_is(self) -> None:
        for case in cases():
            k = tuple(min(case.p_max, x + 2) for x in case.floor)
            state = case.compiled.steady(k)
            if state.capacity[0] * 0.97 <= 1:
                continue
            job = FluidJob(case.job, case.topology, case.source_rates, k, p_max=case.p_max)
            assert job.step(10.0, case.rate).latency == pytest.approx(state.latency[0])

    def test_with_so_many_operators_as_asked_for(self) -> None:
        assert len(draw("total", 3, 9).case.floor) == 9

    def test_at_its_own_rate_it_is_itself_and_at_any_rate_none(self) -> None:
        problem = drawn("near")[0]
        assert problem.at_rate(1) is problem.case
        assert problem.at_rate(1000) is None

    def test_unknown_families_are_named(self) -> None:
        with pytest.raises(InputError, match="stragglers"):
            problems.draw_problem("no-such-family", 0)


class TestSplit:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_seen_and_kept_apart_never_meet(self, family: str) -> None:
        assert not any(is_held_out(family, number) for number in islice(problems.development_numbers(family), 200))
        assert all(is_held_out(family, number) for number in islice(problems.held_out_numbers(family, 3), 200))

    def test_each_half_is_about_a_half(self) -> None:
        flags = [is_held_out(family, number) for family in FAMILIES for number in range(300)]
        assert 0.45 < np.mean(flags) < 0.55

    def test_a_seed_draws_the_same_jobs_again_and_another_draws_others(self) -> None:
        first, again, other = ([*islice(problems.held_out_numbers("near", seed), 20)] for seed in (1, 1, 2))
        assert first == again
        assert not set(first) & set(other)


class TestWindows:
    def test_without_noise_and_drift_they_read_the_truth(self) -> None:
        case = drawn("mixed")[0].case
        windows = Windows(case.compiled, 0.0, Disturbance(), seed=1)
        k = tuple(x + 1 for x in case.floor)
        assert windows.measure(k) == pytest.approx(case.latency(k)[0])

    def test_a_window_has_its_noise_whatever_ran_before(self) -> None:
        case = drawn("machine")[0].case
        one, two = case.windows(4), case.windows(4)
        k = tuple(x + 2 for x in case.floor)
        one.measure(k)
        two.measure(tuple(x + 1 for x in case.floor))
        assert one.measure(k) == two.measure(k) != case.windows(4).measure(k)

    def test_tails_are_heavy_and_the_middle_is_not_wider(self) -> None:
        normal, heavy = (self.deviates(Disturbance(freedom), 20_000) for freedom in (None, 3.0))
        assert np.mean(np.abs(normal) > 5) == 0
        assert np.mean(np.abs(heavy) > 5) == pytest.approx(0.0154, abs=0.004)  # of Student's t
        assert np.median(np.abs(heavy)) == pytest.approx(np.median(np.abs(normal)), rel=0.2)

    def test_drift_has_its_size_no_bias_and_a_memory(self) -> None:
        series = [self.drifts(0.04, seed, 40) for seed in range(200)]
        assert np.std(series) == pytest.approx(0.04, rel=0.1)
        assert np.mean(series) == pytest.approx(0, abs=0.003)
        steps = np.diff(series, axis=1)
        assert np.std(steps) < np.std(series), "windows next to each other are alike"

    def deviates(self, disturbance: Disturbance, count: int) -> np.ndarray:
        windows = Windows(one_operator().compiled, 0.05, disturbance, seed=0)
        truth = one_operator().latency([3])[0]
        return np.array([math.log(windows.measure((3,)) / truth) / 0.05 for _ in range(count)])

    def drifts(self, drift: float, seed: int, count: int) -> np.ndarray:
        windows = Windows(one_operator().compiled, 0.0, Disturbance(drift=drift), seed)
        return np.array([math.log(windows.measure((40,)) / one_operator().latency([40])[0]) for _ in range(count)])


@cache
def one_operator() -> Case:
    """Return a job whose latency is mostly useful time at many instances."""
    job = SimulatedJob({"only": SimulatedOperator(0.001, arrival_cv2=0.0, service_cv2=0.0)})
    return Case("one", 0, job, Topology.chain("only"), {"only": 1000.0}, (2,), 1.0)


class TestShapes:
    """The effect of each field of a job alone."""

    CHAIN = Topology.chain("a", "b")
    RATES: ClassVar = {"a": 100.0}

    def job(self, **settings: object) -> SimulatedJob:
        return SimulatedJob({name: SimulatedOperator(0.01, state=6.0) for name in self.CHAIN}, **settings)  # type: ignore[arg-type]

    def latency(self, job: SimulatedJob, k: tuple[int, int]) -> float:
        return float(steady_state(job, self.CHAIN, k, self.RATES).latency[0])

    def test_every_instance_adds_to_the_way_once(self) -> None:
        plainer, costly = self.job(), self.job(coordination_seconds=0.002)
        assert self.latency(costly, (5, 9)) - self.latency(plainer, (5, 9)) == pytest.approx(14 * 0.002)

    @pytest.mark.parametrize(
        ("memory", "below", "above"),
        [
            (MemoryLimits(room=1.0, spilling=0.5), (6, 6), (5, 6)),
            (MemoryLimits(instances=12, crowding=0.5), (6, 6), (7, 6)),
        ],
    )
    def test_memory_is_a_step(self, memory: MemoryLimits, below: tuple[int, int], above: tuple[int, int]) -> None:
        kept = steady_state(self.job(memory=memory), self.CHAIN, [below, above], self.RATES).service
        usual = steady_state(self.job(), self.CHAIN, [below, above], self.RATES).service
        assert kept[0] == pytest.approx(usual[0])
        assert (kept[1] / usual[1]).max() == pytest.approx(1.5)

    def test_a_straggler_costs_by_the_logarithm_and_no_count_shows_it(self) -> None:
        job = SimulatedJob({"a": SimulatedOperator(0.01, straggling=0.1)})
        state = steady_state(job, Topology.chain("a"), [[1], [20]], self.RATES)
        assert state.utilisation[:, 0] == pytest.approx([1.0, (1 + 0.1 * math.log(20)) / 20])
        assert state.load[:, 0] == pytest.approx([1.0, 1.0])

    @pytest.mark.parametrize(
        ("build", "said"),
        [
            (lambda: MemoryLimits(room=0.0), "room"),
            (lambda: MemoryLimits(spilling=-1.0), "spilling"),
            (lambda: MemoryLimits(instances=0), "instances"),
            (lambda: SimulatedOperator(1.0, straggling=-0.1), "straggling"),
            (lambda: Disturbance(freedom=0.0), "freedom"),
        ],
    )
    def test_nonsense_is_refused_by_name(self, build: Callable[[], object], said: str) -> None:
        with pytest.raises(InputError, match=said):
            build()
