"""Lines → staged tables of typed columns, in one pass over the text.

    column                            of a task that did its work                          unit
    log, stage, index                 where it ran
    useful_ms … served_squares        what it did, as `analyze.tasks` has it; null where not known

A task's line is some thousand bytes for nine numbers, so this is where the time goes: on the executors, lines are
decoded natively and their numbers written in columns, without a row of a task ever being an object of Spark's. `rows`
has the tables of all other events.

The tables are Parquet in a folder of their own. Parsing again for every later step would cost more than writing them
once, and keeping them in memory would grow with the archive.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from autotrascale.analyze.archive import rows
from autotrascale.analyze.archive.columns import Columns, arrow_schema, ddl
from autotrascale.analyze.task_facts import NUMBERS, measure_tasks
from autotrascale.monitor.eventlog import events
from autotrascale.monitor.eventlog.damage import Report
from autotrascale.monitor.eventlog.decoding import decode_brief_task, decode_rare_event
from autotrascale.monitor.eventlog.lines import Text, blocks
from autotrascale.monitor.eventlog.log_files import LogFile, Piece, open_filesystem, pieces

SUMMABLE = (
    *("useful_ms", "deserialise_ms", "wait_ms", "gc_ms", "read", "sent", "written"),
    *("served_ms", "served_squares"),
)
"""What the tasks of one instance may be added up in, as `tasks.measured` has it."""
TASKS: Columns = {**dict.fromkeys(("log", "stage", "index"), "int"), **dict.fromkeys(SUMMABLE, "bigint")}
_TABLES: dict[str, Columns] = {
    "tasks": TASKS,
    "completed": rows.COMPLETED,
    "jobs": rows.JOBS,
    "plans": rows.PLANS,
    "counters": rows.COUNTERS,
    "counts": rows.COUNTS,
    "patterns": rows.PATTERNS,
    "progress": rows.PROGRESS,
    "applications": rows.APPLICATIONS,
    "executors": rows.EXECUTORS,
    "settings": rows.SETTINGS,
}
_SCHEMAS = {name: arrow_schema(columns) for name, columns in _TABLES.items()}
_NUMBERS = 2 + len(NUMBERS)  # that a task's line has
_ROWS = 20_000  # written together
_TEXT = 1 << 25  # characters of them, at most
_ROW_TEXT = 1 << 18  # … of one row: what a line may say of itself
_KNOWN = 100_000  # patterns that a share remembers by name
_SHARES = 8  # of the work for each core: small enough to even out, and few enough to cost nothing


@dataclass(frozen=True)
class Staged:
    """The tables, as read from their folder."""

    tasks: DataFrame
    completed: DataFrame
    jobs: DataFrame
    plans: DataFrame
    counters: DataFrame
    counts: DataFrame
    patterns: DataFrame
    progress: DataFrame
    applications: DataFrame
    executors: DataFrame
    settings: DataFrame


def stage(spark: SparkSession, files: Iterable[LogFile], folder: str) -> tuple[Staged, list[Report]]:
    """Reads all files once and writes the tables into `folder`."""
    work = pieces(files)
    prepare(folder)
    shares = min(len(work), _SHARES * spark.sparkContext.defaultParallelism)
    reports = spark.range(0, len(work), 1, shares).mapInArrow(partial(_staged, work, folder), "report string").collect()
    tables = {name: spark.read.schema(ddl(of)).parquet(f"{folder}/{name}") for name, of in _TABLES.items()}
    return Staged(**tables), [msgspec.json.decode(row["report"], type=Report) for row in reports]


def prepare(folder: str) -> None:
    """An empty folder for each table."""
    for name in _TABLES:
        system, path = open_filesystem(f"{folder}/{name}")
        system.create_dir(path)
        system.delete_dir_contents(path)


def _staged(work: Sequence[Piece], folder: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
    if numbers:
        with Share(folder, numbers[0]) as share:
            reports = [read_piece(work[number], share) for number in numbers]
        yield pa.RecordBatch.from_pydict({"report": [msgspec.json.encode(asdict(one)).decode() for one in reports]})


class Share:
    """What one task of Spark's writes: a file of each table that it has rows for. A second try writes the same."""

    def __init__(self, folder: str, number: int) -> None:
        self._folder, self._number = folder, number
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._rows: dict[str, list[rows.Row]] = {name: [] for name in _TABLES}
        self._texts = dict.fromkeys(_TABLES, 0)  # characters of the rows
        self._known: set[str] = set()
        self._files = ExitStack()

    def __enter__(self) -> Share:
        return self

    def __exit__(self, *_: object) -> None:
        with self._files:
            for table in _TABLES:
                self._flush(table)

    def add(self, table: str, row: rows.Row) -> None:
        """Raises `ValueError` for a row that says more than any job needs to."""
        text = rows.characters(row)
        if text > _ROW_TEXT:
            raise ValueError("says too much")
        kept = self._rows[table]
        kept.append(row)
        self._texts[table] += text
        if len(kept) >= _ROWS or self._texts[table] > _TEXT:
            self._flush(table)

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        if table not in self._writers:
            system, path = open_filesystem(f"{self._folder}/{table}/{self._number}.parquet")
            writer = pq.ParquetWriter(path, _SCHEMAS[table], filesystem=system, compression="snappy")
            self._writers[table] = self._files.enter_context(writer)
        self._writers[table].write_batch(batch)

    def pattern(self, shape: object) -> str:
        """Its name. A pattern is written when it is new here; others may write it too."""
        text = msgspec.json.encode(shape)
        name = blake2b(text, digest_size=12).hexdigest()
        if name not in self._known:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self.add("patterns", (name, text.decode()))
            self._known.add(name)
        return name

    def _flush(self, table: str) -> None:
        if kept := self._rows[table]:
            schema = _SCHEMAS[table]
            columns = zip(*kept, strict=True)
            arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
            self.write(table, pa.RecordBatch.from_arrays(arrays, schema=schema))
            self._rows[table], self._texts[table] = [], 0


def read_piece(piece: Piece, share: Share) -> Report:
    """Whole lines of events that nobody reads are passed over; what is no event is counted."""
    text = Text(piece)
    number, bad, first_bad = 0, 0, None
    tasks = array("q")
    for block in blocks(text, piece):
        done: list[int] = []
        for line in block:
            number += 1
            try:
                if line.startswith(events.TASK_END):
                    task = decode_brief_task(line)
                    if task.metrics is not None and task.end.reason == "Success":
                        done += _numbers(task, task.metrics)
                elif event := decode_rare_event(line):
                    _add_event(piece.log, event, share)
            except (msgspec.DecodeError, ValueError, RecursionError):
                bad, first_bad = bad + 1, first_bad or number
        tasks.extend(done)
        if len(tasks) >= _ROWS * _NUMBERS:
            share.write("tasks", _task_batch(piece.log, tasks))
            tasks = array("q")
    if tasks:
        share.write("tasks", _task_batch(piece.log, tasks))
    return Report(piece.file, piece.start, number, bad, first_bad, text.problem, text.overlong)


def _numbers(task: events.TaskEnd, did: events.TaskMetrics) -> tuple[int, ...]:
    return (
        task.stage,
        task.info.index,
        did.run_ms,
        did.deserialise_ms,
        did.serialise_ms,
        did.shuffled.wait_ms,
        did.gc_ms,
        did.shuffled.records,
        did.taken.records,
        did.sent.records,
        did.written.records,
    )


def _add_event(log: int, event: Struct, share: Share) -> None:
    match event:
        case events.StageCompleted() if event.info.succeeded:
            share.add("completed", rows.completed(log, event))
            for row in rows.counts(log, event):
                share.add("counts", row)
        case events.JobStart():
            stages, first = rows.stages_pattern(event)
            share.add("jobs", rows.job(log, event, share.pattern(stages), first))
        case events.ExecutionStart():
            for row in rows.counters(log, event):
                share.add("counters", row)
            plan, shuffle = rows.plan_pattern(event)
            share.add("plans", (log, event.execution, share.pattern(plan), shuffle))
        case events.QueryProgress():
            share.add("progress", rows.progress(event.progress))
        case events.ApplicationStart():
            share.add("applications", rows.application(log, event))
        case events.ExecutorChange():
            share.add("executors", rows.executor(log, event))
        case events.Environment():
            share.add("settings", rows.settings(log, event))


def _task_batch(log: int, tasks: array[int]) -> pa.RecordBatch:
    stage, index, *numbers = np.frombuffer(tasks, dtype=np.int64).reshape(-1, _NUMBERS).T
    did = measure_tasks(dict(zip(NUMBERS, numbers, strict=True)))
    schema = _SCHEMAS["tasks"]
    arrays = [pa.array(np.full_like(stage, log), pa.int32()), pa.array(stage, pa.int32()), pa.array(index, pa.int32())]
    arrays += [pa.array(did[name], pa.int64(), mask=did[name] == events.UNKNOWN) for name in SUMMABLE]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
