"""The log of three small batches of the word count, k = (2, 3, 4, 2), recorded from Spark 4.3 and shorn of what nobody
reads; and batches made by hand."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.analyze import metrics
from autotrascale.analyze.facts import BatchFact, BatchStarted, Fact, Mark, StageFact, TaskFact
from autotrascale.analyze.live.joining import Follower, Joiner
from autotrascale.analyze.live.watch import Watch, samples
from autotrascale.analyze.plan_tree import Plan
from autotrascale.domain.errors import EngineError
from autotrascale.domain.topology import Topology
from autotrascale.jobs.wordcount import WordCount

LOG = Path(__file__).parent / "data" / "wordcount-events.jsonl"
CHAIN = Topology.chain("source", "map", "sink")


def facts(lines: Iterable[str]) -> list[Fact]:
    joiner = Joiner()
    return [fact for line in lines for fact in joiner.feed(line)]


@pytest.fixture
def recorded() -> list[BatchFact]:
    return [fact for fact in facts(LOG.read_text().splitlines(keepends=True)) if isinstance(fact, BatchFact)]


def test_a_log_becomes_batches_with_their_stages_and_tasks(recorded: list[BatchFact]) -> None:
    assert [batch.batch for batch in recorded] == [3, 4, 5]
    for batch in recorded:
        assert [(stage.operator, stage.tasks) for stage in batch.stages] == [
            ("source", 2),
            ("flatmap", 3),
            ("count", 4),
            ("sink", 2),
        ]
        assert len(batch.tasks) == 11
        assert batch.marks["flatmap"].count == 3 * batch.marks["source"].count


def test_a_batch_is_told_of_when_it_starts_and_the_joiner_forgets_it_when_it_is_done() -> None:
    joiner = Joiner()
    told = [fact for line in LOG.read_text().splitlines() for fact in joiner.feed(line)]
    assert [type(fact).__name__ for fact in told] == ["BatchStarted", "BatchFact"] * 3 + ["QueryEnded"]
    assert not any(vars(joiner).values())


def test_counts_are_those_of_the_marks_and_instances_sum_to_them(recorded: list[BatchFact]) -> None:
    snapshot = metrics.snapshot("wordcount", WordCount().topology, 16, {"source": 1000.0}, recorded)
    records = sum(batch.input_records for batch in recorded)
    flatmap, count = snapshot.operators["flatmap"], snapshot.operators["count"]
    assert snapshot.parallelism == {"source": 2, "flatmap": 3, "count": 4, "sink": 2}
    assert flatmap.total.records_in == pytest.approx(records)
    assert flatmap.total.records_out == pytest.approx(3 * records)
    assert count.total.records_in == pytest.approx(3 * records)
    assert len(count.instances) == 4
    assert snapshot.execution == "micro-batch"


def test_useful_time_leaves_waiting_out() -> None:
    task = TaskFact(0, 0, run_seconds=2.0, deserialise_seconds=0.5, serialise_seconds=0.25, wait_seconds=1.0)
    assert task.useful_seconds == 1.75
    assert task.slot_seconds == 2.75
    assert replace(task, wait_seconds=9.0).useful_seconds == 0.0


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
        TaskFact(base, 0, 0.1, records_in=rows, records_out=rows),
        TaskFact(base + 1, 0, rows / 2 / 1000, records_in=rows // 2, records_out=rows),
        TaskFact(base + 1, 1, rows / 2 / 1000, records_in=rows - rows // 2, records_out=rows),
        TaskFact(base + 2, 0, 0.1, records_in=2 * rows),
    )
    marks = {"source": Mark(rows, arrivals[0], mean, arrivals[1]), "map": Mark(2 * rows), "sink": Mark(2 * rows)}
    return BatchFact(number, "run", ms, seconds, rows, marks=marks, stages=stages, tasks=tasks)


STEADY = [batch(i, began=100.0 + i, seconds=1.0, rows=500, arrivals=(99.0 + i, 100.0 + i)) for i in range(6)]


def test_a_steady_window_says_what_it_was_made_of() -> None:
    snapshot = metrics.snapshot("job", CHAIN, 8, {"source": 500.0}, STEADY)
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
        assert metrics.throughput(batches) == pytest.approx(1000.0, rel=0.05)


def test_a_mark_that_is_missing_makes_the_count_unknown_and_not_zero() -> None:
    unmarked = [replace(b, marks={"source": b.marks["source"], "sink": b.marks["sink"]}) for b in STEADY]
    work = metrics.snapshot("job", CHAIN, 8, {"source": 500.0}, unmarked).operators["map"].total
    assert work.records_out is None
    assert work.records_in == pytest.approx(3000.0)


def test_without_arrival_times_latency_and_backlog_are_unknown() -> None:
    blind = [replace(b, marks={name: Mark(mark.count) for name, mark in b.marks.items()}) for b in STEADY]
    snapshot = metrics.snapshot("job", CHAIN, 8, {"source": 500.0}, blind)
    assert snapshot.latency_seconds.mean is None
    assert snapshot.backlog_records is None


def test_rows_that_spark_combines_before_a_shuffle_are_no_ones_rate() -> None:
    """The map's tasks wrote 10 combined rows, its mark counted 1000: the mark is right, the tasks say who did it."""
    combined = [
        replace(b, tasks=tuple(replace(task, records_out=task.records_out // 100) for task in b.tasks)) for b in STEADY
    ]
    total = metrics.snapshot("job", CHAIN, 8, {"source": 500.0}, combined).operators["map"].total
    assert total.records_out == pytest.approx(6000.0)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5), st.integers(1, 1000)), min_size=1, max_size=5))
def test_quantiles_are_those_of_the_records(spans: list[tuple[float, float, int]]) -> None:
    batches = []
    for number, (low, width, rows) in enumerate(spans):
        commit = 1000.0 + number
        made = batch(number, commit - 1.0, 1.0, rows, (commit - low - width, commit - low))
        batches.append(made)
    latency = metrics.latency(CHAIN, batches)
    drawn = np.concatenate([np.linspace(low, low + width, 2001).repeat(rows) for low, width, rows in spans])
    spread = max(low + width for low, width, _ in spans) - min(low for low, _, _ in spans)
    for q, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99")):
        found = latency.of(name)  # type: ignore[arg-type]
        assert found is not None
        slack = 0.002 + 0.01 * spread  # the clock, and the grid of what is drawn
        share = (drawn <= found + slack).mean(), (drawn < found - slack).mean()
        assert share[1] - 0.01 <= q <= share[0] + 0.01


def test_each_batch_covers_what_arrived_since_the_trigger_before() -> None:
    seen = samples(STEADY, 99_500.0)
    assert [sample.covered for sample in seen] == [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]


def node(name: str, *children: dict[str, Any], text: str = "") -> dict[str, Any]:
    return {"nodeName": name, "simpleString": text or name, "children": list(children)}


def mark(name: str, *children: dict[str, Any]) -> dict[str, Any]:
    return node("CollectMetrics", *children, text=f"CollectMetrics op:{name}, [count(1) AS n#1L]")


def exchange(number: int, *children: dict[str, Any]) -> dict[str, Any]:
    return node("Exchange", *children, text=f"Exchange hashpartitioning(x#1, 4), REPARTITION, [plan_id={number}]")


def stage(writes: int | None, *reads: int) -> dict[str, Any]:
    rdds = [{"Name": "ShuffledRowRDD", "Scope": f'{{"id":"spark_plan_{i}","name":"Exchange"}}'} for i in reads]
    if writes is not None:
        rdds.append({"Name": "MapPartitionsRDD", "Scope": f'{{"id":"spark_plan_{writes}","name":"Exchange"}}'})
    return {"RDD Info": rdds}


def test_a_shuffle_inside_an_operator_leaves_it_one_operator() -> None:
    plan = Plan(node("Write", mark("count", exchange(2, node("Agg", exchange(1, mark("source", node("Scan"))))))))
    first, inner, last = plan.role(stage(1)), plan.role(stage(2, 1)), plan.role(stage(None, 2))
    assert first is not None
    assert inner is not None
    assert last is not None
    assert (first.operator, inner.operator, last.operator) == ("source", "count", "count")
    assert (inner.entry, inner.exit) == (True, False)
    assert (last.entry, last.exit) == (False, True)


def test_what_comes_after_the_last_mark_belongs_to_the_sink() -> None:
    plan = Plan(node("Write", exchange(2, mark("sink", exchange(1, mark("source", node("Scan")))))))
    role = plan.role(stage(None, 2))
    assert role is not None
    assert role.operator == "sink"


def test_a_join_has_two_ways_in() -> None:
    left, right = exchange(1, mark("bids", node("Scan"))), exchange(2, mark("asks", node("Scan")))
    plan = Plan(node("Write", mark("join", node("Join", left, right))))
    roles = [plan.role(stage(1)), plan.role(stage(2)), plan.role(stage(None, 2, 1))]
    assert [role.operator for role in roles if role] == ["bids", "asks", "join"]


def test_the_stage_of_a_broadcast_belongs_to_nobody() -> None:
    plan = Plan(node("Write", mark("join", node("Join", exchange(1, mark("source", node("Scan")))))))
    assert plan.role(stage(None)) is None


def test_two_operators_in_one_stage_are_refused_with_a_remedy() -> None:
    with pytest.raises(EngineError, match=r"clean, count run in one stage.*by="):
        Plan(node("Write", mark("count", mark("clean", exchange(1, mark("source", node("Scan")))))))


def test_the_log_is_followed_while_it_grows_and_from_file_to_file(tmp_path: Path) -> None:
    parts = tmp_path / "eventlog_v2_app"
    parts.mkdir()
    lines = LOG.read_bytes().splitlines(keepends=True)
    watch = Watch(Follower(tmp_path, "app", consume=True))
    watch.follow(next(fact.run for fact in facts(LOG.read_text().splitlines()) if isinstance(fact, BatchStarted)))
    watch.poll()
    half = len(lines) // 2
    with (parts / "events_1_app").open("wb") as file:
        for line in lines[:half]:
            file.write(line[:7])
            file.flush()
            watch.poll()
            file.write(line[7:])
    watch.poll()
    (parts / "events_2_app").write_bytes(b"".join(lines[half:]))
    watch.poll()
    assert [batch.batch for batch in watch.batches] == [3, 4, 5]
    assert watch.ended is not None
    assert not (parts / "events_1_app").exists()
