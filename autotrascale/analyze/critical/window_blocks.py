"""Files of edges → blocks of windows, which are measured independently of each other.

A block is as many windows as have about 100,000 edges. Parquet files say in their last bytes which row group is of
which time. So the blocks are known before a row is read, and a block reads only its own row groups. Memory grows with
the edges of one block, or of one window where that has more edges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileType

from autotrascale.analyze.critical.edge_table import EDGES, table_to_edges
from autotrascale.analyze.critical.edges import TICKS, cut_into_windows
from autotrascale.analyze.critical.participation_table import PARTS, measure_parts
from autotrascale.domain.errors import InputError
from autotrascale.monitor.eventlog.log_files import is_address, open_filesystem

# The parts of `participation_table`, with the query and the day that they are of.
QUERY_PARTS = pa.schema([*((name, pa.string()) for name in ("application", "query", "day")), *PARTS])
_BLOCK_EDGES = 100_000
_BLOCK_WINDOWS = 20_000
MOST_WINDOWS = 50_000_000  # between the first edge and the last edge of a query


@dataclass(frozen=True)
class RowGroup:
    """A row group of a file, with the times of its first and last edge in ticks."""

    uri: str
    number: int
    rows: int
    begins: int
    ends: int


@dataclass(frozen=True)
class Block:
    """The windows of one query from `first` up to, but not including, `last`. `number` orders the blocks."""

    number: int
    application: str
    query: str
    first: int
    last: int
    groups: tuple[RowGroup, ...]


def find_blocks(folder: str, seconds: float) -> list[Block]:
    """Return the blocks of all queries below `folder`, by query and time.

    Raises `InputError` where the windows of a query would be too many.
    """
    width = round(seconds * 1000 * TICKS)
    found: list[Block] = []
    for (application, query), groups in sorted(find_row_groups(folder).items()):
        _check_window_count(query, groups, seconds)
        found += make_blocks(application, query, groups, width, len(found))
    return found


def _check_window_count(query: str, groups: Sequence[RowGroup], seconds: float) -> None:
    spans = (max(group.ends for group in groups) - min(group.begins for group in groups)) / TICKS / 1000
    if spans / seconds > MOST_WINDOWS:
        raise InputError(
            "--window",
            f"cuts the {spans:,.0f} s of {query} into more than {MOST_WINDOWS:,} windows",
            seen=f"{seconds:g}",
            remedy="give longer windows, or a part of the logs",
        )


def find_row_groups(folder: str) -> dict[tuple[str, str], list[RowGroup]]:
    """Return the row groups of all files below `folder`, by application and query."""
    system, top = open_filesystem(folder)
    scheme = folder.rsplit(top, 1)[0] if is_address(folder) else ""
    found: dict[tuple[str, str], list[RowGroup]] = defaultdict(list)
    for info in system.get_file_info(FileSelector(top, recursive=True, allow_not_found=True)):
        if info.type == FileType.File and info.path.endswith(".parquet"):
            named = dict(part.split("=", 1) for part in info.path[len(top) :].split("/") if "=" in part)
            if {"application", "query"} <= named.keys():
                key = unquote(named["application"]), unquote(named["query"])
                found[key] += _row_groups(pq.ParquetFile(info.path, filesystem=system), f"{scheme}{info.path}")
    return dict(found)


def _row_groups(file: pq.ParquetFile, uri: str) -> Iterator[RowGroup]:
    names = file.schema_arrow.names
    if missing := [name for name in EDGES.names if name not in names]:
        raise InputError(uri, f"has no column {missing[0]}", remedy="give a folder that edges were written into")
    start, end = names.index("start"), names.index("end")
    for number in range(file.num_row_groups):
        rows = file.metadata.row_group(number)
        begins, ends = rows.column(start).statistics, rows.column(end).statistics
        yield RowGroup(uri, number, rows.num_rows, begins.min, ends.max)


def make_blocks(
    application: str, query: str, groups: Sequence[RowGroup], width: int, number: int = 0
) -> Iterator[Block]:
    """Yield the windows of `width` ticks that the groups touch, in blocks of about equal work, from `number` on."""
    ordered = sorted(groups, key=lambda group: group.begins)
    first, rows, bounds = ordered[0].begins // width, 0, []
    for group in ordered:
        at = group.begins // width
        if rows >= _BLOCK_EDGES and at > first:
            bounds.append((first, at))
            first, rows = at, 0
        rows += group.rows
    bounds.append((first, max(group.ends for group in groups) // width + 1))
    for low, high in (part for bound in bounds for part in _split(*bound)):
        own = tuple(group for group in ordered if group.begins < high * width and group.ends >= low * width)
        if own:
            yield Block(number, application, query, low, high, own)
            number += 1


def _split(first: int, last: int) -> Iterator[tuple[int, int]]:
    for low in range(first, last, _BLOCK_WINDOWS):
        yield low, min(low + _BLOCK_WINDOWS, last)


def measure_block(block: Block, width: int) -> pa.Table:
    """Return the parts of all windows of a block. Windows of `width` ticks are counted from 1970."""
    edges, names = table_to_edges(_read(block.groups))
    low, high = block.first * width, block.last * width
    own = edges.taken((edges.start < high) & (edges.end >= low))
    within = replace(own, start=np.maximum(own.start, low), end=np.minimum(own.end, high))
    parts = measure_parts(cut_into_windows(within, width), names, width)
    days = pc.strftime(parts["started_ms"].cast(pa.int64(), safe=False).cast(pa.timestamp("ms")), "%Y-%m-%d")
    query = [pa.array([name] * len(parts), pa.string()) for name in (block.application, block.query)]
    return pa.Table.from_arrays([*query, days, *parts.columns], schema=QUERY_PARTS)


def _read(groups: Iterable[RowGroup]) -> pa.Table:
    by_file: dict[str, list[int]] = defaultdict(list)
    for group in groups:
        by_file[group.uri].append(group.number)
    tables = []
    for uri, numbers in by_file.items():
        system, path = open_filesystem(uri)
        tables.append(pq.ParquetFile(path, filesystem=system).read_row_groups(numbers, columns=EDGES.names))
    return pa.concat_tables(tables)
