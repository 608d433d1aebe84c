"""Logs → tables of edges in files, each application's log in one pass: `application=…/query=…/day=…` below a folder.

A log is read from its beginning to its end, as a batch is told by events that lie far apart; applications are read side
by side. A query's batches become edges some thousands of tasks at a time, and these a group of rows of a file: so
memory is bounded, and whoever wants a time reads the groups that have it.

After each time that it stood idle a slot is launched on by a message, and between batches the driver waits: so what
lies between the parts that edges are made in are waits, which are no edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from itertools import groupby
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from autotrascale.analyze.critical.edge_table import SCHEMA, edges_to_table
from autotrascale.analyze.critical.edges import TICKS, Edges, Names, is_time, make_edges
from autotrascale.analyze.critical.gaps import fill_gaps
from autotrascale.analyze.critical.spark_trace import trace_batches
from autotrascale.analyze.facts import BatchFact
from autotrascale.analyze.joiner import Joiner
from autotrascale.monitor.eventlog.damage import Damage, Report, damages
from autotrascale.monitor.eventlog.decoding import decode_line
from autotrascale.monitor.eventlog.lines import Text, blocks
from autotrascale.monitor.eventlog.log_files import LogFile, Piece, find_files, open_filesystem

_TASKS = 10_000  # of a query's batches, before edges are made of them
_ALL_TASKS = 50_000  # … of all queries of an application
ROWS = 20_000  # of a group in a file
_NAME = 200  # characters
_DAY = 24 * 3600 * 1000 * TICKS


def stage(spark: SparkSession, paths: Sequence[str], folder: str) -> tuple[Damage, ...]:
    """Reads all logs below `paths`; what could not be read is told."""
    files, unread = find_files(paths)
    logs = [list(own) for _, own in groupby(files, key=lambda file: file.log)]
    shares = spark.range(0, len(logs), 1, len(logs))
    reports = shares.mapInArrow(partial(_staged, logs, folder), "report string").collect()
    read = [msgspec.json.decode(row["report"], type=Report) for row in reports]
    return (*unread, *damages(read, {file.number: file.uri for file in files}))


def _staged(logs: Sequence[list[LogFile]], folder: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for number in (number for batch in batches for number in batch.column(0).to_pylist()):
        reports: list[Report] = []
        with Files(f"{folder}/application={in_path(logs[number][0].log_name)}", number) as written:
            stage_log(logs[number], written, reports)
        yield pa.RecordBatch.from_pydict({"report": [msgspec.json.encode(asdict(one)).decode() for one in reports]})


def stage_log(files: Sequence[LogFile], written: Files, reports: list[Report]) -> None:
    open_batches: dict[str, list[BatchFact]] = {}
    tasks: dict[str, int] = {}
    for batch in _batches(files, reports):
        query = batch.name or batch.query or batch.run
        open_batches.setdefault(query, []).append(batch)
        tasks[query] = tasks.get(query, 0) + len(batch.tasks) + 1
        if tasks[query] > _TASKS or sum(tasks.values()) > _ALL_TASKS:
            most = max(tasks, key=lambda name: tasks[name])
            written.add(most, open_batches.pop(most))
            del tasks[most]
    for query, batches in open_batches.items():
        written.add(query, batches)


def _batches(files: Sequence[LogFile], reports: list[Report]) -> Iterator[BatchFact]:
    """What is no event is passed over, counted and told."""
    joiner = Joiner(every_stage=True)
    for file in files:
        text = Text(piece := Piece(file.number, file.log, file.uri))
        number, bad, first_bad = 0, 0, None
        for line in (line for block in blocks(text, piece) for line in block):
            number += 1
            try:
                event = decode_line(line)
                facts = [] if event is None else list(joiner.take(event))
            except (msgspec.DecodeError, ValueError, RecursionError):
                bad, first_bad = bad + 1, first_bad or number
                continue
            for fact in facts:
                if isinstance(fact, BatchFact):
                    if is_time(fact.started_ms) and is_time(fact.committed_ms):
                        yield fact
                    else:  # a report on a batch of no time that a log can tell of
                        bad, first_bad = bad + 1, first_bad or number
        reports.append(Report(file.number, 0, number, bad, first_bad, text.problem, text.overlong))


class Files:
    """What one log says, a file for each query and day. A second try writes the same files."""

    def __init__(self, folder: str, number: int) -> None:
        self._folder, self._number = folder, number
        self._open: dict[str, tuple[str, Any]] = {}  # by query: the day, and its file
        self._days: dict[tuple[str, str], int] = {}  # how many files of a query and day there were

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *_: object) -> None:
        for _day, writer in self._open.values():
            writer.close()

    def add(self, query: str, batches: Sequence[BatchFact]) -> None:
        edges, names = make_edges(trace_batches(batches))
        self.write(query, fill_gaps(edges), names)

    def write(self, query: str, edges: Edges, names: Names) -> None:
        """By the day on which edges begin, in UTC, and in order of time."""
        edges = edges.taken(np.argsort(edges.start, kind="stable"))
        days = edges.start // _DAY
        for day in np.unique(days).tolist():
            part = edges.taken(days == day)
            self._file(query, day).write_table(edges_to_table(part, names), row_group_size=ROWS)

    def _file(self, query: str, number: int) -> Any:
        day = datetime.fromtimestamp(number * _DAY / TICKS / 1000, UTC).strftime("%Y-%m-%d")
        if query in self._open:
            of_day, writer = self._open[query]
            if of_day == day:
                return writer
            writer.close()
        times = self._days[query, day] = self._days.get((query, day), -1) + 1
        folder = f"{self._folder}/query={in_path(query)}/day={day}"
        system, path = open_filesystem(folder)
        system.create_dir(path)
        writer = pq.ParquetWriter(f"{path}/{self._number}-{times}.parquet", SCHEMA, filesystem=system)
        self._open[query] = day, writer
        return writer


def in_path(name: str) -> str:
    """As a part of a path. File systems take 255 bytes: of a name beyond them the beginning, and which one it is."""
    quoted = quote(name, safe="")
    if len(quoted) <= _NAME:
        return quoted
    return f"{quoted[:_NAME].rsplit('%', 1)[0]}-{blake2b(name.encode(), digest_size=6).hexdigest()}"
