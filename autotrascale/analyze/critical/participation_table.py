"""The results of windows as one table: a row for each part of each summary, and for each what-if case.

column         meaning                                                                     unit
started_ms     begin of the window                                                         ms since 1970
seconds        length of the window                                                        s
summary        kinds, timelines, operators, instances, exchanges; a change; or `uncovered`
name, other    subject of the row; an exchange leads from `name` to `other`
instance       number of an instance
participation  in the critical paths; of `uncovered` the share of the window               of one
busy_ms        time for which the subject was active                                       ms
instances      instances of an operator
at_best        length of the longest path after a change                                   of its present length
path_ms        time for which the window's critical paths work                             ms
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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

PARTS = pa.schema(
    [
        ("started_ms", pa.float64()),
        ("seconds", pa.float64()),
        ("summary", pa.string()),
        ("name", pa.string()),
        ("other", pa.string()),
        ("instance", pa.int64()),
        ("participation", pa.float64()),
        ("busy_ms", pa.float64()),
        ("instances", pa.int64()),
        ("at_best", pa.float64()),
        ("path_ms", pa.float64()),
    ]
)
UNCOVERED = "uncovered"
_KINDS = tuple(kind.value for kind in KINDS)


def measure_parts(edges: Edges, names: Names, width: int) -> pa.Table:
    """Return the parts of edges that were cut to windows of `width` ticks."""
    if not len(edges):
        return PARTS.empty_table()
    graph = build_graph(edges, width)
    levels = compute_levels(graph.vertices, graph.source, graph.target)
    result = measure_shares(edges, graph, levels)
    names_of = {"kinds": (_KINDS, _KINDS), "timelines": (names.timelines,) * 2, "exchanges": (names.timelines,) * 2}
    tables = [
        _summary(name, rows, *names_of.get(name, (names.operators,) * 2), graph.width)
        for name, rows in summarise_edges(edges, result).items()
    ]
    tables.append(_uncovered(graph, result.uncovered))
    tables += _changes(graph, answer_what_ifs(edges, graph, levels), names)
    return _with_paths(pa.concat_tables(tables), graph, 1 - result.waiting)


def measure_windows(
    edges: Edges, names: Names, seconds: float, *, application: str, query: str
) -> list[CriticalPathReport]:
    """Return the windows of whole traces whose gaps were filled, in memory."""
    width = round(seconds * 1000 * TICKS)
    rows = measure_parts(cut_into_windows(edges, width), names, width).to_pylist()
    return list(read_reports({"application": application, "query": query, **row} for row in rows))


def read_reports(rows: Iterable[Mapping[str, Any]]) -> Iterator[CriticalPathReport]:
    """Yield the windows of rows with their application and query, in order of time. Rows may come in any order."""
    place = itemgetter("application", "query", "started_ms")
    for (application, query, started_ms), own in groupby(sorted(rows, key=place), key=place):
        yield _report(application, query, started_ms, list(own))


def _report(application: str, query: str, started_ms: float, rows: list[Mapping[str, Any]]) -> CriticalPathReport:
    shares = {name: order_shares(_share(row) for row in rows if row["summary"] == name) for name in SUMMARIES}
    waiting = sum(share.participation for share in shares["kinds"] if share.name == Kind.waiting)
    uncovered = sum(row["participation"] for row in rows if row["summary"] == UNCOVERED)
    changes = order_what_ifs(
        WhatIf(row["summary"], row["name"], row["at_best"]) for row in rows if row["at_best"] is not None
    )
    return CriticalPathReport(
        application, query, round(started_ms), rows[0]["seconds"], waiting, uncovered, what_ifs=changes, **shares
    )


def _share(row: Mapping[str, Any]) -> PathShare:
    share = PathShare(row["name"], row["participation"], row["busy_ms"] / 1000, row["other"] or "", row["instance"])
    return replace(share, instances=row["instances"]) if row["summary"] == "operators" else share


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
        some = np.flatnonzero(answer.is_touched & (now > 0))
        of = (_KINDS if answer.change == "free" else names.operators)[answer.of] if answer.of != NONE else ALL
        yield _table(
            graph.windows[some],
            graph.width,
            summary=pa.array([answer.change] * len(some)),
            name=pa.array([of] * len(some), pa.string()),
            at_best=pa.array(answer.ticks[some] / now[some]),
        )


def _with_paths(table: pa.Table, graph: Graph, working: Floats) -> pa.Table:
    """Fill the column `path_ms` of each row with the value of its window."""
    at = np.searchsorted(_started(graph.windows, graph.width), table["started_ms"].to_numpy())
    column = table.schema.get_field_index("path_ms")
    return table.set_column(column, "path_ms", pa.array(working[at] * (graph.width / TICKS)))


def _started(windows: Numbers, width: int) -> Floats:
    return windows.astype(np.float64) * (width / TICKS)


def _table(windows: Numbers, width: int, **columns: pa.Array) -> pa.Table:
    """Return a table of parts. A column that is not given is null."""
    columns["started_ms"] = pa.array(_started(windows, width))
    columns["seconds"] = pa.array(np.full(len(windows), width / TICKS / 1000))
    arrays = [
        columns[each.name].cast(each.type) if each.name in columns else pa.nulls(len(windows), each.type)
        for each in PARTS
    ]
    return pa.Table.from_arrays(arrays, schema=PARTS)


def _named(names: tuple[str, ...], numbers: NDArray[Any]) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(numbers, mask=numbers == NONE))
