"""The families of random problems are reproducible and valid, and their optimum is the true one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from benchmarks.workloads.case import Case, find_throughput_floor
from benchmarks.workloads.families import DEVELOPMENT, FAMILIES, HELD_OUT, draw_case
from benchmarks.workloads.lattice import list_frugal_points, sample_frugal
from benchmarks.workloads.presets import PRESETS

SEEDS = range(30)


def everything(case: Case) -> np.ndarray:
    axes = [np.arange(low, case.p_max + 1) for low in case.floor]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def test_three_to_develop_with_and_three_held_apart() -> None:
    assert set(DEVELOPMENT).isdisjoint(HELD_OUT)
    assert {*DEVELOPMENT, *HELD_OUT} == set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_seed_gives_the_same_case(family: str) -> None:
    assert draw_case(family, 7) == draw_case(family, 7)
    assert draw_case(family, 7).job != draw_case(family, 8).job


@pytest.mark.parametrize("family", FAMILIES)
def test_every_case_is_sound(family: str) -> None:
    shares, floor_meets = [], 0
    for seed in SEEDS:
        case = draw_case(family, seed)
        assert all(1 <= k <= 0.75 * case.p_max for k in case.floor)
        optimum = case.optimum()
        assert optimum.feasible is not None
        assert case.accepts(optimum.feasible.parallelism)[0], "the stop rule takes the best point that meets the target"
        assert optimum.best.score >= optimum.feasible.score
        assert case.score(optimum.best.parallelism)[0] == pytest.approx(optimum.best.score)
        floor_meets += bool(case.latency(case.floor)[0] <= case.latency_target)
        frugal = sample_frugal(case.floor, case.p_max, case.resource_limit, 1000, np.random.default_rng(1))
        shares.append(case.accepts(frugal).mean())
    assert floor_meets <= 0.2 * len(SEEDS), "the floor usually misses the target"
    assert 0 < min(shares) < 0.1, "some are hard, none is impossible"
    assert 0.3 < max(shares) < 0.85, "some are easy, none is trivial"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_floor_is_the_least_that_keeps_up(family: str) -> None:
    """On mean loads, as DS2 sees them, one instance less of any operator is too few."""
    for seed in range(10):
        case = draw_case(family, seed)
        state = case.compiled.steady(case.floor)
        if case.job.execution == "pipelined":
            assert (state.load[0] <= np.array(case.floor) + 1e-6).all()
            assert (np.array(case.floor) - 1 < state.load[0]).all()
        else:
            share = state.overhead_seconds[0] / case.job.batch.longest_seconds
            used = share + (state.load[0] / case.floor).sum()
            assert used <= 1 + 1e-9
            spare = [x - 1 for x in case.floor if x > 1]
            assert not spare or used > 0.5


@pytest.mark.parametrize("family", FAMILIES)
def test_pruning_loses_nothing(family: str) -> None:
    """The bounded search agrees with full enumeration on small lattices."""
    for seed in range(12):
        case = draw_case(family, seed)
        width = {3: 12, 4: 6, 5: 4, 6: 3}[len(case.floor)]
        case = replace(case, p_max=max(case.floor) + width)
        K = everything(case)
        if len(K) > 150_000:
            continue
        score, met = case.score(K), case.latency(K) <= case.latency_target
        optimum = case.optimum()
        assert optimum.best.score == pytest.approx(score.max(), abs=1e-12)
        assert (optimum.feasible is not None) == bool(met.any())
        if optimum.feasible is not None:
            assert optimum.feasible.score == pytest.approx(score[met].max(), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(6, 9), st.floats(0, 1), st.integers(1, 50))
def test_frugal_points_are_all_of_them_once(floor: list[int], p_max: int, r_min: float, chunk: int) -> None:
    found = np.concatenate([*list_frugal_points(floor, p_max, r_min, chunk=chunk)])
    axes = [np.arange(low, p_max + 1) for low in floor]
    K = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(floor))
    expected = K[(np.array(floor) / K).mean(axis=1) >= r_min - 1e-10]
    assert {tuple(k) for k in found} == {tuple(k) for k in expected}
    assert len(found) == len(expected)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.floats(0, 1), st.integers(0, 99))
def test_samples_are_frugal_and_inside(floor: list[int], r_min: float, seed: int) -> None:
    K = sample_frugal(floor, 40, r_min, 200, np.random.default_rng(seed))
    assert ((np.array(floor) <= K) & (K <= 40)).all()
    assert ((np.array(floor) / K).mean(axis=1) >= r_min - 1e-6).all()


def test_samples_cover_the_frugal_points_evenly() -> None:
    floor, r_min = (2, 3), 0.6
    points = [tuple(k) for K in list_frugal_points(floor, 12, r_min) for k in K]
    K = sample_frugal(floor, 12, r_min, 40_000, np.random.default_rng(0))
    counts = dict.fromkeys(points, 0)
    for k in K:
        counts[tuple(k)] += 1
    expected = len(K) / len(points)
    assert max(abs(n - expected) for n in counts.values()) < 6 * np.sqrt(expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_another_rate_keeps_job_and_target_and_gets_its_own_floor(family: str) -> None:
    found = 0
    for seed in range(10):
        case = draw_case(family, seed)
        other = case.at_rate(0.7)
        if other is None:
            continue
        found += 1
        assert (other.job, other.latency_target) == (case.job, case.latency_target)
        assert other.rate == pytest.approx(0.7 * case.rate)
        assert all(low <= high for low, high in zip(other.floor, case.floor, strict=True))
        assert other.is_reachable()
        assert other.optimum().feasible is not None
    assert found >= 7


def test_a_rate_out_of_reach_says_so() -> None:
    case = draw_case("contention", 0)
    assert case.at_rate(1000.0) is None
    rates = {name: rate * 1000 for name, rate in case.source_rates.items()}
    assert find_throughput_floor(case.job, case.topology, rates, case.p_max) is None


def test_a_reading_is_noisy_and_seeded() -> None:
    case = draw_case("contention", 1)
    k = case.optimum().best.parallelism
    readings = [case.measure(k, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert readings[0] == readings[1] != readings[2]
    assert readings[2] == pytest.approx(case.latency(k)[0], rel=0.3)


def test_unknown_families_are_named() -> None:
    with pytest.raises(InputError, match="contention"):
        draw_case("no-such-family", 0)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_an_answer(name: str) -> None:
    case = PRESETS[name]
    feasible = case.optimum().feasible
    assert feasible is not None
    assert case.accepts(feasible.parallelism)[0]
