"""A simulated job over time: records are conserved, and a long steady run equals the steady state."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.execute.simulator.fluid_job import FluidJob
from autotrascale.execute.simulator.rate_functions import random_day
from benchmarks.workloads.case import Case
from benchmarks.workloads.families import FAMILIES
from benchmarks.workloads.families import draw_case as draw_anew
from benchmarks.workloads.presets import PRESETS, SPARK_STALLED, WORDCOUNT

draw = cache(draw_anew)  # a case is the same each time: draw it once
ENOUGH = (5, 6, 16, 14)


def start(case: Case, k: Sequence[int] | None = None, seed: int = 0) -> FluidJob:
    k = tuple(min(case.p_max, x + 3) for x in case.floor) if k is None else tuple(k)
    return FluidJob(case.job, case.topology, case.source_rates, k, p_max=case.p_max, seed=seed)


@pytest.mark.parametrize("family", [*FAMILIES, *PRESETS])
def test_a_calm_run_is_the_steady_state(family: str) -> None:
    """The two implementations of the latency agree: vectorised over K, and scalar over rates."""
    cases = [PRESETS[family]] if family in PRESETS else [draw(family, seed) for seed in range(8)]
    for case in cases:
        job = start(case)
        capacity = case.compiled.steady(job.parallelism).capacity[0]
        if capacity * 0.97 <= 1:
            continue
        step = job.step(10.0, case.rate)
        assert step.latency == pytest.approx(case.latency(job.parallelism)[0])
        assert step.throughput == pytest.approx(case.rate)
        assert job.capacity == pytest.approx(case.rate * capacity)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.1, 60), st.floats(0, 800e3), st.booleans()), min_size=1, max_size=40),
    st.sampled_from(["wordcount", "spark-stalled", "yahoo"]),
)
def test_records_in_are_records_out_and_backlog(steps: list[tuple[float, float, bool]], name: str) -> None:
    case = PRESETS[name]
    job = start(case)
    wide = tuple(x + 1 for x in job.parallelism)
    narrow = job.parallelism
    for seconds, rate, move in steps:
        if move:
            job.rescale(wide if job.parallelism == narrow else narrow)
        step = job.step(seconds, rate)
        assert 0 <= step.processed <= job.capacity * (seconds - step.down) * (1 + 1e-9)
        assert step.latency >= 0
        assert step.backlog >= 0
    assert job.offered == pytest.approx(job.processed + job.backlog)
    assert job.time == pytest.approx(sum(seconds for seconds, _, _ in steps))


@settings(max_examples=40, deadline=None)
@given(st.floats(0.2, 2.5), st.integers(1, 60), st.booleans())
def test_how_time_is_cut_does_not_matter(factor: float, pieces: int, moved: bool) -> None:
    """A step is exact for a constant rate: a minute gives the same as sixty seconds."""
    whole, cut = start(WORDCOUNT, ENOUGH), start(WORDCOUNT, ENOUGH)
    for job in (whole, cut):
        job.step(30.0, 1.3 * job.capacity)
        if moved:
            job.rescale((6, 6, 16, 14))
    rate = factor * whole.capacity
    one = whole.step(60.0, rate)
    many = [cut.step(60.0 / pieces, rate) for _ in range(pieces)]
    assert cut.backlog == pytest.approx(whole.backlog, rel=1e-9, abs=1e-3)
    assert np.mean([step.latency for step in many]) == pytest.approx(one.latency, rel=1e-6)
    assert sum(step.processed for step in many) == pytest.approx(one.processed)


def test_backlog_grows_above_capacity_and_drains_below() -> None:
    """AuTraScale's observation 1 over time, simulated: throughput stays at capacity, lag and latency grow."""
    job = start(WORDCOUNT, ENOUGH)
    above = [job.step(10.0, 1.2 * job.capacity) for _ in range(5)]
    assert [step.throughput for step in above] == pytest.approx([job.capacity] * 5)
    assert np.diff([step.backlog for step in above]) == pytest.approx([2 * job.capacity] * 4)
    assert np.diff([step.latency for step in above]) == pytest.approx([2.0] * 4)
    below = [job.step(10.0, 0.5 * job.capacity) for _ in range(3)]
    assert [step.backlog for step in below] == pytest.approx([5 * job.capacity, 0, 0], abs=1e-6)
    assert below[-1].latency < 1.0


def test_a_rescale_stands_still_and_its_backlog_is_worked_off() -> None:
    job = start(WORDCOUNT, ENOUGH)
    job.step(10.0, 300e3)
    assert job.rescale(ENOUGH) == 0.0
    assert job.rescale((6, 6, 16, 14)) == WORDCOUNT.job.rescale.fixed_seconds == 20.0
    first, second = job.step(10.0, 300e3), job.step(10.0, 300e3)
    assert first.processed == second.processed == 0
    assert (first.down, second.down) == (10.0, 10.0)
    assert second.backlog == 20 * 300e3
    # A record of second t waits for 20 − t more seconds, and then for the records of t seconds before it.
    assert first.latency > 15
    third = job.step(10.0, 300e3)
    assert third.throughput == pytest.approx(job.capacity)
    assert third.down == 0


def test_back_pressure_stands_before_the_bottleneck_and_only_under_pressure() -> None:
    job = start(WORDCOUNT, (5, 6, 10, 14))  # count is short
    calm = job.backpressure(job.step(10.0, 0.5 * job.capacity))
    assert set(calm.values()) == {0.0}
    pressed = job.backpressure(job.step(10.0, 2 * job.capacity))
    assert pressed["source"] > 0.1
    assert pressed["flatmap"] > 0.1
    assert pressed["count"] == pressed["sink"] == 0


def test_a_snapshot_is_the_window_since_the_last_one() -> None:
    job = start(WORDCOUNT, ENOUGH)
    for _ in range(3):
        job.step(10.0, 300e3)
    first = job.snapshot()
    assert first.window_seconds == 30
    assert first.throughput == pytest.approx(300e3)
    assert first.source_rates == {"source": pytest.approx(300e3)}
    assert first.operators["count"].total.records_in == pytest.approx(3 * 300e3 * 30)
    job.step(10.0, 100e3)
    assert job.snapshot().target_rate == pytest.approx(100e3)
    with pytest.raises(InputError, match="empty"):
        job.snapshot()


def test_a_snapshot_speaks_of_one_parallelism() -> None:
    job = start(WORDCOUNT, ENOUGH)
    job.step(10.0, 300e3)
    job.rescale((6, 6, 16, 14))
    job.step(30.0, 300e3)
    snapshot = job.snapshot()
    assert snapshot.window_seconds == 30
    assert snapshot.parallelism["source"] == 6
    assert (snapshot.throughput or 0) < 300e3  # it stood still for 20 of them
    assert (snapshot.backlog_records or 0) > 0


def test_a_silent_world_is_a_window_too() -> None:
    job = start(WORDCOUNT, ENOUGH)
    job.step(10.0, 0.0)
    snapshot = job.snapshot()
    assert snapshot.throughput == 0
    assert snapshot.latency_seconds.mean is None


def test_quantiles_lie_about_the_mean_in_order() -> None:
    for case in (WORDCOUNT, SPARK_STALLED):
        job = start(case)
        job.step(60.0, case.rate)
        latency = job.snapshot().latency_seconds
        assert None not in (latency.mean, latency.p50, latency.p95, latency.p99)
        assert latency.p50 <= latency.mean < latency.p95 < latency.p99  # type: ignore[operator]


def test_the_same_seed_gives_the_same_run() -> None:
    def run(seed: int) -> list[object]:
        job = start(WORDCOUNT, ENOUGH, seed)
        rate = random_day(seed, 100e3, 300e3)
        seen: list[object] = []
        for i in range(20):
            seen.append(job.step(10.0, rate(10.0 * i)))
            seen.append(job.snapshot())
        return seen

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_a_day_of_a_job_takes_far_less_than_a_second_of_a_core() -> None:
    """Twenty such days, and a thousand jobs at an interval of 10 s, must fit on one core."""
    job, rate = start(WORDCOUNT, ENOUGH), random_day(0, 100e3, 350e3)
    begun = time.process_time()
    for i in range(8640):
        job.step(10.0, rate(10.0 * i))
    assert time.process_time() - begun < 1.0


@pytest.mark.parametrize("k", [(5, 6, 16), (5, 6, 16, 0), (5, 6, 16, 41)])
def test_a_vector_that_does_not_fit_is_refused(k: tuple[int, ...]) -> None:
    with pytest.raises(InputError):
        start(WORDCOUNT, ENOUGH).rescale(k)


@pytest.mark.parametrize(("seconds", "rate"), [(0.0, 1.0), (-1.0, 1.0), (1.0, -1.0)])
def test_time_runs_forward_and_rates_are_not_negative(seconds: float, rate: float) -> None:
    with pytest.raises(InputError):
        start(WORDCOUNT, ENOUGH).step(seconds, rate)
