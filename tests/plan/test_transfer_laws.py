"""What a model of earlier runs must do for a study, over drawn jobs: go on where the first one was, or stay away."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from autotrascale import BenefitModel, Study
from autotrascale.plan.search.lattice import Point
from autotrascale.plan.sizing.sizing import Sizing

P_MAX, RATE, MOST = 30, 1000.0, 25


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


class DrawnJob:
    """Operators that queue, on a machine that gets slower as it fills; its target can be met within the stop rule."""

    def __init__(self, seed: int, operators: int | None = None) -> None:
        rng = np.random.default_rng([seed, 11])
        n = operators or int(rng.integers(1, 6))
        self.loads = np.exp(rng.uniform(math.log(0.6), math.log(9.0), n))
        self.service = np.exp(rng.uniform(math.log(0.002), math.log(0.03), n))
        self.crowding = float(rng.uniform(0, 0.01))
        self.floor = tuple(math.ceil(load) for load in self.loads)
        self.target = 1.15 * self.latency(tuple(math.ceil(1.3 * k) for k in self.floor))

    def latency(self, k: Point, rate: float = RATE) -> float:
        ks = np.asarray(k, dtype=float)
        slow = 1 + self.crowding * float(ks.sum())
        rho = self.loads * (rate / RATE) * slow / ks
        if (rho >= 1).any():
            return math.inf
        return float((self.service * slow * (1 + rho ** np.sqrt(2 * (ks + 1)) / (ks * (1 - rho)))).sum())

    def study(self, rate: float = RATE, source: BenefitModel | None = None, **options: Any) -> Study:
        loads = self.loads * rate / RATE
        floor = tuple(math.ceil(load) for load in loads)
        sizing = Sizing.of_loads(
            floor,
            [P_MAX] * len(floor),
            loads.tolist(),
            rate=rate,
            execution="pipelined",
            demand=(loads / self.service).tolist(),
        )
        return Study(floor, P_MAX, self.target, seed=3, sizing=sizing, source=source, max_runs=MOST, **options)

    def tell(self, study: Study, k: Point, rng: np.random.Generator, rate: float = RATE) -> float:
        latency = self.latency(k, rate) * math.exp(0.03 * rng.standard_normal())
        if math.isfinite(latency):
            study.tell(k, latency=latency)
        else:
            study.tell(k, failed=True)
        return latency

    def tuned(self, seed: int) -> Study:
        study, rng = self.study(), np.random.default_rng(seed)
        while not study.finished:
            self.tell(study, study.unsure or study.ask(), rng)
        return study


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_from_a_model_of_the_same_job_rate_and_target_a_study_goes_on_where_the_first_was(seed: int) -> None:
    """It asks first for what that one accepted, and once told what that one was told, takes it."""
    job = DrawnJob(seed)
    first = job.tuned(seed)
    if first.stop_reason != "target-met":
        return
    accepted = first.answer
    warm = job.study(source=BenefitModel.from_json(first.model(RATE).to_json()))
    assert warm.ask() == accepted.parallelism
    assert accepted.latency is not None
    warm.tell(accepted.parallelism, latency=accepted.latency)
    assert warm.stop_reason == "target-met"
    assert warm.answer.parallelism == accepted.parallelism
    assert not warm.remarks


@pytest.mark.parametrize("factor", [0.6, 0.8, 1.25, 1.6])
def test_models_of_another_rate_save_runs(factor: float) -> None:
    """Of twelve jobs together: one by one the noise of a reading may cost a run."""
    warm, cold = (sum(_runs(seed, RATE * factor, from_model) for seed in range(12)) for from_model in (True, False))
    assert warm < cold


def _runs(seed: int, rate: float, from_model: bool) -> int:
    """Until a run is accepted, windows that confirm included; a study that gives up counts as one of most runs."""
    job = DrawnJob(seed)
    study = job.study(rate, job.tuned(seed).model(RATE) if from_model else None)
    rng, runs = np.random.default_rng(seed), 0
    while not study.finished:
        job.tell(study, study.unsure or study.ask(), rng, rate)
        runs += 1
    return runs if study.stop_reason == "target-met" else max(runs, MOST)


@settings(max_examples=15, deadline=None, derandomize=True)  # two in six hundred of two operators are not told apart
@given(st.integers(0, 10_000), st.integers(3, 5))
def test_the_model_of_another_job_is_known_by_its_loads_and_costs_nothing(seed: int, operators: int) -> None:
    job, other = DrawnJob(seed, operators), DrawnJob(seed + 20_000, operators)
    proportions = np.log(job.loads / other.loads)
    if np.ptp(proportions) < 1.6:
        return  # nearer to each other, the loads alone do not tell two jobs apart, and the first runs have to
    misled, cold = job.study(source=other.tuned(seed).model(RATE)), job.study()
    assert misled.remarks
    for rng in [np.random.default_rng(seed)]:
        for _ in range(3):
            k = cold.ask()
            assert misled.ask() == k
            latency = job.latency(k) * math.exp(0.03 * rng.standard_normal())
            for study in (misled, cold):
                study.tell(k, latency=latency) if math.isfinite(latency) else study.tell(k, failed=True)
    assert misled.model(RATE).ancestors == ()


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_nothing_is_proposed_far_outside_while_something_safer_would_do(seed: int, shuffling: Any) -> None:
    """Readings around a point within the target: the next proposal stays among configurations that they speak of."""
    job = DrawnJob(seed)
    study, rng = job.study(), np.random.default_rng(seed)
    centre = tuple(math.ceil(1.3 * k) for k in job.floor)
    near = [centre, *(tuple(k + (i == j) for j, k in enumerate(centre)) for i in range(len(centre)))]
    shuffling.shuffle(near)
    for k in near:
        job.tell(study, k, rng)
    k = study.ask()
    assert all(x <= 4 * low + 4 for x, low in zip(k, job.floor, strict=True)), (k, job.floor)


# --- several at once -------------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(0, 6), st.booleans())
def test_several_at_once_are_distinct_within_the_bounds_and_none_of_those_told(
    seed: int, n: int, told: int, faithful: bool
) -> None:
    job = DrawnJob(seed)
    study, rng = job.study(faithful=faithful), np.random.default_rng(seed)
    for _ in range(told):
        job.tell(study, study.ask(), rng)
    before = study.ask()
    batch = study.ask(n)
    assert batch[0] == before == study.ask()  # asking tells nothing
    assert len(set(batch)) == len(batch) == n
    assert not {run.parallelism for run in study.runs} & set(batch)
    assert all(k in study.lattice for k in batch)
    assert study.ask(running=batch) not in batch


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_tells_may_come_late_failed_and_in_any_order(seed: int, shuffling: Any) -> None:
    """What is asked next depends on what was told, and not on when it came back."""
    job = DrawnJob(seed, operators=2)
    one, other = job.study(), job.study()
    rng = np.random.default_rng(seed)
    back = [(k, job.latency(k) * math.exp(0.03 * rng.standard_normal())) for k in one.ask(4)]
    late = list(back)
    shuffling.shuffle(late)
    for study, order in ((one, back), (other, late)):
        for k, latency in order:
            study.tell(k, latency=latency) if math.isfinite(latency) else study.tell(k, failed=True)
    assert one.answer.parallelism == other.answer.parallelism
    assert one.stop_reason == other.stop_reason


def test_where_fewer_are_left_than_asked_for_they_are_all_there_is() -> None:
    study = Study((2,), 4, 0.5)
    assert sorted(study.ask(9)) == [(2,), (3,), (4,)]
    study.tell((2,), latency=1.0)
    assert study.ask(running=[(3,)]) == (4,)
