"""Laws of measured loads and costs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Execution
from autotrascale.plan.search import surrogate
from autotrascale.plan.search.ask_tell import AskTellStudy
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.search.latency_model import LatencyModel
from autotrascale.plan.search.mean_function import MeanFunction
from autotrascale.plan.search.measured_loads import (
    ERROR,
    FINEST,
    SPREAD,
    LoadRow,
    MeasuredLoads,
    look_up,
    parallelism_grid,
)
from autotrascale.plan.search.study_runs import Run, WindowMeasurement
from autotrascale.plan.search.training_data import SessionReadings, build_training_data
from autotrascale.plan.sizing.sizing import Sizing

FLOORS = st.lists(st.integers(1, 9), min_size=1, max_size=5)
EXECUTIONS: tuple[Execution, ...] = ("pipelined", "micro-batch")


def _sizing(floor: list[int], execution: Execution, slots: int | None = None, timed: bool = False) -> Sizing:
    """`timed`: the input rate and the upstreams of each operator are known, with forks and joins."""
    busy = [0.8 * k for k in floor] if execution == "pipelined" else [0.8 * k / len(floor) for k in floor]
    demand = [100.0 * (i + 1) for i in range(len(floor))] if timed else []
    upstream = ((), *((i - 2, i - 1) if i > 1 else (0,) for i in range(1, len(floor)))) if timed else ()
    return Sizing.of_loads(
        floor, [40] * len(floor), busy, rate=100.0, execution=execution, slots=slots, demand=demand, upstream=upstream
    )


def _readings(sizing: Sizing, rng: np.random.Generator, runs: int, rate: float = 1.0) -> SessionReadings:
    floor = np.asarray(sizing.floor)
    ks = np.unique(np.minimum(40, np.rint(floor * rng.uniform(1.0, 3.0, (runs, len(floor))))).astype(int), axis=0)
    said = [
        WindowMeasurement(tuple((np.asarray(sizing.hottest) * rng.uniform(0.7, 1.6, len(floor))).tolist()), float(cost))
        for cost in rng.uniform(0.1, 0.3, len(ks))
    ]
    points = tuple(tuple(int(x) for x in k) for k in ks)
    y = tuple(rng.normal(0, 0.3, len(ks)).tolist())
    return SessionReadings(sizing, points, y, (1.0,) * len(ks), rates=(100.0 * rate,) * len(ks), measured=tuple(said))


@settings(max_examples=40, deadline=None)
@given(FLOORS, st.sampled_from(EXECUTIONS), st.integers(0, 10_000), st.sampled_from([None, 6]), st.booleans())
def test_the_derivatives_equal_finite_differences_with_measured_loads(
    floor: list[int], execution: Execution, seed: int, slots: int | None, timed: bool
) -> None:
    rng, sizing = np.random.default_rng(seed), _sizing(floor, execution, slots, timed)
    physics = LatencyModel.of(sizing)
    there = _readings(sizing, rng, 3, rate=0.5)
    expectation = MeanFunction(physics, build_training_data(physics, [_readings(sizing, rng, 4), there], [0.0, 0.0]))
    spread = expectation.spread
    beta = expectation.centre + 0.3 * spread * rng.standard_normal(len(spread))
    ks = np.rint(np.asarray(floor) * rng.uniform(1.0, 3.0, (5, len(floor))))

    def both(at: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        m = expectation.latency(ks, np.zeros(5), at, expectation.deviation(40, at))
        return np.concatenate([m.value, expectation.measurements(at)[:, 0]])

    m = expectation.latency(ks, np.zeros(5), beta, expectation.deviation(40, beta))
    slope = np.concatenate([m.slope, expectation.measurements(beta)[:, 1:]])
    step = 1e-6 * np.eye(len(beta))
    numeric = np.stack([(both(beta + e) - both(beta - e)) / 2e-6 for e in step], axis=1)
    assert np.allclose(slope, numeric, rtol=1e-3, atol=1e-3)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 40), st.floats(-0.5, 0.5)), min_size=1, max_size=8, unique_by=lambda r: r[0]))
def test_a_measured_deviation_holds_where_it_was_measured_and_fades_with_distance(
    rows: list[tuple[int, float]],
) -> None:
    loads = MeasuredLoads([LoadRow((k,), 0.0, (math.exp(beyond),)) for k, beyond in rows], 1, has_measured_runs=True)
    table = loads.deviation(200, np.zeros((len(rows), 1)), np.zeros((len(rows), 1, 2)))
    assert (table.variance >= 0).all()
    assert (table.variance <= SPREAD**2 + 1e-12).all()
    for k, _ in rows:
        assert table.variance[0, k - 1] <= ERROR**2 + 1e-12
    assert abs(table.mean[0, 199]) < 0.1
    assert table.variance[0, 199] > 0.9 * SPREAD**2
    left = loads.posterior_covariance(200, loads.ks)
    at_rows = [left[0, k - 1, r] for r, (k, _) in enumerate(rows)]
    assert np.allclose(at_rows, [table.variance[0, k - 1] for k, _ in rows], atol=1e-9)


@given(st.integers(1, 10**6), st.data())
def test_a_table_is_read_at_the_nearest_parallelism_and_stays_small(most: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, most))
    grid = parallelism_grid(most)
    found = float(look_up(grid[None, :], np.array([[float(k)]]), most)[0, 0])
    assert found == k if most <= FINEST else abs(math.log(found / k)) < 0.1 * math.log(most) / math.log(FINEST)
    assert len(grid) <= max(FINEST, 1)


@settings(max_examples=60, deadline=None)
@given(
    FLOORS, st.sampled_from(EXECUTIONS), st.integers(0, 10_000), st.booleans(), st.floats(0.02, 2.0), st.integers(1, 6)
)
def test_a_source_with_the_same_window_is_of_the_same_job(
    floor: list[int], execution: Execution, seed: int, timed: bool, fixed: float, runs: int
) -> None:
    """A model stores a summary of its sizing; the source gets the sizing of the present session."""
    sizing = replace(_sizing(floor, execution, None, timed), fixed_seconds=fixed)
    made = _readings(sizing, np.random.default_rng(seed), runs)
    moved = surrogate.fit(SessionReadings(sizing), [replace(made, sizing=sizing.summarize(sizing.rate))])
    assert moved.doubts == (0.0,)
    ks = np.asarray(floor) + np.arange(4)[:, None]
    for one, other in zip(surrogate.fit(made).log_ratio(ks), moved.log_ratio(ks), strict=True):
        assert np.allclose(one, other, atol=1e-3)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_without_measured_runs_there_is_no_deviation(execution: Execution) -> None:
    sizing = _sizing([3, 5], execution)
    expectation = MeanFunction(
        LatencyModel.of(sizing), build_training_data(LatencyModel.of(sizing), [SessionReadings(sizing)], [0.0])
    )
    assert expectation.deviation(40, expectation.centre) is None


def test_a_jump_of_the_load_is_learned_from_a_measured_run() -> None:
    """For example, state begins to fit into memory: a smooth formula would be wrong for all neighbours."""
    sizing = _sizing([4, 4], "micro-batch")
    whole = sizing.hottest[0]
    said = tuple(WindowMeasurement((load, whole), 0.2) for load in (whole, 0.6 * whole))
    told = SessionReadings(sizing, ((5, 4), (6, 4)), (0.1, 0.0), (1.0, 1.0), measured=said)
    posterior = surrogate.fit(told)
    beside = np.array([[4.0, 4.0], [7.0, 4.0]])
    delta, _, _ = posterior.mean_function.deviation(40, posterior.beta).at(beside)
    logs, _ = posterior.latency_model.log_loads(beside, np.zeros(2), posterior.beta)
    loads = np.exp(logs + delta)[:, 0] / whole
    assert loads == pytest.approx([1.0, 0.6], rel=0.15)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000))
def test_two_windows_are_one_run_with_mean_measurements(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (
        WindowMeasurement(tuple(rng.uniform(0.5, 2.0, 3).tolist()), float(rng.uniform(0.1, 1))) for _ in range(2)
    )
    run = Run((1, 2, 3), 1.0, measured=first).again(Run((1, 2, 3), 4.0, measured=second))
    assert run.windows == 2
    assert run.latency == pytest.approx(2.0)
    assert run.measured is not None
    mean = np.exp((np.log(first.loads) + np.log(second.loads)) / 2)
    assert run.measured.loads == pytest.approx(mean.tolist())
    assert Run((1, 2, 3), 1.0).again(Run((1, 2, 3), None, measured=first)).measured == first


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(EXECUTIONS))
def test_the_mean_of_two_windows_is_equivalent_to_both(seed: int, execution: Execution) -> None:
    """So a study from a model with one of the windows equals a study with both windows."""
    rng, sizing = np.random.default_rng(seed), _sizing([3, 5], execution)
    first, second = (
        WindowMeasurement(tuple(rng.uniform(0.5, 2.0, 2).tolist()), float(rng.uniform(0.1, 0.3))) for _ in range(2)
    )
    y = rng.normal(0, 0.1, 2)
    apart = SessionReadings(sizing, ((4, 6), (4, 6)), tuple(y.tolist()), (1.0, 1.0), measured=(first, second))
    mean = SessionReadings(sizing, ((4, 6),), (float(y.mean()),), (0.5,), measured=(first.again(second, 1),))
    ks = [(4, 6), (5, 6), (8, 9)]
    one, two = (np.array(surrogate.fit(told).log_ratio(ks)) for told in (apart, mean))
    assert np.allclose(one, two, rtol=0.02, atol=0.01)


def test_a_model_keeps_measured_loads_demand_and_graph() -> None:
    sizing = _sizing([3, 5], "micro-batch", slots=8, timed=True)
    study = AskTellStudy((3, 5), 40, 1.0, sizing=sizing)
    study.tell((4, 6), latency=0.9, sizing=Sizing.of_loads((3, 5), (40, 40), [1.1, 1.9], execution="micro-batch"))
    study.tell((5, 6), latency=0.8)
    model = study.model(100.0)
    assert BenefitModel.from_json(model.to_json()) == model
    assert model.sizing.upstream == ((), (0,))
    assert model.sizing.demand == (100.0, 200.0)
    assert model.samples[0].measured == WindowMeasurement((1.1, 1.9))
    assert model.samples[1].measured is None


def test_a_sizing_of_another_job_is_refused() -> None:
    study = AskTellStudy((3, 5), 40, 1.0)
    with pytest.raises(InputError, match="is of 1 operators"):
        study.tell((4, 6), latency=0.9, sizing=Sizing.of_loads((3,), (40,), [1.1]))
    assert study.runs == ()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1e-9, 0.3, 2.5, 40.0]), min_size=1, max_size=5),
    st.lists(st.sampled_from([0.0, 1e-300, 0.5, 1e5, 1e300]), min_size=5, max_size=5),
    st.sampled_from(EXECUTIONS),
)
def test_extreme_loads_and_rates_of_an_operator_are_handled(
    loads: list[float], rates: list[float], execution: Execution
) -> None:
    floor, demand = [3] * len(loads), rates[: len(loads)]
    sizing = Sizing.of_loads(floor, [9] * len(floor), loads, rate=100.0, execution=execution, demand=demand)
    study = AskTellStudy(floor, 9, 1.0, sizing=sizing)
    with np.errstate(divide="raise", invalid="raise"):
        for _ in range(3):
            study.tell(study.ask(), latency=0.9, sizing=sizing)
    mean, std = study.model(100.0).log_ratio([(4,) * len(loads)])
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert BenefitModel.from_json(study.model(100.0).to_json()) == study.model(100.0)
