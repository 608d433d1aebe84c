from __future__ import annotations

import random

import pytest

from autotrascale.analyze.stability import (
    BatchSample,
    JobBehind,
    Judgement,
    RunningBatch,
    StabilityRules,
    SteadyJob,
    Undecided,
    fit_batch_times,
    judge,
)

RULES = StabilityRules(window_seconds=5.0, min_batches=5, max_seconds=120.0)


def batches(
    o: float, c: float, count: int, *, first: float = 0.05, noise: float = 0.0, seed: int = 0
) -> list[BatchSample]:
    """A job with fixed cost o and slope c, started cold under load: each batch covers the one before it."""
    chance = random.Random(seed)
    samples, covered = [], first
    for _ in range(count):
        seconds = (o + c * covered) * (1 + noise * chance.gauss(0, 1))
        samples.append(BatchSample(covered, max(0.01, seconds)))
        covered = samples[-1].seconds
    return samples


def run(samples: list[BatchSample], rules: StabilityRules = RULES) -> tuple[Judgement, int]:
    """Shows the batches one by one, as a trial does; the first judgement, and after how many."""
    elapsed = 0.0
    for count, sample in enumerate(samples, 1):
        elapsed += sample.seconds
        judgement = judge(samples[:count], rules, elapsed)
        if not isinstance(judgement, Undecided):
            return judgement, count
    return Undecided(), len(samples)


@pytest.mark.parametrize("c", [0.0, 0.3, 0.6, 0.8])
def test_a_job_that_keeps_up_is_steady_near_its_fixed_point(c: float) -> None:
    samples = batches(0.4, c, 200)
    judgement, count = run(samples)
    assert isinstance(judgement, SteadyJob)
    window = samples[count - judgement.batches : count]
    assert sum(sample.seconds for sample in window) / len(window) == pytest.approx(0.4 / (1 - c), rel=0.3)


@pytest.mark.parametrize(("c", "within"), [(1.2, 10), (1.5, 6), (2.5, 5), (10.0, 3)])
def test_a_job_that_falls_behind_is_found_out_early(c: float, within: int) -> None:
    judgement, count = run(batches(0.4, c, 30))
    assert isinstance(judgement, JobBehind)
    assert "no batch size is enough" in judgement.reason
    assert count <= within
    assert judgement.growth == pytest.approx(c)


@pytest.mark.parametrize("c", [0.0, 0.4, 0.7])
def test_noise_does_not_condemn_a_job_that_keeps_up(c: float) -> None:
    judged = [run(batches(0.6, c, 100, noise=0.15, seed=seed))[0] for seed in range(200)]
    assert sum(isinstance(judgement, SteadyJob) for judgement in judged) >= 199


@pytest.mark.parametrize("c", [1.3, 2.0])
def test_noise_does_not_save_a_job_that_falls_behind(c: float) -> None:
    judged = [run(batches(0.6, c, 60, noise=0.15, seed=seed))[0] for seed in range(200)]
    assert sum(isinstance(judgement, JobBehind) for judgement in judged) >= 197


def test_gaps_between_the_batches_of_a_light_load_belong_to_the_window() -> None:
    samples = [BatchSample(covered=2.0, seconds=0.3)] * 7
    assert judge(samples, RULES, 14.0) == SteadyJob(5)


def test_growing_from_a_cold_start_is_no_falling_behind() -> None:
    """0.4, 0.7, 1.0, … s: each batch is longer than the input it covers, on the way to 2 s."""
    samples = batches(0.4, 0.8, 4)
    assert all(sample.seconds > sample.covered for sample in samples)
    assert isinstance(judge(samples, RULES, 3.0), Undecided)


def test_creeping_near_saturation_is_not_taken_for_steady() -> None:
    samples = batches(0.1, 0.97, 14)
    judgement, _ = run(samples)
    assert not isinstance(judgement, SteadyJob)


def test_the_fit_finds_cost_and_slope() -> None:
    fitted = fit_batch_times(batches(0.5, 0.6, 6))
    assert fitted is not None
    assert fitted.fixed == pytest.approx(0.5, rel=0.01)
    assert fitted.slope == pytest.approx(0.6, rel=0.01)
    assert fitted.settles_at == pytest.approx(1.25, rel=0.01)


def test_equal_batches_say_nothing_about_a_slope() -> None:
    assert fit_batch_times([BatchSample(1.0, 0.9), BatchSample(1.0, 0.8), BatchSample(1.1, 1.0)]) is None


def test_a_batch_in_flight_counts_with_the_time_it_has_taken() -> None:
    samples = [BatchSample(0.05, 0.5), BatchSample(0.5, 1.0)]
    assert isinstance(judge(samples, RULES, 3.0, RunningBatch(covered=1.0, seconds=1.2)), Undecided)
    judgement = judge(samples, RULES, 9.0, RunningBatch(covered=1.0, seconds=8.0))
    assert isinstance(judgement, JobBehind)
    assert "still running" in judgement.reason


def test_time_up_without_batches_is_falling_behind() -> None:
    assert isinstance(judge([], RULES, 120.0), JobBehind)


def test_time_up_while_batches_shrink_gives_an_upper_bound() -> None:
    samples = [BatchSample(9.0, 9.0)] + [BatchSample(9.0 * 0.9**i, 9.0 * 0.9 ** (i + 1)) for i in range(8)]
    judgement = judge(samples, RULES, 120.0)
    assert isinstance(judgement, SteadyJob)
    assert "upper bound" in judgement.note


def test_steady_batches_over_a_growing_lag_are_falling_behind() -> None:
    samples = [BatchSample(1.0, 1.0, lag=0.5 * i) for i in range(12)]
    judgement = judge(samples, RULES, 12.0)
    assert isinstance(judgement, JobBehind)
    assert "holds records back" in judgement.reason
