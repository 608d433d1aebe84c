"""An application that is followed while it runs, without its code and without marks."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_reading import batches as read_batches
from log_reading import measure_text
from making import Batch, Log
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from record import BATCHES, ROWS, numbers_of
from streams import shape, stream

from autotrascale import mark
from autotrascale.analyze import metrics
from autotrascale.analyze.facts import BatchFact
from autotrascale.analyze.joiner import Joiner
from autotrascale.analyze.live.application import FollowedApplication
from autotrascale.analyze.unmarked_query import OPERATOR, RunningExecutor, measure_stages, take_query_snapshot
from autotrascale.monitor.eventlog.follower import Follower

P_MAX = 16


def batches(lines: list[str]) -> list[BatchFact]:
    return read_batches(lines, Joiner(every_stage=True))


def followed(folder: Path, lines: list[str]) -> FollowedApplication:
    (folder / "eventlog_v2_app").mkdir()
    (folder / "eventlog_v2_app" / "events_1_app").write_text("".join(lines))
    application = FollowedApplication(Follower(folder, "app", consume=False))
    application.poll()
    return application


def unmarked(batch: Batch) -> Batch:
    return replace(batch, marks={}, stages=tuple(replace(stage, mark="") for stage in batch.stages))


def named(batch: Batch, places: set[int]) -> Batch:
    """Return the batch with naming marks at these places."""
    stages = enumerate(batch.stages)
    return replace(batch, stages=tuple(replace(each, named=f"n{at}" if at in places else "") for at, each in stages))


def started(log: Log, run: str, name: str | None) -> None:
    event = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryStartedEvent"
    log._add(event, {"id": f"id of {run}", "runId": run, "name": name, "timestamp": "2026-11-18T09:12:07.466Z"})


def test_a_recorded_query_without_marks_is_found_and_measured(lines: dict[str, list[str]], tmp_path: Path) -> None:
    application = followed(tmp_path, lines["plain"])
    (run,) = application.runs.values()
    assert (run.name, run.running, run.exception, application.damaged) == ("plain", False, "", 0)
    assert [each.cores for each in application.executors.values()] == [4]
    assert len(run.batches) == BATCHES
    for batch in run.batches:
        assert [stage.operator for stage in batch.stages] == ["read rate per micro batch", "count by expression"]
    found = take_query_snapshot("plain", run.batches, application.executors, 8)
    assert found is not None
    metrics_ = found.operators[OPERATOR]
    assert metrics_.parallelism == 1
    assert metrics_.total.records_in == ROWS * BATCHES
    assert metrics_.total.useful_seconds is not None
    assert found.latency_seconds.mean is not None
    assert found.backlog_records is None
    read, count = measure_stages(run.batches)
    assert (read.tasks, read.reads_source, count.tasks, count.stateful) == (2, True, 4, True)


def test_marked_queries_keep_the_names_of_their_marks(lines: dict[str, list[str]], tmp_path: Path) -> None:
    (run,) = followed(tmp_path, lines["marked"]).runs.values()
    assert [stage.operator for stage in run.batches[0].stages] == ["numbers", "pairs", "count", "sink"]


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_unmarked_stages_are_the_same_live_and_in_an_archive(seed: int) -> None:
    """Names of all operators, with and without naming marks, and all figures are equal."""
    chance = random.Random(seed)
    version = chance.choice([(3, 5), (4, 0), (4, 3)])
    log, marks = Log(version), [{at for at in range(9) if chance.random() < 0.3} for _ in range(2)]
    queues = [stream(chance, shape(chance), f"run-{number}", chance.randint(1, 6)) for number in range(2)]
    while any(queues):
        chosen = chance.choice([at for at in range(2) if queues[at]])
        log.batch(named(unmarked(queues[chosen].pop(0)), marks[chosen]))
    with TemporaryDirectory() as folder:
        archive = measure_text(log.text(), Path(folder), P_MAX)
    live = batches(log.lines)
    if version >= (4, 0):  # before, which stage ran which part may be in doubt
        for batch in live:
            here = marks[int(batch.run[-1])]
            found = [stage.operator for stage in sorted(batch.stages, key=lambda stage: stage.stage)]
            assert {at for at, name in enumerate(found) if name == f"n{at}"} == here & set(range(len(found)))
    for run, one in archive.items():
        mine = [batch for batch in live if batch.run == run]
        topology = one.snapshot.topology
        assert set(topology) == {stage.operator for batch in mine for stage in batch.stages}
        rates = metrics.measure_source_rates(topology, mine, marked=False)
        assert rates is not None
        assert metrics.take_snapshot(f"job-{run}", topology, P_MAX, rates, mine, marked=False) == one.snapshot


def stream_of(count: int, run: str) -> list[Batch]:
    chance = random.Random(5)
    return [unmarked(batch) for batch in stream(chance, shape(chance), run, count)]


def test_runs_of_one_query_are_separate_and_keep_its_name(tmp_path: Path) -> None:
    log = Log()
    for run in ("run-0", "run-1"):
        log._add(
            "org.apache.spark.sql.streaming.StreamingQueryListener$QueryStartedEvent",
            {"id": "q", "runId": run, "name": None, "timestamp": "2026-11-18T09:12:07.466Z"},
        )
        for batch in stream_of(3, run):
            log.batch(replace(batch, name=None))
        if run == "run-0":
            log.ended(run)
    application = followed(tmp_path, log.lines)
    assert [(run.run, run.query, run.name, run.running) for run in application.runs.values()] == [
        ("run-0", "q", "query-1", False),
        ("run-1", "q", "query-1", True),
    ]
    assert [run.run for run in application.running] == ["run-1"]
    assert [batch.batch for batch in application.runs["run-1"].batches] == [0, 1, 2]


def test_a_failed_query_has_its_error(tmp_path: Path) -> None:
    log = Log()
    started(log, "run-0", "clicks")
    event = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryTerminatedEvent"
    log._add(event, {"id": "q", "runId": "run-0", "exception": "no such topic"})
    (run,) = followed(tmp_path, log.lines).runs.values()
    assert (run.name, run.running, run.exception, run.batches) == ("clicks", False, "no such topic", [])


def test_of_a_run_come_upon_half_way_the_first_batch_is_left_out(tmp_path: Path) -> None:
    log = Log()
    for batch in stream_of(4, "run-0"):
        log.batch(batch)
    (run,) = followed(tmp_path, log.lines).runs.values()
    assert [batch.batch for batch in run.batches] == [1, 2, 3]


def test_a_batch_of_which_a_plan_is_missing_is_no_batch() -> None:
    """Its work would come out too small."""
    log = Log()
    for batch in stream_of(3, "run-0"):
        log.batch(batch)
    plans = [line for line in log.lines if "SQLExecutionStart" in line[:120]]
    without = [line for line in log.lines if line != plans[1]]
    assert [batch.batch for batch in batches(log.lines)] == [0, 1, 2]
    assert [batch.batch for batch in batches(without)] == [0, 2]


def test_executors_come_and_go(tmp_path: Path) -> None:
    log = Log()
    info = {"Host": "other", "Total Cores": 2, "Log Urls": {}}
    log._add("SparkListenerExecutorAdded", {"Timestamp": 5, "Executor ID": "2", "Executor Info": info})
    log._add("SparkListenerExecutorRemoved", {"Timestamp": 9, "Executor ID": "1", "Removed Reason": "decommissioned"})
    assert followed(tmp_path, log.lines).executors == {"2": RunningExecutor("2", "other", 2, 5)}


def test_few_settings_of_an_application_are_kept(tmp_path: Path) -> None:
    log = Log()
    told = {"spark.master": "yarn", "spark.executor.cores": "4", "spark.hadoop.fs.s3a.secret.key": "*****"}
    log._add("SparkListenerEnvironmentUpdate", {"JVM Information": {}, "Spark Properties": told})
    assert followed(tmp_path, log.lines).conf == {"spark.master": "yarn", "spark.executor.cores": "4"}


@pytest.fixture
def logged(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """The session that is there, made to write a log from now on."""
    folder = tmp_path / "log"
    folder.mkdir()
    context: Any = spark.sparkContext
    jvm, inner = context._jvm, context._jsc.sc()
    conf = inner.conf().clone().set("spark.eventLog.rolling.enabled", "true").set("spark.eventLog.compress", "false")
    uri = jvm.java.net.URI(folder.as_uri())
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener("app", jvm.scala.Option.empty(), uri, conf)
    listener.start()
    inner.addSparkListener(listener)
    yield folder
    inner.removeSparkListener(listener)
    listener.stop()


def _upsert(batch: DataFrame, _: int) -> None:
    batch.groupBy("key").agg(fn.max("value").alias("newest")).collect()


@pytest.mark.spark
def test_two_queries_of_a_real_application(spark: SparkSession, logged: Path, tmp_path: Path) -> None:
    """A windowed count with a named stage, and a foreachBatch with unmarked jobs."""
    keyed = numbers_of(spark).withColumn("key", fn.col("value") % 7)
    counts = mark(keyed, "keyed").groupBy(fn.window("timestamp", "2 seconds"), "key").count()
    windowed = counts.writeStream.format("noop").outputMode("update").queryName("windowed")
    upserts = keyed.writeStream.foreachBatch(_upsert).queryName("upserts")
    queries = [
        writer.option("checkpointLocation", f"{tmp_path}/{at}").start() for at, writer in enumerate((windowed, upserts))
    ]
    application = FollowedApplication(Follower(logged, "app", consume=False))
    try:
        until = time.monotonic() + 90
        while (
            time.monotonic() < until
            and not all(len(run.batches) > 2 for run in application.runs.values() or [None] if run)
        ) or len(application.runs) < 2:
            time.sleep(0.1)
            application.poll()
    finally:
        for query in queries:
            query.stop()
    runs = {run.name: run for run in application.runs.values()}
    names = {name: {stage.operator for stage in run.batches[-1].stages} for name, run in runs.items()}
    assert names == {"windowed": {"keyed", "count by window, key"}, "upserts": {"read rows", "max by key"}}
    for run in runs.values():
        assert {task.executor for batch in run.batches for task in batch.tasks} == {"driver"}
        found = take_query_snapshot(run.name, run.batches, {"driver": RunningExecutor("driver", "here", 2)}, 8)
        assert found is not None
        assert found.operators[OPERATOR].total.records_in == ROWS * len(run.batches)
