"""The log of three small batches of the word count, k = (2, 3, 4, 2), recorded from Spark 4.3 and shorn of what nobody
reads, as a live job is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from gathering import batches, facts
from making import Batch, Log, Stage, Task

from autotrascale.analyze import metrics
from autotrascale.analyze.facts import BatchFact, BatchStarted
from autotrascale.analyze.joiner import Joiner
from autotrascale.analyze.live.query_run import QueryWatch
from autotrascale.execute.spark.jobs.wordcount import WordCount
from autotrascale.monitor.eventlog.decoding import decode_line
from autotrascale.monitor.eventlog.follower import Follower

LOG = Path(__file__).parent / "data" / "wordcount-events.jsonl"
LINES = LOG.read_bytes().splitlines(keepends=True)


@pytest.fixture
def recorded() -> list[BatchFact]:
    return batches(LINES)


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
    told = [fact for line in LINES if (event := decode_line(line)) for fact in joiner.take(event)]
    assert [type(fact).__name__ for fact in told] == ["BatchStarted", "BatchFact"] * 3 + ["QueryEnded"]
    of_batches = {name: value for name, value in vars(joiner).items() if name != "_stays"}  # executors stay on
    assert not any(of_batches.values())


def test_counts_are_those_of_the_marks_and_instances_sum_to_them(recorded: list[BatchFact]) -> None:
    snapshot = metrics.take_snapshot("wordcount", WordCount().topology, 16, {"source": 1000.0}, recorded)
    records = sum(batch.input_records for batch in recorded)
    flatmap, count = snapshot.operators["flatmap"], snapshot.operators["count"]
    assert snapshot.parallelism == {"source": 2, "flatmap": 3, "count": 4, "sink": 2}
    assert flatmap.total.records_in == pytest.approx(records)
    assert flatmap.total.records_out == pytest.approx(3 * records)
    assert count.total.records_in == pytest.approx(3 * records)
    assert len(count.instances) == 4
    assert snapshot.execution == "micro-batch"


def two_stages(*tasks: Task, **changes: int) -> list[BatchFact]:
    first = Stage("source", (Task(0, 100, taken=10, sent=10),), 1000, 1100)
    last = Stage("sink", tasks, 1100, 1300, (0,), **changes)
    log = Log()
    log.batch(Batch("r", 0, 900, 1.0, (first, last), {"source": (10,), "sink": (10,)}, (10,)))
    return batches(log.lines)


def test_tasks_that_failed_are_not_counted_and_a_stage_that_is_tried_again_is_one() -> None:
    (batch,) = two_stages(
        Task(0, 50, failed=True), Task(0, 60, shuffled=4), Task(1, 70, shuffled=6), width=2, attempts=2
    )
    assert [(task.index, task.useful_ms, task.read) for task in batch.tasks[1:]] == [(0, 60, 4), (1, 70, 6)]
    assert [(stage.operator, stage.tasks) for stage in batch.stages] == [("source", 1), ("sink", 2)]
    assert (batch.stages[1].submitted_ms, batch.stages[1].completed_ms) == (1100, 1310)


def test_the_cost_of_a_window_and_what_of_it_is_not_known() -> None:
    known = Task(0, 60, 10, 2, 5, gc=9, cpu=40_000_000, shuffled=10)
    facts_ = metrics.measure_window(two_stages(known))
    assert (facts_.slot_seconds, facts_.core_seconds) == (0.172, 0.044)
    assert facts_.gc_share == pytest.approx(9 / 172)
    without = metrics.measure_window(two_stages(Task(0, 60, drop=("Executor CPU Time", "JVM GC Time"))))
    assert (without.slot_seconds, without.core_seconds, without.gc_share) == (0.16, None, None)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "eventlog_v2_app").mkdir()
    return tmp_path / "eventlog_v2_app" / "events_1_app"


def watch_of(log: Path) -> QueryWatch:
    watch = QueryWatch(Follower(log.parents[1], "app", consume=True))
    watch.follow(next(fact.run for fact in facts(LINES) if isinstance(fact, BatchStarted)))
    return watch


def test_a_run_is_watched_while_its_log_grows(log: Path) -> None:
    watch = watch_of(log)
    watch.poll()
    half = len(LINES) // 2
    with log.open("wb") as file:
        for line in LINES[:half]:
            file.write(line[:7])
            file.flush()
            watch.poll()
            file.write(line[7:])
    watch.poll()
    log.with_name("events_2_app").write_bytes(b"".join(LINES[half:]))
    watch.poll()
    assert [batch.batch for batch in watch.batches] == [3, 4, 5]
    assert watch.ended is not None
    assert watch.damaged == 0
    assert not log.exists()


def test_damage_is_counted_and_costs_no_more_than_itself(log: Path) -> None:
    scope = LINES[2].replace(b"spark_plan_", b"spark_plan_x", 1)
    log.write_bytes(b"".join([b"hello\n", *LINES[:2], scope, *LINES[2:5], LINES[5][:99] + b"\n", *LINES[5:]]))
    watch = watch_of(log)
    watch.poll()
    assert [batch.batch for batch in watch.batches] == [3, 4, 5]
    assert watch.damaged == 3
