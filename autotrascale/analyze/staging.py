"""Lines → two staged tables, in one pass over the text: tasks in typed columns, and the rarer events.

    column                            of a task that did its work                          unit
    log, stage, index                 where it ran
    useful_ms                         run + deserialise + result serialisation − wait      ms, never below 0
    deserialise_ms, wait_ms, gc_ms    parts of its time                                    ms
    read, sent, written               records from a source or a shuffle, to the next      records
                                      shuffle, to a file

    column                            of any other event
    log, kind                         of which log, and which
    event                             its wanted fields, in JSON

A task's line is some thousand bytes for nine numbers, so this is where the time goes: on the executors, lines are
decoded natively and their numbers written in columns, without a row of a task ever being an object of Spark's.

The tables are Parquet in a folder of their own. Parsing again for every later step would cost more than writing them
once, and keeping them in memory would grow with the archive.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from operator import attrgetter

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from autotrascale.analyze import schemas
from autotrascale.analyze.columns import Columns, arrow_schema, ddl, record_batch
from autotrascale.analyze.damage import Report
from autotrascale.analyze.lines import Text, lines
from autotrascale.analyze.logs import LogFile, Piece, opened, pieces

TASK_COLUMNS: Columns = {
    "stage": "int",
    "index": "int",
    "useful_ms": "bigint",
    "deserialise_ms": "bigint",
    "wait_ms": "bigint",
    "gc_ms": "bigint",
    "read": "bigint",
    "sent": "bigint",
    "written": "bigint",
}
_TASKS: Columns = {"log": "int", **TASK_COLUMNS}
_EVENTS: Columns = {"log": "int", "kind": "string", "event": "string"}
_TASKS_ARROW = arrow_schema(_TASKS)
_REPORT = "report"
_ROWS = 10_000  # tasks written together
_PLANS = 100  # rarer events: each may hold a plan
_SHARES = 16  # of the work for each core: small enough to even out, and few enough to cost nothing

_task = msgspec.json.Decoder(schemas.TaskEnd).decode
_rare = {name: msgspec.json.Decoder(kind).decode for name, kind in schemas.RARE.items()}
_progress = msgspec.json.Decoder(schemas.Progress).decode
_numbers = attrgetter(
    "stage",
    "info.index",
    "metrics.run_ms",
    "metrics.deserialise_ms",
    "metrics.serialise_ms",
    "metrics.shuffled.wait_ms",
    "metrics.gc_ms",
    "metrics.shuffled.records",
    "metrics.taken.records",
    "metrics.sent.records",
    "metrics.written.records",
)


def stage(spark: SparkSession, files: Iterable[LogFile], folder: str) -> tuple[DataFrame, DataFrame]:
    """Reads all files once and writes the tables into `folder`. Tasks, and events, as read from there."""
    work = pieces(files)
    tasks, events = f"{folder}/tasks", f"{folder}/events"
    system, path = opened(tasks)
    system.create_dir(path)
    system.delete_dir_contents(path)
    shares = min(len(work), _SHARES * spark.sparkContext.defaultParallelism)
    numbers = spark.range(0, len(work), 1, shares)
    numbers.mapInArrow(partial(_staged, work, tasks), ddl(_EVENTS)).write.mode("overwrite").parquet(events)
    return spark.read.schema(ddl(_TASKS)).parquet(tasks), spark.read.parquet(events)


def of_kind(events: DataFrame, event: type[Struct]) -> DataFrame:
    """The events of one kind: their log and their fields."""
    wanted = events.where(fn.col("kind") == event.__name__)
    return wanted.select("log", fn.from_json("event", schemas.ddl(event)).alias("event")).select("log", "event.*")


def reports(events: DataFrame) -> list[Report]:
    rows = events.where(fn.col("kind") == _REPORT).select("event").collect()
    return [msgspec.json.decode(row["event"], type=Report) for row in rows]


def _staged(work: Sequence[Piece], folder: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            piece = work[number]
            # A second try of the same work writes the same file.
            system, path = opened(f"{folder}/{piece.file}-{piece.start}.parquet")
            with pq.ParquetWriter(path, _TASKS_ARROW, filesystem=system, compression="snappy") as writer:
                yield from _events(piece, writer)


def _events(piece: Piece, writer: pq.ParquetWriter) -> Iterator[pa.RecordBatch]:
    """Tasks go to `writer`, the others come back. Whole lines of events that nobody reads are passed over; what is no
    event is counted."""
    text = Text(piece)
    tasks: list[tuple[int, ...]] = []
    rare: list[tuple[str, str]] = []
    number, bad, first_bad = 0, 0, None
    for number, line in enumerate(lines(text, piece), start=1):
        try:
            if line.startswith(schemas.TASK_END):
                task = _task(line)
                if task.metrics is not None and task.end.reason == "Success":
                    tasks.append(_numbers(task))
            elif event := event_of(line):
                rare.append((type(event).__name__, msgspec.json.encode(event).decode()))
        except (msgspec.DecodeError, ValueError):
            bad, first_bad = bad + 1, first_bad or number
        if len(tasks) >= _ROWS:
            writer.write_batch(_task_batch(piece.log, tasks))
            tasks = []
        if len(rare) >= _PLANS:
            yield _event_batch(piece.log, rare)
            rare = []
    report = Report(piece.file, piece.start, number, bad, first_bad, text.problem)
    writer.write_batch(_task_batch(piece.log, tasks))
    yield _event_batch(piece.log, [*rare, (_REPORT, json.dumps(asdict(report)))])


def event_of(line: bytes) -> Struct | None:
    """None is one that nobody reads, or a blank line."""
    if line.startswith(schemas.ANY_EVENT):
        begin = len(schemas.ANY_EVENT)
        decode = _rare.get(line[begin : line.index(b'"', begin)])
        if decode:
            return decode(line)
        if not line.rstrip().endswith(b"}"):
            raise ValueError("cut off")
        return None
    if line.startswith(schemas.ANY_PROGRESS):
        return schemas.QueryProgress(_progress(line))
    if line.strip():
        raise ValueError("no event")
    return None


def _task_batch(log: int, tasks: Sequence[tuple[int, ...]]) -> pa.RecordBatch:
    stage, index, run, deserialise, serialise, wait, gc, shuffled, taken, sent, written = (
        np.array(tasks, dtype=np.int64).reshape(-1, 11).T
    )
    useful = np.maximum(0, run + deserialise + serialise - wait)  # T_u; Spark reads its clocks one after another
    columns = (np.full_like(stage, log), stage, index, useful, deserialise, wait, gc, shuffled + taken, sent, written)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, _TASKS_ARROW.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_TASKS_ARROW)


def _event_batch(log: int, events: Sequence[tuple[str, str]]) -> pa.RecordBatch:
    return record_batch([{"log": log, "kind": kind, "event": event} for kind, event in events], _EVENTS)
