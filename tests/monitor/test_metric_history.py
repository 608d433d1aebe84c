"""Snapshots are written to a store and read back as series."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Latency, OperatorMetrics, Snapshot, Work
from autotrascale.monitor.stores.metric_history import (
    MetricSeries,
    choose_window_length,
    read_backlog_series,
    read_last_snapshot_times,
    read_latency_series,
    read_parallelism_series,
    read_throughput_series,
)
from autotrascale.monitor.stores.points import END_OF_TIME, SECOND
from autotrascale.monitor.stores.snapshot_points import (
    INSTANCE_MEASUREMENT,
    JOB_MEASUREMENT,
    OPERATOR_MEASUREMENT,
    SOURCE_MEASUREMENT,
    snapshot_to_points,
)
from autotrascale.testing.memory_store import MemoryStore

T0 = 1_700_000_000 * SECOND
MINUTE = 60 * SECOND


def snapshot(job: str = "wordcount", k: int = 2, **changed: Any) -> Snapshot:
    operators = {
        "source": OperatorMetrics(parallelism=1),
        "flatmap": OperatorMetrics(
            parallelism=k,
            upstream=("source",),
            backpressure=0.25,
            instances=(Work(records_in=30, useful_seconds=5), Work(records_in=12, useful_seconds=None)),
        ),
    }
    parts: dict[str, Any] = {"throughput": 90, "latency_seconds": Latency(p95=0.6), "backlog_records": 7} | changed
    return Snapshot(job, 60, 36, {"source": 100}, operators, **parts)


def test_a_snapshot_as_points() -> None:
    points = {
        (point.measurement, *point.tags.values()): dict(point.fields) for point in snapshot_to_points(snapshot(), 5)
    }
    assert points == {
        (JOB_MEASUREMENT, "wordcount"): {
            "window_seconds": 60,
            "p_max": 36,
            "target_rate": 100,
            "throughput": 90,
            "backlog_records": 7,
            "latency_p95": 0.6,
        },
        (SOURCE_MEASUREMENT, "wordcount", "source"): {"rate": 100},
        (OPERATOR_MEASUREMENT, "wordcount", "source"): {"parallelism": 1, "silent_instances": 0},
        # The useful time of one instance is not known, so that of the operator is not known either.
        (OPERATOR_MEASUREMENT, "wordcount", "flatmap"): {
            "parallelism": 2,
            "silent_instances": 0,
            "backpressure": 0.25,
            "records_in": 42,
        },
        (INSTANCE_MEASUREMENT, "0", "wordcount", "flatmap"): {"records_in": 30, "useful_seconds": 5},
        (INSTANCE_MEASUREMENT, "1", "wordcount", "flatmap"): {"records_in": 12},
    }
    assert {point.time for point in snapshot_to_points(snapshot(), 5)} == {5}


def test_unknown_values_have_no_field() -> None:
    bare = Snapshot("a", 60, 36, {"source": 100}, {"source": OperatorMetrics(parallelism=1, instances=(Work(),))})
    names = {name for point in snapshot_to_points(bare, 5) for name in point.fields}
    assert names == {*("window_seconds", "p_max", "target_rate", "rate", "parallelism", "silent_instances")}


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    for i in range(10):
        shot = snapshot(k=2 + i // 5, throughput=90 + i, latency_seconds=Latency(p95=0.1 * i), backlog_records=i)
        store.write(snapshot_to_points(shot, T0 + i * MINUTE))
    store.write(snapshot_to_points(snapshot("other"), T0 - MINUTE))
    return store


def test_the_age_of_a_job_is_that_of_its_last_snapshot(store: MemoryStore) -> None:
    assert read_last_snapshot_times(store) == {"wordcount": T0 + 9 * MINUTE, "other": T0 - MINUTE}
    assert read_last_snapshot_times(store, T0, T0 + MINUTE) == {"wordcount": T0}


def test_series_hold_every_snapshot_when_there_is_room(store: MemoryStore) -> None:
    stop = T0 + 10 * MINUTE
    # A window starts at a multiple of its length: 30 s is the shortest step that makes 30 points of ten minutes.
    times = tuple((T0 + i * MINUTE) // (30 * SECOND) * 30 * SECOND for i in range(10))
    assert read_throughput_series(store, "wordcount", T0, stop, 30) == MetricSeries(
        times, tuple(90.0 + i for i in range(10))
    )
    assert read_latency_series(store, "wordcount", T0, stop, "p95", 30).values == tuple(0.1 * i for i in range(10))
    assert read_backlog_series(store, "wordcount", T0, stop, 30).values == tuple(float(i) for i in range(10))
    assert read_parallelism_series(store, "wordcount", T0, stop, 30) == {
        "source": MetricSeries(times, (1.0,) * 10),
        "flatmap": MetricSeries(times, (2.0,) * 5 + (3.0,) * 5),
    }


def test_fewer_points_keep_the_peaks_of_latency_and_real_parallelisms(store: MemoryStore) -> None:
    stop = T0 + 10 * MINUTE
    latency = read_latency_series(store, "wordcount", T0, stop, points=4)
    assert len(latency.values) <= 4
    assert max(latency.values) == 0.1 * 9
    assert set(read_parallelism_series(store, "wordcount", T0, stop, points=4)["flatmap"].values) == {2.0, 3.0}


def test_an_unknown_job_has_no_series(store: MemoryStore) -> None:
    assert read_latency_series(store, "nobody", T0, T0 + MINUTE) == MetricSeries()
    assert read_latency_series(store, "wordcount", T0, T0 + MINUTE, "p50") == MetricSeries()
    assert read_parallelism_series(store, "nobody", T0, T0 + MINUTE) == {}


@given(st.integers(0, END_OF_TIME - 2), st.integers(1, END_OF_TIME), st.integers(2, 2000))
def test_a_window_length_yields_at_most_the_wanted_points(start: int, span: int, points: int) -> None:
    stop = min(start + span, END_OF_TIME - 1)
    length = choose_window_length(start, stop, points)
    assert (stop - 1) // length - start // length + 1 <= points


def test_window_lengths_are_readable() -> None:
    assert choose_window_length(T0, T0 + 3600 * SECOND, 500) == 10 * SECOND
    assert choose_window_length(T0, T0 + 86_400 * SECOND, 500) == 300 * SECOND
    assert choose_window_length(T0, T0 + 30 * 86_400 * SECOND, 500) == 7200 * SECOND
    with pytest.raises(InputError, match="points: must be at least 2"):
        choose_window_length(T0, T0 + 1, 1)
