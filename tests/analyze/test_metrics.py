"""Metrics of batches made by hand."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from autotrascale.analyze import metrics
from autotrascale.analyze.facts import BatchFact, MarkFact, StageFact, TaskFact
from autotrascale.analyze.live.query_run import make_samples
from autotrascale.domain.topology import Topology

CHAIN = Topology.chain("source", "map", "sink")


def batch(number: int, began: float, seconds: float, rows: int, arrivals: tuple[float, float]) -> BatchFact:
    """Three operators of 1, 2 and 1 instances; the map doubles its records and works a millisecond on each."""
    mean = sum(arrivals) / 2
    ms = round(began * 1000)
    base = 10 * number
    stages = tuple(
        StageFact(base + i, name, tasks, ms + 100 * (i + 1), ms + 100 * (i + 2))
        for i, (name, tasks) in enumerate([("source", 1), ("map", 2), ("sink", 1)])
    )
    tasks = (
        TaskFact(base, 0, 100, read=rows, sent=rows),
        TaskFact(base + 1, 0, rows // 2, read=rows // 2, sent=rows),
        TaskFact(base + 1, 1, rows - rows // 2, read=rows - rows // 2, sent=rows),
        TaskFact(base + 2, 0, 100, read=2 * rows, sent=0),
    )
    marks = {
        "source": MarkFact(rows, arrivals[0], mean, arrivals[1]),
        "map": MarkFact(2 * rows),
        "sink": MarkFact(2 * rows),
    }
    return BatchFact(number, "run", ms, seconds, rows, marks=marks, stages=stages, tasks=tasks)


STEADY = [batch(i, began=100.0 + i, seconds=1.0, rows=500, arrivals=(99.0 + i, 100.0 + i)) for i in range(6)]


def test_the_snapshot_of_a_steady_window() -> None:
    snapshot = metrics.take_snapshot("job", CHAIN, 8, {"source": 500.0}, STEADY)
    assert snapshot.throughput == pytest.approx(500.0)
    assert snapshot.latency_seconds.mean == pytest.approx(1.5)
    assert snapshot.latency_seconds.p50 == pytest.approx(1.5)
    assert snapshot.latency_seconds.p95 == pytest.approx(1.95)
    assert snapshot.latency_seconds.p99 == pytest.approx(1.99)
    assert snapshot.backlog_records == pytest.approx(500.0)
    assert snapshot.overhead_share == pytest.approx(0.7)
    work = snapshot.operators["map"].total
    assert work.records_in is not None
    assert work.useful_seconds is not None
    assert work.records_in / work.useful_seconds == pytest.approx(1000.0)


def test_throughput_does_not_hang_on_the_first_and_the_last_batch() -> None:
    """Steady jobs whose batches differ by a fifth: the estimate stays within a few per cent of the rate."""
    for seed in range(50):
        chance = random.Random(seed)
        at, covered, batches = 0.0, 1.0, []
        for number in range(12):
            seconds = 1.0 + chance.uniform(-0.2, 0.2)
            batches.append(batch(number, 100 + at, seconds, round(1000 * covered), (99.0 + at, 100.0 + at)))
            at, covered = at + seconds, seconds
        assert metrics.measure_throughput(batches) == pytest.approx(1000.0, rel=0.05)


def test_a_mark_that_is_missing_makes_the_count_unknown_and_not_zero() -> None:
    unmarked = [replace(b, marks={"source": b.marks["source"], "sink": b.marks["sink"]}) for b in STEADY]
    work = metrics.take_snapshot("job", CHAIN, 8, {"source": 500.0}, unmarked).operators["map"].total
    assert work.records_out is None
    assert work.records_in == pytest.approx(3000.0)


def test_without_arrival_times_latency_and_backlog_are_unknown() -> None:
    blind = [replace(b, marks={name: MarkFact(mark.count) for name, mark in b.marks.items()}) for b in STEADY]
    snapshot = metrics.take_snapshot("job", CHAIN, 8, {"source": 500.0}, blind)
    assert snapshot.latency_seconds.mean is None
    assert snapshot.backlog_records is None


def test_rows_that_spark_combines_before_a_shuffle_are_no_ones_rate() -> None:
    """The map's tasks wrote 10 combined rows, its mark counted 1000: tasks give only its distribution."""
    combined = [
        replace(b, tasks=tuple(structs.replace(task, sent=(task.sent or 0) // 100) for task in b.tasks)) for b in STEADY
    ]
    total = metrics.take_snapshot("job", CHAIN, 8, {"source": 500.0}, combined).operators["map"].total
    assert total.records_out == pytest.approx(6000.0)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5), st.integers(1, 1000)), min_size=1, max_size=5))
def test_quantiles_are_those_of_the_records(spans: list[tuple[float, float, int]]) -> None:
    batches = []
    for number, (low, width, rows) in enumerate(spans):
        commit = 1000.0 + number
        made = batch(number, commit - 1.0, 1.0, rows, (commit - low - width, commit - low))
        batches.append(made)
    latency = metrics.measure_latency(CHAIN, batches)
    drawn = np.concatenate([np.linspace(low, low + width, 2001).repeat(rows) for low, width, rows in spans])
    spread = max(low + width for low, width, _ in spans) - min(low for low, _, _ in spans)
    for q, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99")):
        found = latency.of(name)  # type: ignore[arg-type]
        assert found is not None
        slack = 0.002 + 0.01 * spread  # the clock, and the grid of what is drawn
        share = (drawn <= found + slack).mean(), (drawn < found - slack).mean()
        assert share[1] - 0.01 <= q <= share[0] + 0.01


def test_each_batch_covers_the_time_since_the_last_trigger() -> None:
    seen = make_samples(STEADY, 99_500.0)
    assert [sample.covered for sample in seen] == [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]
