from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.analyze.archive.measuring import skew, snapshot_of, true_rate
from autotrascale.analyze.archive.snapshots import as_dict
from autotrascale.analyze.facts import TaskFact
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import OperatorMetrics, Snapshot, Work
from autotrascale.reading import validate


def task(stage: int, index: int, **counts: int) -> dict[str, Any]:
    zero = dict.fromkeys(("useful_ms", "deserialise_ms", "wait_ms", "gc_ms", "read", "sent", "written"), 0)
    return {"stage": stage, "index": index, **zero, **counts}


def stage(number: int, operator: str, tasks: int, at: int) -> dict[str, Any]:
    times = {"submitted_ms": at, "completed_ms": at + 200}
    return {"stage": number, "operator": operator, "entry": True, "exit": True, "tasks": tasks, **times}


def mark(name: str, n: int | None, first: float | None = None, last: float | None = None) -> dict[str, Any]:
    mean = None if first is None or last is None else (first + last) / 2
    return {"key": name, "value": {"n": n, "first": first, "mean": mean, "last": last}}


def batch(number: int, **changes: Any) -> dict[str, Any]:
    """A second of 100 records, doubled by the map; arrivals are those of the second before."""
    at = 1000 * number
    marks = [mark("source", 100, number - 1.0, float(number)), mark("map", 200)]
    stages = [stage(2 * number, "source", 1, at), stage(2 * number + 1, "map", 2, at + 200)]
    told = {"batch": number, "started_ms": at, "seconds": 1.0, "input_records": 100, "offered_seconds": 1.0}
    return {**told, "marks": marks, "stages": stages, **changes}


TASKS = [
    task(20, 0, useful_ms=300, read=1000, sent=30),
    task(21, 0, useful_ms=900, read=30, written=150, deserialise_ms=20, wait_ms=10, gc_ms=5),
    task(21, 1, useful_ms=300, read=10, written=50),
]
OPERATORS = [
    {"name": "source", "rank": 0, "stateful": False, "upstream": []},
    {"name": "map", "rank": 1, "stateful": True, "upstream": ["source"]},
]


def row(**changes: Any) -> dict[str, Any]:
    batches = [batch(number) for number in range(10, 20)]
    window = {"run": "r", "window": 0, "log": 0, "job": "shop", "marked": True, "cores": 8}
    return {**window, "batches": batches, "tasks": TASKS, "operators": OPERATORS, **changes}


def test_marks_say_how_much_and_tasks_how_it_spread() -> None:
    snapshot = snapshot_of(row())
    source, map_ = snapshot.operators["source"], snapshot.operators["map"]
    assert snapshot.parallelism == {"source": 1, "map": 2}
    assert [work.records_in for work in map_.instances] == [750.0, 250.0]
    assert [work.records_out for work in map_.instances] == [1500.0, 500.0]
    assert source.total.records_in == source.total.records_out == 1000.0
    assert map_.instances[0] == Work(750.0, 1500.0, 0.9, 0.01, 0.02, 0.005)
    assert map_.stateful
    assert snapshot.p_max == 8
    assert snapshot.throughput == pytest.approx(100.0)
    assert snapshot.latency_seconds.mean == pytest.approx(1.5)
    assert snapshot.source_rates == {"source": pytest.approx(100.0)}
    assert snapshot.overhead_share == pytest.approx(0.6)


def test_the_order_in_which_rows_arrive_does_not_matter() -> None:
    turned = row(batches=row()["batches"][::-1], tasks=TASKS[::-1])
    assert snapshot_of(turned) == snapshot_of(row())


def test_without_arrival_times_the_rate_is_that_of_the_progress() -> None:
    blind = [mark("source", 100), mark("map", 200)]
    batches = [batch(number, marks=blind, offered_seconds=0.5) for number in (10, 11)]
    snapshot = snapshot_of(row(batches=batches))
    assert snapshot.source_rates == {"source": 200.0}
    assert snapshot.latency_seconds.mean is None
    assert snapshot.backlog_records is None


def test_an_empty_batch_counts_with_the_time_since_the_trigger_before() -> None:
    quiet = [mark("source", 0), mark("map", 0)]
    busy = [mark("source", 100), mark("map", 200)]
    batches = [batch(10, marks=busy), batch(11, marks=quiet, input_records=0, offered_seconds=None)]
    assert snapshot_of(row(batches=batches)).source_rates == {"source": 50.0}


def test_the_first_batch_of_a_run_has_no_rate_and_its_records_are_all_that_is_known() -> None:
    batches = [batch(10, marks=[mark("source", 100), mark("map", 200)], offered_seconds=None)]
    assert snapshot_of(row(batches=batches)).source_rates == {"source": 100.0}


def test_a_mark_that_is_missing_once_makes_the_count_unknown() -> None:
    batches = row()["batches"]
    batches[3] = batch(13, marks=[mark("source", 100, 12.0, 13.0), mark("map", None)])
    total = snapshot_of(row(batches=batches)).operators["map"].total
    assert total.records_out is None
    assert total.records_in == pytest.approx(1000.0)


def test_without_marks_the_tasks_own_counts_stand() -> None:
    batches = [batch(number, marks=None) for number in range(10, 20)]
    snapshot = snapshot_of(row(batches=batches, marked=False))
    source, map_ = snapshot.operators["source"].total, snapshot.operators["map"].total
    assert (source.records_in, source.records_out) == (1000.0, 30.0)
    assert (map_.records_in, map_.records_out) == (40.0, 200.0)
    assert snapshot.source_rates == {"source": 100.0}
    assert snapshot.throughput == pytest.approx(100.0)


def test_a_query_that_is_no_stream_offers_what_it_read() -> None:
    batches = [batch(10, marks=None, input_records=None, offered_seconds=None)]
    snapshot = snapshot_of(row(batches=batches, marked=False, cores=None))
    assert snapshot.source_rates == {"source": 1000.0}
    assert snapshot.throughput == 1000.0
    assert snapshot.p_max == 2


def test_an_operator_without_tasks_has_no_numbers() -> None:
    idle = snapshot_of(row(tasks=None)).operators["map"]
    assert idle.instances == ()
    assert true_rate(idle) is None
    assert skew(idle) is None


def test_a_bound_below_what_ran_is_refused_with_the_job() -> None:
    with pytest.raises(InputError, match=r"job shop, run r: operators\.map\.parallelism: is above p_max = 1"):
        snapshot_of(row(), p_max=1)


def test_true_rates_add_up_and_idle_instances_count_as_idle() -> None:
    operator = OperatorMetrics(parallelism=4, instances=(Work(10, 10, 1.0), Work(30, 30, 1.0), Work(0, 0, 0.0)))
    assert true_rate(operator) == 40.0
    assert skew(operator) == 2.0
    assert true_rate(OperatorMetrics(parallelism=1, instances=(Work(None, 1.0, 1.0),))) is None


def test_a_snapshot_survives_its_own_json() -> None:
    snapshot = snapshot_of(row())
    assert validate(as_dict(snapshot), Snapshot, place="here") == snapshot


@given(st.lists(st.tuples(*[st.integers(0, 10_000)] * 4), min_size=1, max_size=20))
def test_summing_tasks_first_changes_no_useful_time(times: list[tuple[int, int, int, int]]) -> None:
    """What Spark sums, task by task, is what `facts` says of each."""
    facts = [TaskFact(20, 0, run / 1e3, de / 1e3, ser / 1e3, wait / 1e3) for run, de, ser, wait in times]
    useful = sum(max(0, run + de + ser - wait) for run, de, ser, wait in times)
    summed = task(20, 0, useful_ms=useful, deserialise_ms=sum(t[1] for t in times), wait_ms=sum(t[3] for t in times))
    total = snapshot_of(row(tasks=[summed])).operators["source"].total
    assert total.useful_seconds == pytest.approx(sum(fact.useful_seconds for fact in facts))
    assert total.waiting_seconds == pytest.approx(sum(fact.wait_seconds for fact in facts))
