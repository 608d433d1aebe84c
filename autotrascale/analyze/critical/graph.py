"""The program activity graph of a window, of many windows at once.

    symbol   meaning                                                        unit, shape
    strand   a timeline within a window                                     —
    code     a place on all strands in order: strand, tick, side            whole number
    V        vertices: begins and ends of strands, and places where a message is sent or received
    link     an edge of the graph: from a vertex to the next of its strand, or a message
    piece    an activity within one link of a strand, or a wait there
    wait     waiting time of a link                                         ticks, [links]

A place without messages is no vertex: every path through one end of such a stretch passes the other end. So links are
few, and each has the pieces that lie in it.

Where one activity ends and the next begins in the same tick, messages sent come before messages received (side 0, then
1): the result of a task is no consequence of the next task's launch on the same slot in the same millisecond. Messages
without duration that would still form a cycle within one tick are left out.

Waits: in the thesis no critical path waits, and a path that must wait has no answer. Here every strand leads from the
begin of its window to the end, and paths wait as little as any path can (`paths`). Where a path without waits exists,
the result is the thesis's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotrascale.analyze.critical.edges import NONE, Edges, Numbers


@dataclass(frozen=True)
class Graph:
    """The graph of all windows. `windows` holds their numbers in order; other arrays refer to places in it."""

    windows: Numbers
    width: int  # ticks
    strand_timeline: Numbers
    strand_window: Numbers  # place in `windows`
    vertex_strand: Numbers
    starts: Numbers  # the first vertex of each strand
    ends: Numbers
    source: Numbers  # of each link; those along strands come first
    target: Numbers
    wait: Numbers
    piece_link: Numbers
    piece_edge: Numbers  # the activity or message; NONE where it waits
    piece_ticks: Numbers

    @property
    def vertices(self) -> int:
        """The number of vertices."""
        return len(self.vertex_strand)

    @property
    def link_strand(self) -> Numbers:
        """The strand of each link; of a message, the sender's strand."""
        return self.vertex_strand[self.source]

    @property
    def link_window(self) -> Numbers:
        """The place of each link's window."""
        return self.strand_window[self.link_strand]


def build_graph(edges: Edges, width: int) -> Graph:
    """Return the graph of edges that were cut to windows of `width` ticks."""
    messages, activities = np.flatnonzero(edges.message), np.flatnonzero(~edges.message)
    strands, source, target = _strands(edges)
    span = 2 * width + 2  # codes of a strand
    begin, end = source * span + 2 * edges.start, target * span + 2 * edges.end
    ends = _distinct(end[activities])
    seam = ends[_among(ends, _distinct(begin[activities]))]
    begin = np.where(_among(begin, seam), begin + (~edges.message), begin)
    end = np.where(edges.message & _among(end, seam), end + 1, end)

    first = np.arange(len(strands)) * span
    last = first + 2 * width
    vertex = _distinct(np.concatenate([first, last, begin[messages], end[messages]]))
    along = np.flatnonzero(~_among(vertex, last))  # a link leads from each of these to the next
    codes = _distinct(np.concatenate([vertex, begin[activities], end[activities]]))
    pieces = np.flatnonzero(~_among(codes, last))
    covering = _covering(codes[pieces], activities, begin, end)
    ticks = codes[pieces + 1] // 2 - codes[pieces] // 2  # within a strand: a span is even
    of_vertex = np.searchsorted(vertex, codes[pieces], side="right") - 1
    of_link = np.searchsorted(along, of_vertex)

    sent, received = np.searchsorted(vertex, begin[messages]), np.searchsorted(vertex, end[messages])
    sound = _in_order(sent, received, edges.start[messages] == edges.end[messages], vertex)
    messages, sent, received = messages[sound], sent[sound], received[sound]
    wait = np.zeros(len(along) + len(messages), np.int64)
    np.add.at(wait, of_link, np.where(covering == NONE, ticks, 0))
    windows, strand_window = np.unique(strands[:, 0], return_inverse=True)
    return Graph(
        windows=windows,
        width=width,
        strand_timeline=strands[:, 1],
        strand_window=strand_window,
        vertex_strand=vertex // span,
        starts=np.searchsorted(vertex, first),
        ends=np.searchsorted(vertex, last),
        source=np.concatenate([along, sent]),
        target=np.concatenate([along + 1, received]),
        wait=wait,
        piece_link=np.concatenate([of_link, len(along) + np.arange(len(messages))]),
        piece_edge=np.concatenate([covering, messages]),
        piece_ticks=np.concatenate([ticks, edges.end[messages] - edges.start[messages]]),
    )


def _distinct(values: Numbers) -> Numbers:
    """Return the distinct values in order. `np.unique` builds a hash table first and takes far longer."""
    ordered = np.sort(values)
    return ordered[np.r_[True, ordered[1:] != ordered[:-1]]] if len(ordered) else ordered


def _among(values: Numbers, ordered: Numbers) -> NDArray[np.bool_]:
    if not len(ordered):
        return np.zeros(len(values), bool)
    at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    there: NDArray[np.bool_] = ordered[at] == values
    return there


def _strands(edges: Edges) -> tuple[Numbers, Numbers, Numbers]:
    """Return (window, timeline) of each strand in order, and the strands where edges begin and end."""
    many = int(max(edges.source.max(initial=0), edges.target.max(initial=0))) + 1
    keys = np.concatenate([edges.window * many + edges.source, edges.window * many + edges.target])
    there, number = np.unique(keys, return_inverse=True)
    return np.stack([there // many, there % many], axis=1), number[: len(edges)], number[len(edges) :]


def _covering(codes: Numbers, activities: Numbers, begin: Numbers, end: Numbers) -> Numbers:
    """Return the activity from each code to the next one, NONE without any."""
    if not len(activities):
        return np.full(len(codes), NONE)
    ordered = activities[np.argsort(begin[activities], kind="stable")]
    at = np.searchsorted(begin[ordered], codes, side="right") - 1
    return np.where((at >= 0) & (end[ordered[at]] > codes), ordered[at], NONE)


def _in_order(sent: Numbers, received: Numbers, at_once: NDArray[np.bool_], vertex: Numbers) -> NDArray[np.bool_]:
    """Tell which messages to keep: all but those in a cycle within one tick that lead back to an earlier timeline."""
    instant = np.flatnonzero(at_once)
    seams = np.flatnonzero((vertex[1:] - vertex[:-1] == 1) & (vertex[:-1] % 2 == 0))
    source, target = np.concatenate([sent[instant], seams]), np.concatenate([received[instant], seams + 1])
    back = _circular(source, target) & (source >= target)
    sound = np.ones(len(sent), bool)
    sound[instant[back[: len(instant)]]] = False
    return sound


def _circular(source: Numbers, target: Numbers) -> NDArray[np.bool_]:
    """Tell which links are part of a cycle, or lead from one cycle to another.

    These links remain when links without predecessor and links without successor are removed again and again.
    """
    left = np.ones(len(source), bool)
    while True:
        fewer = left & np.isin(source, target[left]) & np.isin(target, source[left])
        if fewer.sum() == left.sum():
            return fewer
        left = fewer
