from __future__ import annotations

from typing import Any

import pytest

from autotrascale.analyze.archive import measuring
from autotrascale.analyze.archive.snapshots import as_dict
from autotrascale.analyze.archive.staging import SUMMABLE
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot, Work
from autotrascale.validation import validate


def snapshot_of(row: dict[str, Any], p_max: int | None = None) -> Snapshot:
    snapshot = measuring.snapshot_of(row, p_max)
    assert snapshot is not None
    return snapshot


def task(stage: int, index: int, **counts: int | None) -> dict[str, Any]:
    return {"stage": stage, "index": index, **dict.fromkeys(SUMMABLE, 0), **counts}


def stage(number: int, operator: str, tasks: int, at: int) -> dict[str, Any]:
    times = {"submitted_ms": at, "completed_ms": at + 200}
    return {"stage": number, "operator": operator, "entry": True, "exit": True, "tasks": tasks, **times}


def mark(name: str, n: int, first: float | None = None, last: float | None = None) -> dict[str, Any]:
    mean = None if first is None or last is None else (first + last) / 2
    return {"key": name, "value": {"n": n, "first": first, "mean": mean, "last": last}}


def batch(number: int, **changes: Any) -> dict[str, Any]:
    """A second of 100 records, doubled by the map; arrivals are those of the second before."""
    at = 1000 * number
    marks = [mark("source", 100, number - 1.0, float(number)), mark("map", 200)]
    stages = [stage(2 * number, "source", 1, at), stage(2 * number + 1, "map", 2, at + 200)]
    told = {"batch": number, "started_ms": at, "seconds": 1.0, "input_records": 100, "offered_seconds": 1.0}
    told["behind"] = None
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
    window = {"run": "r", "window": 0, "log": 0, "job": "shop", "marked": True, "slots": 8, "executors": None}
    window["task_cpus"] = None
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
    batches[3] = batch(13, marks=[mark("source", 100, 12.0, 13.0)])
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
    snapshot = snapshot_of(row(batches=batches, marked=False, slots=None))
    assert snapshot.source_rates == {"source": 1000.0}
    assert snapshot.throughput == 1000.0
    assert snapshot.p_max == 2


def test_an_operator_without_tasks_has_no_numbers() -> None:
    idle = snapshot_of(row(tasks=None)).operators["map"]
    assert idle.instances == ()
    assert idle.total.useful_seconds is None


def test_a_bound_below_what_ran_is_refused_with_the_job() -> None:
    with pytest.raises(InputError, match=r"job shop, run r: operators\.map\.parallelism: is above p_max = 1"):
        snapshot_of(row(), p_max=1)


def test_a_snapshot_survives_its_own_json() -> None:
    snapshot = snapshot_of(row())
    assert validate(as_dict(snapshot), Snapshot, place="here") == snapshot


def test_what_one_task_does_not_say_is_not_known_of_its_operator() -> None:
    tasks = [*TASKS[:2], task(21, 1, useful_ms=None, gc_ms=None, read=None, sent=None, written=50)]
    map_ = snapshot_of(row(tasks=tasks)).operators["map"]
    assert map_.instances[0].useful_seconds == 0.9
    assert map_.total == Work(None, None, None, 0.01, 0.02, None)


def test_of_records_that_nobody_counted_there_is_no_rate_and_no_snapshot() -> None:
    batches = [batch(10, marks=None, input_records=None, offered_seconds=None)]
    tasks = [task(20, 0, useful_ms=300, read=None)]
    assert measuring.snapshot_of(row(batches=batches, tasks=tasks, marked=False)) is None
