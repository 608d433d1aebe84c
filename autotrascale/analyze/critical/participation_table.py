"""What was found of windows as one table: a row for each part of each summary, and for each case that was asked about.

column         meaning                                                                     unit
started_ms     when the window began                                                       ms since 1970
seconds        its length
summary        kinds, timelines, operators, instances, exchanges; a change; or `uncovered`
name, other    of what; of an exchange from where and where to; of a change the kind or operator
instance       the number of one
participation  in the critical paths; of `uncovered` the share of the window               of one
busy_ms        how long it was under way
instances      how many an operator had
at_best        of a change: what is left of the longest path                               of what it is now
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from autotrascale.analyze.archive.columns import Columns, arrow_schema
from autotrascale.analyze.critical.activities import Kind
from autotrascale.analyze.critical.edges import KINDS, NONE, TICKS, Edges, Names, Numbers, cut_into_windows
from autotrascale.analyze.critical.graph import Graph, build_graph
from autotrascale.analyze.critical.paths import Floats, compute_levels
from autotrascale.analyze.critical.summaries import SummaryRows, measure_shares, summarise_edges
from autotrascale.analyze.critical.what_if import WhatIfAnswer, answer_what_ifs
from autotrascale.domain.critical_path_report import (
    ALL,
    SUMMARIES,
    CriticalPathReport,
    PathShare,
    WhatIf,
    order_shares,
    order_what_ifs,
)

PARTS: Columns = {
    "started_ms": "double",
    "seconds": "double",
    "summary": "string",
    "name": "string",
    "other": "string",
    "instance": "bigint",
    "participation": "double",
    "busy_ms": "double",
    "instances": "bigint",
    "at_best": "double",
    "path_ms": "double",
}
UNCOVERED = "uncovered"
_SCHEMA = arrow_schema(PARTS)
_PATH = list(PARTS).index("path_ms")
_KINDS = tuple(kind.value for kind in KINDS)


def measure_parts(edges: Edges, names: Names, width: int) -> pa.Table:
    """Of edges that were `cut` to windows of `width` ticks."""
    if not len(edges):
        return _SCHEMA.empty_table()
    graph = build_graph(edges, width)
    levels = compute_levels(graph.vertices, graph.source, graph.target)
    result = measure_shares(edges, graph, levels)
    named = {"kinds": (_KINDS, _KINDS), "timelines": (names.timelines,) * 2, "exchanges": (names.timelines,) * 2}
    tables = [
        _summary(name, rows, *named.get(name, (names.operators,) * 2), graph.width)
        for name, rows in summarise_edges(edges, result).items()
    ]
    tables.append(_uncovered(graph, result.uncovered))
    tables += _changes(graph, answer_what_ifs(edges, graph, levels), names)
    return _with_paths(pa.concat_tables(tables), graph, 1 - result.waiting)


def measure_windows(
    edges: Edges, names: Names, seconds: float, *, application: str, query: str
) -> list[CriticalPathReport]:
    """Of whole traces that were `filled`: here and now, for as much as fits in memory."""
    width = round(seconds * 1000 * TICKS)
    rows = measure_parts(cut_into_windows(edges, width), names, width).to_pylist()
    return list(read_participations({"application": application, "query": query, **row} for row in rows))


def read_participations(rows: Iterable[Mapping[str, Any]]) -> Iterator[CriticalPathReport]:
    """Rows of parts, with their application and query, in any order → windows in order of time."""
    place = ("application", "query", "started_ms")
    in_order = sorted(rows, key=lambda row: tuple(row[name] for name in place))
    for (application, query, started_ms), own in groupby(in_order, key=lambda row: tuple(row[name] for name in place)):
        yield _participation(application, query, started_ms, list(own))


def _participation(
    application: str, query: str, started_ms: float, rows: list[Mapping[str, Any]]
) -> CriticalPathReport:
    of = {name: order_shares(read_part(row) for row in rows if row["summary"] == name) for name in SUMMARIES}
    waiting = sum(part.participation for part in of["kinds"] if part.name == Kind.waiting)
    uncovered = sum(row["participation"] for row in rows if row["summary"] == UNCOVERED)
    changes = order_what_ifs(
        WhatIf(row["summary"], row["name"], row["at_best"]) for row in rows if row["at_best"] is not None
    )
    return CriticalPathReport(
        application, query, round(started_ms), rows[0]["seconds"], waiting, uncovered, what_ifs=changes, **of
    )


def read_part(row: Mapping[str, Any]) -> PathShare:
    seconds = row["busy_ms"] / 1000
    part = PathShare(row["name"], row["participation"], seconds, row["other"] or "", row["instance"])
    return replace(part, instances=row["instances"]) if row["summary"] == "operators" else part


def _summary(name: str, rows: SummaryRows, first: tuple[str, ...], second: tuple[str, ...], width: int) -> pa.Table:
    return _table(
        rows.window,
        width,
        summary=pa.array([name] * len(rows.window)),
        name=_named(first, rows.first),
        other=_named(second, rows.second),
        instance=pa.array(rows.third, mask=rows.third == NONE),
        participation=pa.array(rows.participation),
        busy_ms=pa.array(rows.busy / TICKS),
        instances=pa.array(rows.instances),
    )


def _uncovered(graph: Graph, share: Floats) -> pa.Table:
    summary = pa.array([UNCOVERED] * len(share))
    return _table(graph.windows, graph.width, summary=summary, name=summary, participation=pa.array(share))


def _changes(graph: Graph, found: Iterator[WhatIfAnswer], names: Names) -> Iterator[pa.Table]:
    now = next(found).ticks
    for answer in found:
        some = np.flatnonzero(answer.said & (now > 0))
        of = (_KINDS if answer.change == "free" else names.operators)[answer.of] if answer.of != NONE else ALL
        yield _table(
            graph.windows[some],
            graph.width,
            summary=pa.array([answer.change] * len(some)),
            name=pa.array([of] * len(some), pa.string()),
            at_best=pa.array(answer.ticks[some] / now[some]),
        )


def _with_paths(table: pa.Table, graph: Graph, working: Floats) -> pa.Table:
    """Of each row its window's: all windows are there."""
    at = np.searchsorted(_started(graph.windows, graph.width), table["started_ms"].to_numpy())
    return table.set_column(_PATH, "path_ms", pa.array(working[at] * (graph.width / TICKS)))


def _started(windows: Numbers, width: int) -> Floats:
    return windows.astype(np.float64) * (width / TICKS)


def _table(windows: Numbers, width: int, **columns: pa.Array) -> pa.Table:
    """What a column is not given for is null."""
    columns["started_ms"] = pa.array(_started(windows, width))
    columns["seconds"] = pa.array(np.full(len(windows), width / TICKS / 1000))
    arrays = [
        columns[each.name].cast(each.type) if each.name in columns else pa.nulls(len(windows), each.type)
        for each in _SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def _named(names: tuple[str, ...], numbers: NDArray[Any]) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(numbers, mask=numbers == NONE))
