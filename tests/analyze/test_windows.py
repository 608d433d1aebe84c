"""Batches of a run → windows with summed tasks, and a window → its snapshot."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.analyze.archive import windows
from autotrascale.analyze.archive.measure_log import measure_window_snapshot
from autotrascale.analyze.archive.snapshot_form import snapshot_as_dict
from autotrascale.analyze.archive.windows import OperatorsSeen, RunWindow, RunWindows
from autotrascale.analyze.facts import BatchFact, MarkFact, StageFact, TaskFact
from autotrascale.analyze.sums import sum_or_none
from autotrascale.analyze.task_slots import ExecutorStays
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot, Work
from autotrascale.domain.topology import Operator, Topology
from autotrascale.monitor.eventlog import events
from autotrascale.validation import validate

SUMMED = ("useful_ms", "deserialise_ms", "wait_ms", "gc_ms", "read", "sent", "written", "served_ms", "served_squares")
TOPOLOGY = Topology({"source": Operator(), "map": Operator(("source",), stateful=True)})
SOURCE_ONLY = {"source": MarkFact(100), "map": MarkFact(200)}


def task(stage: int, index: int, **counts: int | None) -> TaskFact:
    return TaskFact(stage, index, **{**dict.fromkeys(SUMMED, 0), **counts})


def batch(number: int, **changes: Any) -> BatchFact:
    """A second of 100 records, doubled by the map. Records arrived in the second before."""
    at = 1000 * number
    stages = (StageFact(20, "source", 1, at, at + 200), StageFact(21, "map", 2, at + 200, at + 400))
    marks = {"source": MarkFact(100, number - 1.0, number - 0.5, float(number)), "map": MarkFact(200)}
    whole = BatchFact(number, "r", at, 1.0, 100, 1.0, marks=marks, stages=stages, marked=True)
    return replace(whole, **changes)


TASKS = [
    task(20, 0, useful_ms=300, read=1000, sent=30),
    task(21, 0, useful_ms=900, read=30, written=150, deserialise_ms=20, wait_ms=10, gc_ms=5),
    task(21, 1, useful_ms=300, read=10, written=50),
]
BATCHES = [batch(number) for number in range(10, 20)]


def snapshot_of(
    batches: Sequence[BatchFact] = BATCHES, tasks: Sequence[TaskFact] = TASKS, slots: int = 8, p_max: int | None = None
) -> Snapshot:
    found = measure_window_snapshot(RunWindow("r", 0, list(batches), list(tasks)), "shop", TOPOLOGY, slots, p_max)
    assert found is not None
    return found


def test_marks_say_how_much_and_tasks_how_it_spread() -> None:
    snapshot = snapshot_of()
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


def test_the_order_of_batches_and_tasks_does_not_matter() -> None:
    assert snapshot_of(BATCHES[::-1], TASKS[::-1]) == snapshot_of()


def test_without_arrival_times_the_rate_is_that_of_the_progress() -> None:
    snapshot = snapshot_of([batch(number, marks=SOURCE_ONLY, offered_seconds=0.5) for number in (10, 11)])
    assert snapshot.source_rates == {"source": 200.0}
    assert snapshot.latency_seconds.mean is None
    assert snapshot.backlog_records is None


def test_an_empty_batch_counts_with_the_time_since_the_trigger_before() -> None:
    empty = batch(11, marks={"source": MarkFact(0), "map": MarkFact(0)}, input_records=0, offered_seconds=None)
    assert snapshot_of([batch(10, marks=SOURCE_ONLY), empty]).source_rates == {"source": 50.0}


def test_the_first_batch_of_a_run_has_no_rate_so_its_records_count() -> None:
    assert snapshot_of([batch(10, marks=SOURCE_ONLY, offered_seconds=None)]).source_rates == {"source": 100.0}


def test_a_mark_that_is_missing_once_makes_the_count_unknown() -> None:
    partly = [replace(each, marks={"source": each.marks["source"]}) if each.batch == 13 else each for each in BATCHES]
    total = snapshot_of(partly).operators["map"].total
    assert total.records_out is None
    assert total.records_in == pytest.approx(1000.0)


def test_without_marks_the_tasks_own_counts_stand() -> None:
    snapshot = snapshot_of([replace(each, marks={}, marked=False) for each in BATCHES])
    source, map_ = snapshot.operators["source"].total, snapshot.operators["map"].total
    assert (source.records_in, source.records_out) == (1000.0, 30.0)
    assert (map_.records_in, map_.records_out) == (40.0, 200.0)
    assert snapshot.source_rates == {"source": 100.0}
    assert snapshot.throughput == pytest.approx(100.0)


QUERY = batch(10, marks={}, marked=False, input_records=None, offered_seconds=None)


def test_the_offered_rate_of_a_query_without_a_stream_is_its_read_records() -> None:
    snapshot = snapshot_of([QUERY], slots=1)
    assert snapshot.source_rates == {"source": 1000.0}
    assert snapshot.throughput == 1000.0
    assert snapshot.p_max == 2


def test_an_operator_without_tasks_has_no_numbers() -> None:
    idle = snapshot_of(tasks=()).operators["map"]
    assert idle.instances == ()
    assert idle.total.useful_seconds is None


def test_a_bound_below_the_parallelism_is_refused_with_the_job() -> None:
    with pytest.raises(InputError, match=r"job shop, run r: operators\.map\.parallelism: .*p_max = 1"):
        snapshot_of(p_max=1)


def test_a_snapshot_survives_its_own_json() -> None:
    assert validate(snapshot_as_dict(snapshot_of()), Snapshot, place="here") == snapshot_of()


def test_an_unknown_number_of_one_task_makes_the_operators_number_unknown() -> None:
    map_ = snapshot_of(tasks=[*TASKS[:2], task(21, 1, useful_ms=None, gc_ms=None, read=None, sent=None)]).operators[
        "map"
    ]
    assert map_.instances[0].useful_seconds == 0.9
    assert map_.total == Work(None, None, None, 0.01, 0.02, None)


def test_without_counted_records_there_is_no_snapshot() -> None:
    window = RunWindow("r", 0, [QUERY], [task(20, 0, useful_ms=300, read=None)])
    assert measure_window_snapshot(window, "shop", TOPOLOGY, 1, None) is None


@pytest.mark.parametrize(
    ("seconds", "numbers"),
    [(None, [0, 0, 0, 0, 0]), (2.0, [0, 0, 1, 1, 1]), (1.0, [0, 1, 2, 3, 3]), (60.0, [0, 0, 0, 0, 0])],
)
def test_windows_end_with_the_run(seconds: float | None, numbers: list[int]) -> None:
    """Five batches of 0.9 s in 4.3 s: a rest of less than half a window joins the window before."""
    run, found = RunWindows("r", seconds), list[RunWindow]()
    for at in (0, 1000, 2000, 3000, 3400):
        found += run.add(replace(batch(0), started_ms=10_000 + at, seconds=0.9))
    found += run.finish()
    assert [window.number for window in found for _ in window.batches] == numbers


@given(seed=st.integers(0, 2**32), seconds=st.sampled_from([None, 1.5, 4.0]), most=st.sampled_from([3, 10**6]))
def test_each_task_is_summed_once_in_its_window(seed: int, seconds: float | None, most: int) -> None:
    """An instance is a task index of a role: the stages of one operator with the same place in it."""
    chance = random.Random(seed)
    roles = [("source", True, True), ("map", True, False), ("map", False, True)]
    run, batches = RunWindows("r", seconds), list[BatchFact]()
    for number in range(chance.randint(1, 12)):
        stages, tasks = [], []
        for at, (operator, entry, exit_) in enumerate(roles):
            if chance.random() < 0.8:
                stages.append(StageFact(3 * number + at, operator, 2, 0, 1, entry=entry, exit=exit_))
                tasks += [random_task(chance, 3 * number + at) for _ in range(chance.randint(0, 4))]
        batches.append(batch(number, stages=tuple(stages), tasks=tuple(tasks)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(windows, "_MOST_TASKS", most)
        found = [window for each in batches for window in run.add(each)] + list(run.finish())
    assert [each.batch for window in found for each in window.batches] == [each.batch for each in batches]
    for window in found:
        single = [task for each in window.batches for task in batches[each.batch].tasks]
        expected = sums_of(single, window.batches)
        assert sums_of(window.tasks, window.batches) == expected
        assert len(window.tasks) == len(expected)


def random_task(chance: random.Random, stage: int) -> TaskFact:
    unknown = chance.choice(SUMMED) if chance.random() < 0.1 else ""
    counts = {name: None if name == unknown else chance.randrange(1 << 40) for name in SUMMED}
    return TaskFact(stage, chance.randrange(3), **counts)


def sums_of(tasks: Sequence[TaskFact], batches: Sequence[BatchFact]) -> dict[object, list[int | None]]:
    role_of = {stage.stage: (stage.operator, stage.entry, stage.exit) for each in batches for stage in each.stages}
    found: dict[object, list[TaskFact]] = defaultdict(list)
    for each in tasks:
        found[role_of[each.stage], each.index].append(each)
    return {key: [sum_or_none(getattr(each, name) for each in own) for name in SUMMED] for key, own in found.items()}


def test_a_run_has_the_operators_of_all_its_batches() -> None:
    seen = OperatorsSeen()
    last = StageFact(3, "sink", 1, 0, 1, upstream=("map",), rank=2)
    first = StageFact(1, "source", 1, 0, 1)
    seen.add(batch(0, stages=(first, last)))
    seen.add(batch(1, stages=(first, StageFact(2, "map", 1, 0, 1, upstream=("source",), stateful=True, rank=1))))
    seen.add(batch(2, stages=(StageFact(3, "sink", 1, 0, 1, upstream=("map", "source"), rank=2),)))
    assert seen.topology() == Topology(
        {"source": Operator(), "map": Operator(("source",), True), "sink": Operator(("map", "source"))}
    )


@pytest.mark.parametrize(("task_cpus", "slots"), [(1, 9), (2, 4)])
def test_the_most_slots_are_counted_executor_by_executor(task_cpus: int, slots: int) -> None:
    """No task runs on cores of two executors. Of executors with 3 cores, one leaves before the last one comes."""
    stays = ExecutorStays()
    assert stays.most_slots() is None
    stays.take(events.Environment({"spark.task.cpus": str(task_cpus)}))
    for at, cores in ((1, 3), (2, 3), (5, 6)):
        stays.take(events.ExecutorChange(at, str(at), events.ExecutorInfo(cores)))
    stays.take(events.ExecutorChange(4, "1"))
    assert stays.most_slots() == slots
