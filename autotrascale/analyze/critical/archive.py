"""Tables of edges → parts of all windows, on PySpark: blocks of windows side by side.

    with local_session() as spark, workspace() as folder:
        damages = stage(spark, ["/logs"], f"{folder}/edges")
        parts = analysed(spark, f"{folder}/edges", 10.0)

A block is as many windows as have some 100,000 edges; files say in their last bytes which group of rows is of what
time, so the blocks are known before a row is read, and who works on one reads what it needs, from files that it must be
able to reach. Memory grows with the edges of one block, or of one window where that has more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileType
from pyspark.sql import DataFrame, SparkSession

from autotrascale.analyze.archive.columns import Columns, arrow_schema, ddl
from autotrascale.analyze.critical.edge_table import EDGES, table_to_edges
from autotrascale.analyze.critical.edges import TICKS, cut_into_windows
from autotrascale.analyze.critical.participation_table import PARTS, measure_parts
from autotrascale.domain.errors import InputError
from autotrascale.monitor.eventlog.log_files import is_address, open_filesystem

WHOLE: Columns = {"application": "string", "query": "string", "day": "string", **PARTS}
_SCHEMA = arrow_schema(WHOLE)
_BLOCK = 100_000  # edges
_BLOCK_WINDOWS = 20_000
MOST_WINDOWS = 50_000_000  # between the first edge and the last of a query


@dataclass(frozen=True)
class Group:
    """A group of rows of a file, and from when to when its edges are."""

    uri: str
    number: int
    rows: int
    begins: int
    ends: int


@dataclass(frozen=True)
class Block:
    """The windows from `first` up to `last`, without that, of one query."""

    application: str
    query: str
    first: int
    last: int
    groups: tuple[Group, ...]


def analysed(spark: SparkSession, folder: str, seconds: float) -> DataFrame:
    """The parts of every window in which something was under way; windows are counted from 1970."""
    width = round(seconds * 1000 * TICKS)
    queries = groups_below(folder)
    for (_, query), groups in queries.items():
        _check_windows(query, groups, seconds)
    work = [block for of, groups in queries.items() for block in blocks_of(*of, groups, width)]
    shares = spark.range(0, len(work), 1, max(1, len(work)))
    return shares.mapInArrow(partial(_analysed, work, width), ddl(WHOLE))


def _check_windows(query: str, groups: Sequence[Group], seconds: float) -> None:
    spans = (max(group.ends for group in groups) - min(group.begins for group in groups)) / TICKS / 1000
    if spans / seconds > MOST_WINDOWS:
        raise InputError(
            "--window",
            f"cuts the {spans:,.0f} s of {query} into more than {MOST_WINDOWS:,} windows",
            seen=f"{seconds:g}",
            remedy="give longer ones, or a part of the logs",
        )


def groups_below(folder: str) -> dict[tuple[str, str], list[Group]]:
    """By application and query."""
    system, top = open_filesystem(folder)
    scheme = folder.rsplit(top, 1)[0] if is_address(folder) else ""
    found: dict[tuple[str, str], list[Group]] = defaultdict(list)
    for info in system.get_file_info(FileSelector(top, recursive=True, allow_not_found=True)):
        if info.type == FileType.File and info.path.endswith(".parquet"):
            of = dict(part.split("=", 1) for part in info.path[len(top) :].split("/") if "=" in part)
            if {"application", "query"} <= of.keys():
                key = unquote(of["application"]), unquote(of["query"])
                found[key] += _groups(pq.ParquetFile(info.path, filesystem=system), f"{scheme}{info.path}")
    return dict(found)


def _groups(file: pq.ParquetFile, uri: str) -> Iterator[Group]:
    names = file.schema_arrow.names
    if missing := [name for name in EDGES if name not in names]:
        raise InputError(uri, f"has no column {missing[0]}", remedy="give a folder that edges were staged in")
    start, end = names.index("start"), names.index("end")
    for number in range(file.num_row_groups):
        rows = file.metadata.row_group(number)
        begins, ends = rows.column(start).statistics, rows.column(end).statistics
        yield Group(uri, number, rows.num_rows, begins.min, ends.max)


def blocks_of(application: str, query: str, groups: Sequence[Group], width: int) -> Iterator[Block]:
    """All windows in which the groups have anything, in blocks of about equal work."""
    in_order = sorted(groups, key=lambda group: group.begins)
    first, rows, bounds = in_order[0].begins // width, 0, []
    for group in in_order:
        at = group.begins // width
        if rows >= _BLOCK and at > first:
            bounds.append((first, at))
            first, rows = at, 0
        rows += group.rows
    bounds.append((first, max(group.ends for group in groups) // width + 1))
    for low, high in (part for bound in bounds for part in _in_parts(*bound)):
        its = tuple(group for group in in_order if group.begins < high * width and group.ends >= low * width)
        if its:
            yield Block(application, query, low, high, its)


def _in_parts(first: int, last: int) -> Iterator[tuple[int, int]]:
    for low in range(first, last, _BLOCK_WINDOWS):
        yield low, min(low + _BLOCK_WINDOWS, last)


def _analysed(work: Sequence[Block], width: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for number in (number for batch in batches for number in batch.column(0).to_pylist()):
        yield from parts_of_block(work[number], width).to_batches()


def parts_of_block(block: Block, width: int) -> pa.Table:
    edges, names = table_to_edges(_read(block.groups))
    low, high = block.first * width, block.last * width
    own = edges.taken((edges.start < high) & (edges.end >= low))
    within = replace(own, start=np.maximum(own.start, low), end=np.minimum(own.end, high))
    parts = measure_parts(cut_into_windows(within, width), names, width)
    days = pc.strftime(parts["started_ms"].cast(pa.int64(), safe=False).cast(pa.timestamp("ms")), "%Y-%m-%d")
    said = [pa.array([name] * len(parts), pa.string()) for name in (block.application, block.query)]
    return pa.Table.from_arrays([*said, days, *parts.columns], schema=_SCHEMA)


def _read(groups: Iterable[Group]) -> pa.Table:
    by_file: dict[str, list[int]] = defaultdict(list)
    for group in groups:
        by_file[group.uri].append(group.number)
    tables = []
    for uri, numbers in by_file.items():
        system, path = open_filesystem(uri)
        tables.append(pq.ParquetFile(path, filesystem=system).read_row_groups(numbers, columns=list(EDGES)))
    return pa.concat_tables(tables)
