"""The log of a running job: three small batches of the word count, k = (2, 3, 4, 2), recorded from Spark 4.3."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_reading import batches, facts
from making import Batch, Log, Stage, Task

from autotrascale.analyze import metrics
from autotrascale.analyze.facts import BatchFact, BatchStarted, QueryRunEnded
from autotrascale.analyze.joiner import Joiner
from autotrascale.analyze.live.query_run import QueryWatch
from autotrascale.execute.spark.jobs.wordcount import WordCount
from autotrascale.monitor.eventlog.decoding import decode_line
from autotrascale.monitor.eventlog.events import QueryProgress
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


def open_parts(joiner: Joiner) -> dict[str, object]:
    """Return the joiner's data of batches that are not over."""
    held = ("_plans", "_counters", "_batches", "_owners", "_characters", "_tasks")
    return {name: value for name, value in vars(joiner).items() if name in held and value}


def test_a_batch_is_reported_when_it_starts_and_forgotten_when_it_is_over() -> None:
    joiner = Joiner()
    kinds = [type(fact) for fact in facts(LINES, joiner)]
    assert kinds == [BatchStarted, BatchFact] * 3 + [QueryRunEnded]
    assert open_parts(joiner) == {}


def query(log: Log, execution: int | None, job: int) -> None:
    """A job of a query that is no stream: one stage of one task."""
    properties = {} if execution is None else {"Properties": {"spark.sql.execution.id": str(execution)}}
    stage = {"Stage ID": job, "Stage Name": "collect at app.py:7", "RDD Info": [], "Parent IDs": []}
    log._add("SparkListenerJobStart", {"Job ID": job, "Submission Time": 1, "Stage Infos": [stage], **properties})
    log._task(job, Task(0, 10 + job, taken=5))
    done = {"Stage ID": job, "Number of Tasks": 1, "Submission Time": 100 * job, "Completion Time": 100 * job + 50}
    log._add("SparkListenerStageCompleted", {"Stage Info": done})


def ended(log: Log, **numbers: int) -> None:
    name = "SparkListenerJobEnd" if "Job ID" in numbers else f"{SQL}SparkListenerSQLExecutionEnd"
    log._add(name, numbers)


SQL = "org.apache.spark.sql.execution.ui."


def test_queries_that_are_no_streams_are_reported_when_they_end_or_the_log_does() -> None:
    log, joiner = Log(), Joiner(every_stage=True, batch_queries=True)
    query(log, 3, 1)
    query(log, 3, 2)
    query(log, None, 5)
    ended(log, **{"Job ID": 5})
    ended(log, executionId=3)
    query(log, 9, 7)
    found = batches(log.lines, joiner)
    assert [(each.batch, each.started_ms, each.seconds, len(each.tasks)) for each in found] == [
        (-6, 500, 0.05, 1),
        (3, 100, 0.15, 2),
    ]
    assert {each.input_records for each in found} == {None}
    assert [fact.batch for fact in joiner.finish() if isinstance(fact, BatchFact)] == [9]
    assert open_parts(joiner) == {}


def test_in_a_log_with_streams_other_queries_do_not_count() -> None:
    log, joiner = Log(), Joiner(every_stage=True, batch_queries=True)
    query(log, 300, 100)
    log.batch(Batch("r", 0, 900, 1.0, (Stage("source", (Task(0, 100),), 1000, 1100),), {"source": (10,)}, (10,)))
    query(log, 301, 101)
    assert [each.run for each in batches(log.lines, joiner)] == ["r"]
    assert joiner.has_streams
    assert list(joiner.finish()) == []
    assert open_parts(joiner) == {}


def test_records_from_outside_the_log_report_a_batch_when_the_next_one_begins() -> None:
    log = Log()
    for number in range(3):
        stages = (Stage("source", (Task(0, 100 + number),), 1000, 1100),)
        log.batch(Batch("r", number, 900 + 1000 * number, 1.0, stages, {"source": (10,)}, (10,)))
    reports = {
        (event.progress.runId, event.progress.batchId): event.progress
        for line in log.lines
        if isinstance(event := decode_line(line.encode()), QueryProgress)
    }
    joiner = Joiner(reports=reports)
    without = [line for line in log.lines if "QueryProgressEvent" not in line]
    early = batches(without, joiner)
    assert [each.batch for each in early] == [0, 1]
    assert [*early, *(fact for fact in joiner.finish())] == batches(log.lines)


def test_the_oldest_batch_is_given_up_for_too_many_open_tasks() -> None:
    log, joiner = Log(), Joiner(every_stage=True, batch_queries=True, most_tasks=1)
    for number in range(3):
        query(log, number, number)
    assert batches(log.lines, joiner) == []
    assert joiner.given_up == 2
    assert [fact.batch for fact in joiner.finish() if isinstance(fact, BatchFact)] == [2]


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


def test_the_cost_of_a_window_and_its_unknown_parts() -> None:
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
