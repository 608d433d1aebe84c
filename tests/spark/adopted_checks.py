"""A program of many small queries that attaches AuTraScale in one line and checks the promises of adoption.

    adopted_checks.py FOLDER [NAME…]     prints a line of JSON for each check, or for the named checks: its name and its
                                         traceback, empty if it passed

All checks share a process, because a JVM takes seconds to start.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count

import autotrascale
from autotrascale import mark
from autotrascale.domain.errors import EngineError, InputError
from autotrascale.execute.spark.common.checkpoint_generations import VisibleBatches
from autotrascale.execute.spark.controller.agent_client import AgentClient
from autotrascale.execute.spark.driver_agent.checkpoint_folder import CheckpointFolder
from autotrascale.execute.spark.driver_agent.fence import Fence, attach_fence
from autotrascale.execute.spark.driver_agent.fenceable_sinks import make_sink_fenceable
from autotrascale.execute.spark.driver_agent.sources import read_source_options, reads_all_available
from autotrascale.execute.spark.protocol.agent_messages import QueryRescaled, RescaleQuery
from autotrascale.monitor.marks import find_naming_names

CHECKS: dict[str, Callable[[], None]] = {}
FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
SECONDS = 180.0  # for a busy machine


def check(function: Callable[[], None]) -> Callable[[], None]:
    CHECKS[function.__name__] = function
    return function


def numbers(rows: int = 5) -> DataFrame:
    """Return an endless stream of batches."""
    source = SparkSession.active().readStream.format("rate-micro-batch").option("numPartitions", 2)
    return source.option("rowsPerBatch", rows).load()


def counted() -> DataFrame:
    return numbers().groupBy((col("value") % 7).alias("k")).count()


def nothing(batch: DataFrame, _: int) -> None:
    batch.count()


def started(name: str, df: DataFrame | None = None, function: Any = nothing) -> Any:
    df = counted() if df is None else df
    mode = "append" if "value" in df.columns else "update"
    writer = df.writeStream.queryName(name).outputMode(mode).foreachBatch(function)
    query = writer.option("checkpointLocation", str(FOLDER / name)).start()
    until(lambda: query.lastProgress is not None or not query.isActive)
    return query


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.05)


def rescaled(query: Any, partitions: int) -> QueryRescaled:
    return client.rescale(RescaleQuery(query.id, partitions, 120.0, 120.0))


@check
def slots_are_counted_by_executors_and_not_by_default_parallelism() -> None:
    assert spark.sparkContext.defaultParallelism == 64
    assert client.application().slots == 4


@check
def a_query_from_before_attach_is_observed_and_not_rescaled() -> None:
    known = {query.id: query for query in client.queries()}
    assert "before attach()" in known[before.id].not_movable
    with pytest.raises(EngineError, match="before attach"):
        rescaled(before, 3)
    assert before.isActive
    before.stop()
    until(lambda: not {query.id: query for query in client.queries()}[before.id].active)


@check
def a_rescale_keeps_the_handle_and_wakes_no_waiting_thread() -> None:
    query = started("goes_on")
    identity, run, told = query.id, query.runId, len(query.recentProgress)
    ends: list[str] = []
    waiters = [
        threading.Thread(target=lambda: (query.awaitTermination(), ends.append("its own"))),
        threading.Thread(target=lambda: (spark.streams.awaitAnyTermination(), ends.append("any"))),
    ]
    spark.streams.resetTerminated()
    for waiter in waiters:
        waiter.start()
    answer = rescaled(query, 3)
    assert (answer.done, answer.partitions) == (True, 3), answer
    assert (query.id, query.runId != run, query.isActive, query.exception()) == (identity, True, True, None)
    assert query.name == "goes_on"
    assert query.runId == answer.run
    assert len(query.recentProgress) > told
    assert [active.id for active in spark.streams.active] == [identity]
    assert spark.streams.get(identity).runId == query.runId
    assert query.awaitTermination(1) is False
    assert spark.streams.awaitAnyTermination(1) is False
    assert not ends
    until(lambda: query.lastProgress.stateOperators)
    assert query.lastProgress.stateOperators[0].numShufflePartitions == 3
    query.stop()
    for waiter in waiters:
        waiter.join(SECONDS)
    assert sorted(ends) == ["any", "its own"]
    assert spark.streams.awaitAnyTermination(1) is True
    assert query.awaitTermination(1) is True
    with pytest.raises(EngineError, match="has ended"):
        rescaled(query, 2)


@check
def queries_that_start_at_once_keep_their_partitions_and_the_session_its_own() -> None:
    moved = [started(f"own_{number}") for number in range(2)]
    answers: dict[int, QueryRescaled] = {}

    def move(at: int) -> None:
        with AgentClient(attached.folder) as mine:
            answers[at] = mine.rescale(RescaleQuery(moved[at].id, 3 + at, 120.0, 120.0))

    threads = [threading.Thread(target=move, args=[at]) for at in range(2)]
    for thread in threads:
        thread.start()
    fresh = started("own_fresh")
    for thread in threads:
        thread.join()
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    partitions = {query.id: query.partitions for query in client.queries()}
    assert [partitions[query.id] for query in (*moved, fresh)] == [3, 4, 2], answers
    for query in (*moved, fresh):
        query.stop()


@check
def marks_change_no_result_and_keep_their_names_in_a_rescale() -> None:
    found: dict[int, int] = {}
    batches: list[int] = []

    def upsert(batch: DataFrame, number: int) -> None:
        found.update({row.k: row["count"] for row in batch.collect()})
        batches.append(number)

    doubled = mark(numbers().repartition(2).select((col("value") % 7).alias("k")), "sevenths")
    counts = mark(doubled.groupBy("k").count(), "totals")
    with pytest.raises(InputError, match=r"mark: .*\(seen: 'sevenths'\)"):
        mark(counts, "sevenths")
    query = started("marked", counts, upsert)
    for partitions in (3, 2):
        answer = rescaled(query, partitions)
        assert (answer.done, answer.partitions) == (True, partitions), answer
        seen = len(batches)
        until(lambda seen=seen: len(batches) > seen + 1)
        assert set(find_naming_names(query._jsq.explainInternal(False))) == {"sevenths", "totals"}
    query.stop()
    bare = started("marked", numbers().groupBy((col("value") % 7).alias("k")).count(), upsert)  # the same checkpoint
    seen = len(batches)
    until(lambda: len(batches) > seen)
    bare.stop()
    assert bare.id == query.id
    values = [value % 7 for value in range(sum(found.values()))]
    assert found == dict(Counter(values))
    assert len(values) > 10
    assert len(values) % 5 == 0
    assert sorted(row.id for row in mark(mark(spark.range(9), "one"), "two").collect()) == list(range(9))


@check
def a_marked_stage_gets_other_partitions() -> None:
    """Spread evenly and by a column, with and without state, and rolled back if the query cannot run so."""
    found: dict[int, int] = {}
    batches: list[int] = []

    def upsert(batch: DataFrame, number: int) -> None:
        rows = batch.collect()
        if batch.rdd.getNumPartitions() == 5:
            raise ValueError("five is too many")
        found.update({row.k: row.n for row in rows})
        batches.append(number)

    even = mark(numbers(), "even", parallelism=2).select((col("value") % 7).alias("k"))
    by_key = mark(even, "by_key", parallelism=4, by="k").selectExpr("k", "1 AS one")
    query = started("own_numbers", by_key.groupBy("k").agg(count("one").alias("n")), upsert)
    known = {each.id: each for each in client.queries()}[query.id]
    assert (known.stages, known.partitions) == ({"even": 2, "by_key": 4}, 2)
    before = 2
    for partitions, stages, ran in (
        (2, {"even": 3}, {"RoundRobinPartitioning(3)", "hashpartitioning(k, 4)"}),
        (3, {"even": 4, "by_key": 6}, {"RoundRobinPartitioning(4)", "hashpartitioning(k, 6)"}),
        (5, {"by_key": 2}, {"RoundRobinPartitioning(4)", "hashpartitioning(k, 6)"}),  # rolled back
    ):
        answer = client.rescale(RescaleQuery(query.id, partitions, stages=stages))
        before = before if partitions == 5 else partitions
        assert (answer.done, answer.partitions) == (partitions != 5, before), answer
        seen = len(batches)
        until(lambda seen=seen: len(batches) > seen + 1)
        plan = re.sub(r"#\d+L?", "", query._jsq.explainInternal(False))
        assert all(f"Exchange {each}" in plan for each in ran), plan
    assert {each.id: each for each in client.queries()}[query.id].stages == {"even": 4, "by_key": 6}
    with pytest.raises(EngineError, match=r"stages: .*\(seen: 'odd'\)"):
        client.rescale(RescaleQuery(query.id, 3, stages={"odd": 2}))
    query.stop()
    values = [value % 7 for value in range(sum(found.values()))]
    assert found == dict(Counter(values))
    assert len(values) % 5 == 0
    assert sorted(row.id for row in mark(spark.range(9), "one", parallelism=2).collect()) == list(range(9))


@check
def an_error_of_the_query_reaches_the_program() -> None:
    broken = threading.Event()

    def fails(batch: DataFrame, _: int) -> None:
        batch.count()
        if broken.is_set():
            raise ValueError("no such account")

    query = started("fails", function=fails)
    rescaled(query, 3)
    broken.set()
    with pytest.raises(StreamingQueryException, match="no such account"):
        query.awaitTermination()
    assert "no such account" in str(query.exception())
    assert not query.isActive
    with pytest.raises(StreamingQueryException, match="no such account"):
        spark.streams.awaitAnyTermination()
    spark.streams.resetTerminated()
    described = {known.id: known for known in client.queries()}[query.id]
    assert not described.active
    assert "no such account" in described.error


@check
def partitions_that_a_query_cannot_run_with_are_rolled_back() -> None:
    def fails(batch: DataFrame, _: int) -> None:
        batch.count()
        if batch.rdd.getNumPartitions() == 5:
            raise ValueError("five is too many")

    query = started("goes_back", function=fails)
    answer = rescaled(query, 5)
    assert (answer.done, answer.partitions) == (False, 2)
    assert "five is too many" in answer.detail
    seen = query.lastProgress.batchId
    until(lambda: query.lastProgress.batchId > seen + 1)
    assert query.exception() is None
    query.stop()


@check
def a_batch_is_not_cut_off() -> None:
    begun: list[int] = []
    ended: list[int] = []

    def slow(_: DataFrame, number: int) -> None:
        begun.append(number)
        time.sleep(0.7)
        ended.append(number)

    query = started("slow", numbers(), slow)
    for partitions in (3, 4):
        answer = rescaled(query, partitions)
        assert (answer.done, answer.cut_off) == (True, False)
    query.stop()
    assert len(set(begun)) == len(begun)
    assert len(begun) - len(ended) <= 1  # cut off by the stop of the program itself


@check
def a_program_may_stop_its_query_at_any_time() -> None:
    handle: list[Any] = []
    stop = threading.Event()

    def stops(batch: DataFrame, _: int) -> None:
        batch.count()
        if stop.is_set():
            handle[0].stop()

    handle.append(started("stops", function=stops))
    stop.set()
    handle[0].awaitTermination()
    query = started("stopped_meanwhile", numbers(), lambda *_: time.sleep(1.0))
    threading.Timer(0.3, query.stop).start()
    answer = rescaled(query, 3)
    assert not answer.done
    assert query.awaitTermination(int(SECONDS))
    assert query.exception() is None


@check
def a_query_that_cannot_be_rescaled_is_refused_before_it_is_stopped() -> None:
    memory = counted().writeStream.queryName("in_memory").outputMode("update").format("memory").start()
    once = numbers().writeStream.format("noop").trigger(availableNow=True).start()
    key = "spark.sql.streaming.stateStore.providerClass"
    kept = spark.conf.get(key)
    spark.conf.set(key, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    elsewhere = started("elsewhere")
    spark.conf.set(key, kept)
    why = {query.id: query.not_movable for query in client.queries()}
    assert "writes to memory" in why[memory.id]
    assert "availableNow" in why[once.id]
    assert "HDFSBackedStateStoreProvider" in why[elsewhere.id]
    runs = memory.runId, elsewhere.runId
    for query in (memory, once, elsewhere):
        with pytest.raises(EngineError, match=r"memory|availableNow|HDFSBacked"):
            rescaled(query, 3)
    assert runs == (memory.runId, elsewhere.runId)
    for query in (memory, once, elsewhere):
        query.stop()


@check
def sources_without_a_limit_read_all_available_records() -> None:
    session = SparkSession.active()
    texts = session.readStream.schema("value string").text(str(FOLDER))
    limited = session.readStream.schema("value string").option("maxFilesPerTrigger", 3).text(str(FOLDER))
    rates = session.readStream.format("rate").load().selectExpr("cast(value as string)")
    still = session.range(3).selectExpr("cast(id as string) as value")
    for df, all_of_it in (
        (texts, True),
        (rates, True),
        (texts.union(rates), True),
        (texts.join(still, "value"), True),
        (limited, False),
        (texts.union(limited), False),
        (numbers(), False),
    ):
        assert reads_all_available(df.writeStream) == all_of_it, df.columns
    slow = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).option("minPartitions", 3).load()
    for df, told in (
        (texts, {}),
        (limited, {"maxfilespertrigger": "3"}),
        (slow, {"minpartitions": "3"}),
        (rates, {}),
        (texts.union(rates), None),
        (limited.join(still, "value"), {"maxfilespertrigger": "3"}),
    ):
        assert read_source_options(df.writeStream) == told, df.columns


@check
def a_temporary_checkpoint_is_deleted_with_its_query() -> None:
    query = counted().writeStream.outputMode("update").foreachBatch(nothing).start()
    until(lambda: query.lastProgress is not None)
    place = Path({known.id: known for known in client.queries()}[query.id].checkpoint.removeprefix("file:"))
    assert rescaled(query, 3).done
    assert place.is_dir()
    query.stop()
    until(lambda: not place.exists())


@check
def a_local_checkpoint_is_read_as_spark_reads_it() -> None:
    query = started("read")
    assert rescaled(query, 3).done
    query.stop()
    by_disk, by_spark, nothing_there = (
        CheckpointFolder(SparkSession.active(), f"file://{FOLDER}/{name}") for name in ("read", "read", "nothing")
    )
    assert by_disk._local == FOLDER / "read"
    by_spark._local = None
    # Tasks of the batch that was stopped may write their last files after it.
    until(lambda: set(by_disk.read().stores) == set(by_spark.read().stores))
    found, again, other = by_disk.read(), by_spark.read(), nothing_there.read()
    assert found.planned
    assert found.stores
    assert (again.planned, again.committed) == (found.planned, found.committed)
    assert (other.planned, other.stores) == ((), ())


@check
def some_sinks_can_be_fenced_and_files_are_written_as_by_spark() -> None:
    spark, by = SparkSession.active(), (col("value") % 3).alias("k")
    able = {"json": True, "parquet": True, "kafka": True, "console": False, "noop": False, "memory": False}
    for kind, can in able.items():
        writer = numbers().writeStream.format(kind).option("path", str(FOLDER / "unwritten"))
        make_sink_fenceable(spark, writer)
        assert attach_fence(Fence(VisibleBatches(), -1), writer) is can, kind
    each_row = numbers().writeStream.foreach(print)
    make_sink_fenceable(spark, each_row)
    assert not attach_fence(Fence(VisibleBatches(), -1), each_row)
    with pytest.raises(Py4JJavaError, match="output mode is not supported"):
        make_sink_fenceable(spark, counted().writeStream.outputMode("update").format("json").option("path", "nowhere"))
    to = FOLDER / "fenced"
    # The second round is like a crash between the log of the files and the commit.
    for number, (raised, rows) in enumerate(((0, 5), (0, 5), (1, 10))):
        writer = numbers().select("value", by).writeStream.partitionBy("k").format("json").option("path", str(to))
        make_sink_fenceable(spark, writer.option("checkpointLocation", str(FOLDER / f"fenced-{number}")))
        assert attach_fence(Fence(VisibleBatches(-1, raised), -1), writer)
        writer.trigger(once=True).start().awaitTermination()
        assert {path.name for path in (to / "_spark_metadata").glob("[0-9]*")} == {
            str(each) for each in range(raised + 1)
        }
        assert Counter(row.value for row in spark.read.json(str(to)).collect()) == dict.fromkeys(range(5), rows / 5)
    assert {path.name for path in to.glob("k=*")} == {"k=0", "k=1", "k=2"}


@check
def another_query_takes_over_while_the_first_runs_on() -> None:
    """Up and down, with a rescale in place in between. Then the script continues by itself from its checkpoint."""
    found: dict[int, int] = {}
    batches: list[int] = []

    def upsert(batch: DataFrame, number: int) -> None:
        rows = batch.collect()
        if batch.rdd.getNumPartitions() == 2 and number > 2:
            raise ValueError("two are too few")
        found.update({row.k: row["count"] for row in rows})
        batches.append(number)

    place = FOLDER / "overlapped"
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    attached.program.rescale = "overlap"
    query = started("overlapped", function=upsert)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    identity = query.id
    for partitions, runs_with in ((3, 3), (2, 3), (1, 1)):
        before_it = len(batches)
        answer = rescaled(query, partitions)
        if runs_with != partitions:
            assert answer.how.startswith("in place: both queries need 5 slots"), answer
        else:
            assert (answer.done, answer.partitions, answer.how) == (True, partitions, "overlap: as configured")
        assert answer.partitions == runs_with, answer
        assert (query.id, query.name, query.isActive, query.exception()) == (identity, "overlapped", True, None)
        assert [active.id for active in spark.streams.active if active.id != before.id] == [identity]
        assert spark.streams.get(identity) is query
        seen = len(batches)
        until(lambda seen=seen: len(batches) > seen + 2)
        assert query.lastProgress.stateOperators[0].numShufflePartitions == runs_with
        if runs_with == partitions:  # a move in place uses a batch number
            since = batches[before_it - 1]
            assert batches[before_it - 1 :] == list(range(since, since + len(batches) - before_it + 1)), batches
        assert place.is_symlink()
    query.stop()
    until(lambda: not place.is_symlink() and not place.with_name(".overlapped.generations").exists())
    attached.program.rescale = "in-place"
    again, seen = started("overlapped", function=upsert), len(batches)
    until(lambda: len(batches) > seen + 2)
    again.stop()
    assert again.id == identity
    assert batches == sorted(batches)
    values = [value % 7 for value in range(sum(found.values()))]
    assert found == dict(Counter(values))
    assert len(values) % 5 == 0


@check
def stopping_a_query_stops_the_copy_that_is_being_prepared() -> None:
    place, stop, handle = FOLDER / "stopped", threading.Event(), list[Any]()

    def stops(batch: DataFrame, _: int) -> None:
        batch.count()
        if stop.is_set():
            handle[0].stop()  # in the middle of a batch

    spark.conf.set("spark.sql.shuffle.partitions", "1")
    attached.program.rescale = "overlap"
    handle.append(query := started("stopped", function=stops))
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    threading.Timer(0.7, stop.set).start()
    answer = rescaled(query, 3)
    attached.program.rescale = "in-place"
    assert query.awaitTermination(int(SECONDS)), answer
    assert query.exception() is None
    until(lambda: not place.is_symlink() and not place.with_name(".stopped.generations").exists())
    assert [active.id for active in spark.streams.active if active.id != before.id] == []


@check
def each_file_is_written_once_when_another_query_takes_over() -> None:
    to = FOLDER / "taken-over-files"
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    attached.program.rescale = "auto"  # chooses in place for so few keys
    seen = numbers().dropDuplicates(["value"]).select("value", (col("value") % 2).alias("k"))
    writer = seen.writeStream.partitionBy("k").option("checkpointLocation", str(FOLDER / "taken-over"))
    query = writer.start(str(to), format="json")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    until(lambda: query.lastProgress is not None and query.lastProgress.batchId > 1)
    answer = rescaled(query, 2)
    assert (answer.done, answer.how.partition(":")[0]) == (True, "in place"), answer
    attached.program.rescale = "overlap"
    answer = rescaled(query, 1)
    assert (answer.done, answer.how) == (True, "overlap: as configured"), answer
    last = query.lastProgress.batchId
    until(lambda: query.lastProgress.batchId > last + 11)  # past a compaction of the log
    query.stop()
    attached.program.rescale = "in-place"
    values = sorted(row.value for row in spark.read.json(str(to)).collect())
    assert values == list(range(len(values)))
    assert len(values) > 60


@check
def reusing_a_writer_does_not_change_the_running_query() -> None:
    writer = numbers().writeStream.format("noop").queryName("one").option("checkpointLocation", str(FOLDER / "one"))
    one = writer.start()
    two = writer.queryName("two").option("checkpointLocation", str(FOLDER / "two")).start()
    until(lambda: one.lastProgress and two.lastProgress)
    assert rescaled(one, 3).done
    assert (one.name, two.name) == ("one", "two")
    assert one.id != two.id
    for query in (one, two):
        query.stop()


if __name__ == "__main__":
    spark = (
        SparkSession.builder.master("local[4]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "64")  # set in many programs; it is not the number of slots
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    before = numbers().writeStream.format("noop").queryName("before").start()
    attached = autotrascale.attach(FOLDER / "program", rescale="overlap")
    attached.program.rescale = "in-place"  # except in checks that set it
    client = AgentClient(attached.folder, timeout=SECONDS)
    for name, function in CHECKS.items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        try:
            function()
            wrong = ""
        except BaseException:
            wrong = traceback.format_exc()
            for left in spark.streams.active:
                left.stop()
        print(json.dumps([name, wrong]), flush=True)
    client.close()
    sys.exit(0)
