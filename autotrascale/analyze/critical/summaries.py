"""Critical participation of every edge, and its sums for each window (§3.2.2, §3.6).

    CP_e = c₁ c₂ ticks / (N · width)                        Eq. 3.3; all edges and waits of a window sum to 1

    summary    sums over                                                          first, second, third
    kinds      everything: activities, messages, waits                            kind
    timelines  the activities of a timeline (stragglers)                          timeline
    operators  the activities of an operator, on all timelines                    operator
    instances  the activities of one instance of an operator                      operator, -, instance
    exchanges  the messages from one timeline to another (communication)          from, to

Each sum also has the active time, which is the answer of a profile without paths. The reader divides an operator's
participation by its instances (the thesis: "normalized by the number of parallel workers"), so they are counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotrascale.analyze.critical.edges import NONE, UNKNOWN, WAITING, Edges, Numbers
from autotrascale.analyze.critical.graph import Graph
from autotrascale.analyze.critical.grouping import Groups, sum_by_group
from autotrascale.analyze.critical.paths import Floats, compute_path_shares


@dataclass(frozen=True)
class SummaryRows:
    """The rows of one summary. `window` is a window's number. -1 stands for a column without a value."""

    window: Numbers
    first: Numbers
    second: Numbers
    third: Numbers
    participation: Floats
    busy: Floats  # ticks
    instances: Numbers


@dataclass(frozen=True)
class WindowShares:
    """`of_edges` is the participation of each edge. The other arrays belong to `graph.windows`, as shares of one."""

    graph: Graph
    of_edges: Floats
    waiting: Floats
    uncovered: Floats


def measure_shares(edges: Edges, graph: Graph, levels: Numbers) -> WindowShares:
    """Return the participation of all edges, and the waits and the uncovered time of each window."""
    shares = compute_path_shares(graph, levels)
    of_pieces = shares[graph.piece_link] * graph.piece_ticks / graph.width
    on_edge = graph.piece_edge != NONE
    windows = len(graph.windows)
    waiting = sum_by_group(graph.link_window[graph.piece_link[~on_edge]], of_pieces[~on_edge], windows)
    of_edges = sum_by_group(graph.piece_edge[on_edge], of_pieces[on_edge], len(edges))
    return WindowShares(graph, of_edges, waiting, _uncovered(edges, graph))


def summarise_edges(edges: Edges, result: WindowShares) -> dict[str, SummaryRows]:
    """Return the rows of each summary, by its name."""
    participation = result.of_edges
    own, sent = np.flatnonzero(~edges.message), np.flatnonzero(edges.message)
    operated = own[edges.operator[own] != NONE]
    numbered = operated[edges.instance[operated] != NONE]
    none = np.full(len(edges), NONE)
    kinds = _rows(edges, participation, np.arange(len(edges)), edges.kind, none, none)
    return {
        "kinds": _with_waiting(kinds, result),
        "timelines": _rows(edges, participation, own, edges.source, none, none),
        "operators": _rows(edges, participation, operated, edges.operator, none, none),
        "instances": _rows(edges, participation, numbered, edges.operator, none, edges.instance),
        "exchanges": _rows(edges, participation, sent, edges.source, edges.target, none),
    }


def count_instances(edges: Edges, rows: Numbers, groups: Groups) -> Numbers:
    """Return the instances of each group's activities; the timelines where instances are not numbered."""
    own = ~edges.message[rows]
    numbered = own & (edges.instance[rows] != NONE)
    instances = _distinct(groups.of[numbered], edges.instance[rows][numbered], len(groups))
    timelines = _distinct(groups.of[own], edges.source[rows][own], len(groups))
    return np.where(instances > 0, instances, timelines)


def _distinct(group: Numbers, member: Numbers, groups: int) -> Numbers:
    return np.bincount(Groups(group, member).keys[0], minlength=groups)


def _rows(
    edges: Edges, participation: Floats, rows: Numbers, first: Numbers, second: Numbers, third: Numbers
) -> SummaryRows:
    groups = Groups(edges.window[rows], first[rows], second[rows], third[rows])
    ticks = edges.end[rows] - edges.start[rows]
    busy = groups.sums(ticks)
    window_, first_, second_, third_ = groups.keys
    return SummaryRows(
        window_, first_, second_, third_, groups.sums(participation[rows]), busy, count_instances(edges, rows, groups)
    )


def _with_waiting(kinds: SummaryRows, result: WindowShares) -> SummaryRows:
    """Add the waits of each window. Waits are no edges."""
    waits = np.flatnonzero(result.waiting > 0)
    none = np.full(len(waits), NONE)
    zeros = np.zeros(len(waits))
    return SummaryRows(
        np.r_[kinds.window, result.graph.windows[waits]],
        np.r_[kinds.first, np.full_like(none, WAITING)],
        np.r_[kinds.second, none],
        np.r_[kinds.third, none],
        np.r_[kinds.participation, result.waiting[waits]],
        np.r_[kinds.busy, zeros],
        np.r_[kinds.instances, none + 1],
    )


def _uncovered(edges: Edges, graph: Graph) -> Floats:
    """Return the share of each window without any known activity or message."""
    known = edges.taken((edges.kind != UNKNOWN) & (edges.kind != WAITING))
    window = np.searchsorted(graph.windows, known.window)
    begin, end = window * graph.width + known.start, window * graph.width + known.end
    order = np.argsort(begin, kind="stable")
    begin, end, window = begin[order], end[order], window[order]
    before = np.maximum.accumulate(np.r_[0, end])[:-1]
    covered = np.maximum(0, end - np.maximum(begin, before))
    return 1 - sum_by_group(window, covered, len(graph.windows)) / graph.width
