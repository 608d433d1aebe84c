from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.plan.search import expectation
from autotrascale.plan.sizing.floor import batch_latency, batch_seconds
from autotrascale.plan.sizing.sizing import Sizing
from autotrascale.testing.strategies import executions

floors = st.lists(st.integers(1, 40), min_size=1, max_size=6)
some_loads = st.lists(st.floats(0.0, 40.0), min_size=1, max_size=6)


@given(some_loads, st.data())
def test_one_instance_more_is_never_expected_to_be_slower_with_micro_batches(
    loads: list[float], data: st.DataObject
) -> None:
    k = np.array([data.draw(st.integers(1, 60)) for _ in loads], dtype=float)
    more = k + np.eye(len(loads))[data.draw(st.integers(0, len(loads) - 1))]
    assert expectation.batching(np.array(loads), more) <= expectation.batching(np.array(loads), k) + 1e-12


@given(some_loads, st.data())
def test_nor_with_pipelined_operators_that_keep_up(loads: list[float], data: st.DataObject) -> None:
    k = np.array([math.ceil(load) + data.draw(st.integers(1, 20)) for load in loads], dtype=float)
    more = k + np.eye(len(loads))[data.draw(st.integers(0, len(loads) - 1))]
    assert expectation.queueing(np.array(loads), more) <= expectation.queueing(np.array(loads), k) + 1e-12


@given(floors, executions, st.one_of(st.none(), st.just(True)), st.floats(0, 1), st.data())
def test_shapes_are_finite_wherever_one_looks(
    floor: list[int], execution: str, measured: bool | None, overhead: float, data: st.DataObject
) -> None:
    loads = [data.draw(st.floats(0, 100)) for _ in floor] if measured else None
    most = [k + 5 for k in floor]
    ks = np.array([floor, [k + 5 for k in floor], [1] * len(floor), [10**6] * len(floor)])
    for known in (execution, None):
        sizing = Sizing.of_loads(floor, most, loads, execution=known, overhead=overhead)  # type: ignore[arg-type]
        columns = expectation.shapes(sizing, ks)
        assert columns.shape == (4, 1 if known else 2)
        assert np.isfinite(columns).all()


@given(st.floats(0.01, 0.9), st.integers(1, 30))
def test_one_station_waits_as_the_queueing_books_say(rho: float, k: int) -> None:
    """M/M/1 exactly, ρ/(1 − ρ) service times; no wait at all in the limit of many instances at a fixed ρ."""
    one = expectation.queueing(np.array([rho]), np.array([1.0]))
    assert math.expm1(one) == pytest.approx(rho / (1 - rho))
    many = expectation.queueing(np.array([rho * k]), np.array([float(k)]))
    assert 0 <= math.expm1(many) <= math.expm1(one) + 1e-12


def test_the_shape_of_micro_batches_is_that_of_the_floors_batch_time() -> None:
    loads, near, far = [0.5, 1.5, 0.2], [3, 4, 2], [6, 9, 5]
    ratio = batch_latency(batch_seconds(0.1, loads, near)) / batch_latency(batch_seconds(0.1, loads, far))
    shape = expectation.batching(np.array(loads), np.array([near, far], dtype=float))
    assert math.exp(shape[0] - shape[1]) == pytest.approx(ratio)


@given(floors, st.floats(0.05, 0.9))
def test_loads_guessed_from_a_floor_fill_it(floor: list[int], overhead: float) -> None:
    """h + Σ load_i/k'_i = 1 with micro-batches, and k'_i = ceil(load_i) with pipelined operators."""
    guess = expectation.micro_batch_loads(floor, overhead)
    assert overhead + float((guess / np.array(floor)).sum()) == pytest.approx(1.0)
    assert np.ceil(expectation.pipelined_loads(floor)).astype(int).tolist() == floor
