"""The program activity graph of a window, of many windows at once.

    symbol   meaning                                                        unit, shape
    strand   a timeline of a window                                         —
    code     a place on all strands in order: strand, tick, side            whole number
    V        vertices: the beginnings and ends of strands, and wherever a message is sent or received
    link     an edge of the graph: from a vertex to the next of its strand, or a message
    piece    what one activity does within one link of a strand, or a wait there
    wait     how long a link waits                                          ticks, [links]

Vertices where no message comes or goes are left out: whatever passes one end of such a stretch passes the other. So
links are few, and each has the pieces that lie in it.

Where one activity ends and the next begins in the same tick, messages sent come before messages received (side 0, then
1): the result of a task is no consequence of the next one's launch, on the same slot in the same millisecond. Messages
without duration that would still lead in a circle, within one tick, are left out.

Waits: in the thesis no critical path waits, and one that cannot but wait has no answer. Here every strand is a way from
the beginning of its window to the end, and paths wait as little as any path can: see `paths`. Where some path need not
wait at all, that is the thesis's own answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotrascale.analyze.critical.edges import NONE, Edges, Numbers


@dataclass(frozen=True)
class Graph:
    """`windows` are those that there are, in order; whatever belongs to one of them says its place there."""

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
        return len(self.vertex_strand)

    @property
    def link_strand(self) -> Numbers:
        """Of a message that where it was sent."""
        return self.vertex_strand[self.source]

    @property
    def link_window(self) -> Numbers:
        return self.strand_window[self.link_strand]


def build_graph(edges: Edges, width: int) -> Graph:
    """Of edges that were `cut` to windows of `width` ticks."""
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
    """In order, as `np.unique` has them, which makes a table of hashes first and takes far longer."""
    ordered = np.sort(values)
    return ordered[np.r_[True, ordered[1:] != ordered[:-1]]] if len(ordered) else ordered


def _among(values: Numbers, ordered: Numbers) -> NDArray[np.bool_]:
    if not len(ordered):
        return np.zeros(len(values), bool)
    at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    there: NDArray[np.bool_] = ordered[at] == values
    return there


def _strands(edges: Edges) -> tuple[Numbers, Numbers, Numbers]:
    """(window, timeline) of each, in order, and those on which edges begin and end."""
    many = int(max(edges.source.max(initial=0), edges.target.max(initial=0))) + 1
    keys = np.concatenate([edges.window * many + edges.source, edges.window * many + edges.target])
    there, number = np.unique(keys, return_inverse=True)
    return np.stack([there // many, there % many], axis=1), number[: len(edges)], number[len(edges) :]


def _covering(codes: Numbers, activities: Numbers, begin: Numbers, end: Numbers) -> Numbers:
    """Which activity is under way from here to the next code; NONE: none."""
    if not len(activities):
        return np.full(len(codes), NONE)
    ordered = activities[np.argsort(begin[activities], kind="stable")]
    at = np.searchsorted(begin[ordered], codes, side="right") - 1
    return np.where((at >= 0) & (end[ordered[at]] > codes), ordered[at], NONE)


def _in_order(sent: Numbers, received: Numbers, at_once: NDArray[np.bool_], vertex: Numbers) -> NDArray[np.bool_]:
    """All messages but those that lead, within one tick, in a circle and from a later timeline to an earlier one."""
    instant = np.flatnonzero(at_once)
    seams = np.flatnonzero((vertex[1:] - vertex[:-1] == 1) & (vertex[:-1] % 2 == 0))
    source, target = np.concatenate([sent[instant], seams]), np.concatenate([received[instant], seams + 1])
    back = _circular(source, target) & (source >= target)
    sound = np.ones(len(sent), bool)
    sound[instant[back[: len(instant)]]] = False
    return sound


def _circular(source: Numbers, target: Numbers) -> NDArray[np.bool_]:
    """Which of these links are part of a circle, or lead from one to another: what is left when those that nothing
    leads to, and those that lead nowhere, are taken away again and again."""
    left = np.ones(len(source), bool)
    while True:
        fewer = left & np.isin(source, target[left]) & np.isin(target, source[left])
        if fewer.sum() == left.sum():
            return fewer
        left = fewer
