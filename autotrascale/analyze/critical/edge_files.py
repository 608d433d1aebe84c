"""Logs → tables of edges in files, each log in one pass: `application=…/query=…/day=…` below a folder.

A query's batches become edges when they have some thousands of tasks, and these edges become row groups of a file. So
memory is bounded, and a reader of some hours reads only the row groups of these hours.

After each idle time a slot is launched by a message, and between batches the driver waits. So the time between the
batches that become edges together is a wait, and waits are no edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow.parquet as pq

from autotrascale.analyze.critical.edge_table import EDGES, edges_to_table
from autotrascale.analyze.critical.edges import TICKS, Edges, Names, make_edges
from autotrascale.analyze.critical.gaps import fill_gaps
from autotrascale.analyze.critical.spark_trace import trace_batches
from autotrascale.analyze.facts import BatchFact
from autotrascale.analyze.joiner import Joiner
from autotrascale.monitor.eventlog.archived_log import ArchivedLog
from autotrascale.monitor.eventlog.damage import Damage
from autotrascale.monitor.eventlog.log_files import LogFile, open_filesystem

_TASKS = 10_000  # of one query's batches, before edges are made of them
_ALL_TASKS = 50_000  # of the batches of all queries of an application
_GROUP_ROWS = 20_000
_LONGEST_NAME = 200
_DAY = 24 * 3600 * 1000 * TICKS


def write_edges(folder: str, log: Sequence[LogFile]) -> list[Damage]:
    """Write the edges of one log below `folder`, and return the parts of the log that could not be used."""
    source, joiner = ArchivedLog(log), Joiner(every_stage=True)
    waiting: dict[str, list[BatchFact]] = {}
    tasks: dict[str, int] = {}
    with EdgeFiles(f"{folder}/application={quote_for_path(log[0].log_name)}", log[0].log) as files:
        for fact in source.read(joiner.take):
            if not isinstance(fact, BatchFact):
                continue
            query = fact.name or fact.query or fact.run
            waiting.setdefault(query, []).append(fact)
            tasks[query] = tasks.get(query, 0) + len(fact.tasks) + 1
            if tasks[query] > _TASKS or sum(tasks.values()) > _ALL_TASKS:
                largest = max(tasks, key=lambda name: tasks[name])
                files.add(largest, waiting.pop(largest))
                del tasks[largest]
        for query, batches in waiting.items():
            files.add(query, batches)
    return source.damages


class EdgeFiles:
    """The edges of one log, in a file for each query and day. A second try writes the same files."""

    def __init__(self, folder: str, number: int) -> None:
        """Write below `folder`, into files whose names begin with `number`."""
        self._folder, self._number = folder, number
        self._open: dict[str, tuple[str, Any]] = {}  # by query: the day and its file
        self._files: dict[tuple[str, str], int] = {}  # number of files of a query and day

    def __enter__(self) -> EdgeFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for _day, writer in self._open.values():
            writer.close()

    def add(self, query: str, batches: Sequence[BatchFact]) -> None:
        """Write the edges of consecutive batches of a query."""
        edges, names = make_edges(trace_batches(batches))
        self.write(query, fill_gaps(edges), names)

    def write(self, query: str, edges: Edges, names: Names) -> None:
        """Write edges by the day on which they begin, in UTC, and in order of time."""
        edges = edges.taken(np.argsort(edges.start, kind="stable"))
        days = edges.start // _DAY
        for day in np.unique(days).tolist():
            part = edges.taken(days == day)
            self._file(query, day).write_table(edges_to_table(part, names), row_group_size=_GROUP_ROWS)

    def _file(self, query: str, number: int) -> Any:
        day = datetime.fromtimestamp(number * _DAY / TICKS / 1000, UTC).strftime("%Y-%m-%d")
        if query in self._open:
            open_day, writer = self._open[query]
            if open_day == day:
                return writer
            writer.close()
        count = self._files[query, day] = self._files.get((query, day), -1) + 1
        system, path = open_filesystem(f"{self._folder}/query={quote_for_path(query)}/day={day}")
        system.create_dir(path)
        writer = pq.ParquetWriter(f"{path}/{self._number}-{count}.parquet", EDGES, filesystem=system)
        self._open[query] = day, writer
        return writer


def quote_for_path(name: str) -> str:
    """Return `name` as a part of a path. A name that is too long for file systems ends with a hash of the whole."""
    quoted = quote(name, safe="")
    if len(quoted) <= _LONGEST_NAME:
        return quoted
    return f"{quoted[:_LONGEST_NAME].rsplit('%', 1)[0]}-{blake2b(name.encode(), digest_size=6).hexdigest()}"
