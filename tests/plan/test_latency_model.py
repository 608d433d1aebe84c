"""Laws of the latency model over drawn jobs: derivatives, and the effects of more instances and more input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.domain.snapshot import Execution
from autotrascale.plan.search.latency_model import LatencyModel, estimate_batch_loads
from autotrascale.plan.sizing.sizing import Sizing

EXECUTIONS = ["pipelined", "micro-batch", None]


def physics(floor: list[int], execution: Execution | None, seed: int, measured: bool = True) -> LatencyModel:
    rng = np.random.default_rng(seed)
    guess = estimate_batch_loads(tuple(floor), 0.1) if execution == "micro-batch" else [k - 0.5 for k in floor]
    loads = (np.asarray(guess) * rng.uniform(0.6, 1.0, len(floor))).tolist() if measured and execution else None
    return LatencyModel.of(Sizing.of_loads(floor, [40] * len(floor), loads, execution=execution))


FLOORS = st.lists(st.integers(1, 12), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(FLOORS, st.sampled_from(EXECUTIONS), st.integers(0, 10_000), st.booleans())
def test_the_derivatives_equal_finite_differences(
    floor: list[int], execution: Execution | None, seed: int, measured: bool
) -> None:
    job, rng = physics(floor, execution, seed, measured), np.random.default_rng(seed)
    ks = np.asarray(floor) * rng.uniform(0.8, 4.0, (4, len(floor)))
    log_q, beta = rng.normal(0, 0.4, 4), job.centre + 0.5 * job.spread * rng.standard_normal(len(job.centre))
    value, slope, _ = job.latency(ks, log_q, beta)
    step = 1e-6 * np.eye(len(beta))
    numeric = [(job.value(ks, log_q, beta + e) - job.value(ks, log_q, beta - e)) / 2e-6 for e in step]
    assert np.array_equal(value, job.value(ks, log_q, beta))
    assert np.isfinite(value).all()
    assert np.allclose(slope, np.stack(numeric, axis=1), rtol=1e-4, atol=1e-5)
    loads, rows = job.log_loads(ks, log_q, beta)
    numeric = [(job.log_loads(ks, log_q, beta + e)[0] - job.log_loads(ks, log_q, beta - e)[0]) / 2e-6 for e in step]
    assert np.isfinite(loads).all()
    assert np.allclose(rows, np.stack(numeric, axis=2), rtol=1e-4, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(FLOORS, st.sampled_from(EXECUTIONS), st.integers(0, 10_000))
def test_latency_never_falls_with_input_and_work_never_falls_with_instances(
    floor: list[int], execution: Execution | None, seed: int
) -> None:
    job, rng = physics(floor, execution, seed), np.random.default_rng(seed)
    beta = job.centre + job.spread * rng.standard_normal(len(job.centre))
    beta[job.places["rate"]] = 0.0  # the effect of the rate without waiting may be negative
    if execution is not None:
        ks = np.repeat(np.asarray(floor)[None, :] * rng.uniform(1.0, 4.0, len(floor)), 5, axis=0)
        value, _, _ = job.latency(ks, np.log([0.3, 0.7, 1.0, 1.3, 2.5]), beta)
        assert (np.diff(value) >= -1e-9).all()
    few = np.asarray(floor, dtype=float)[None, :] * rng.uniform(1.0, 4.0, (8, len(floor)))
    more = few * rng.uniform(1.0, 3.0, (8, len(floor)))
    before, after = (job.log_loads(ks, np.zeros(8), beta)[0] for ks in (few, more))
    assert (after >= before - 1e-9).all()


@pytest.mark.parametrize("execution", ["pipelined", "micro-batch"])
def test_the_latency_of_an_overloaded_job_is_high_and_grows_with_the_overload(execution: Execution) -> None:
    loads = [4.5, 2.0] if execution == "pipelined" else [2.0, 1.5]
    job = LatencyModel.of(Sizing.of_loads((5, 3), (40, 40), loads, execution=execution))
    value, _, _ = job.latency(np.full((4, 2), 3.0) * [[4], [1], [0.8], [0.5]], np.zeros(4), job.centre)
    assert (np.diff(value) > 0).all()
    assert value[1] > value[0] + 1


@settings(max_examples=60)
@given(FLOORS, st.floats(0, 1))
def test_loads_implied_by_a_batch_floor_use_the_whole_batch(floor: list[int], overhead: float) -> None:
    busy = sum(load / k for load, k in zip(estimate_batch_loads(tuple(floor), overhead), floor, strict=True))
    assert busy == pytest.approx(1 - min(max(overhead, 0.05), 0.95))


def test_an_unknown_execution_model_is_derived_from_the_loads() -> None:
    """If the busy times of all operators fit into one second at the floor, the job runs in micro-batches."""
    assert LatencyModel.of(Sizing.of_loads((4, 6), (40, 40), [1.2, 2.6])).execution == "micro-batch"
    assert LatencyModel.of(Sizing.of_loads((4, 6), (40, 40), [3.4, 5.6])).execution == "pipelined"
    assert LatencyModel.of(Sizing.of_loads((4, 6), (40, 40))).execution is None
