"""The length of a window's longest path if some part took less time, without waits.

    d_e    ticks of an edge; 0 for a wait, because waits follow from other edges
    f_se   share of d_e that is left in case s: 0 … 1
    L_s    max over paths of Σ f_se d_e, in one sweep of max and plus for many cases      ticks, [windows, S]

    case              f
    one-more, o       k/(k+1) for everything that grows with the records of operator o, with k instances in the window
    unlimited         0 for these edges, of all operators
    even, o           mean of o's instances / the instance's own, for each instance busier than the mean
    free, kind        0 for all edges of a kind

The same edges await each other as before, so L_s is a bound: no change of this kind makes the path shorter. Causes that
are not on the graph (the same slots for more instances, a lock, a disk) may make it longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotrascale.analyze.critical.activities import Kind
from autotrascale.analyze.critical.edges import KINDS, NONE, WAITING, Edges, Numbers
from autotrascale.analyze.critical.graph import Graph
from autotrascale.analyze.critical.grouping import Groups, sum_by_group
from autotrascale.analyze.critical.paths import Floats, Sweep
from autotrascale.analyze.critical.summaries import count_instances
from autotrascale.domain.critical_path_report import WhatIfChange

# Fixed costs of a task: one more instance pays them once more.
FIXED = frozenset({Kind.scheduling, Kind.deserialising, Kind.planning, Kind.offsets, Kind.log, Kind.commit})
_GROWS = np.array([kind not in FIXED for kind in KINDS])
_CASES_OF_SWEEP = 16  # a sweep keeps as many numbers for every vertex


@dataclass(frozen=True)
class WhatIfCase:
    """A case. `of` is the number of an operator or a kind, -1 for all. `left` is f of each edge."""

    change: WhatIfChange
    of: int
    left: Floats  # of each edge


@dataclass(frozen=True)
class WhatIfAnswer:
    """The longest paths of one case."""

    change: WhatIfChange
    of: int
    ticks: Floats  # of each window
    is_touched: NDArray[np.bool_]  # the window has an edge that the case changes


def measure_longest_paths(graph: Graph, levels: Numbers, lengths: Floats) -> Floats:
    """Return L of every window, [windows, S]; `lengths` are those of each link, [links, S]."""
    so_far = np.zeros((graph.vertices, lengths.shape[1]))
    for step in Sweep.over(graph.source, graph.target, levels).steps():
        came = so_far[step.source] + lengths[step.links]
        so_far[step.vertices] = np.maximum.reduceat(came, step.firsts, axis=0)
    most = np.zeros((len(graph.windows), lengths.shape[1]))
    np.maximum.at(most, graph.strand_window, so_far[graph.ends])
    return most


def answer_what_ifs(edges: Edges, graph: Graph, levels: Numbers) -> Iterator[WhatIfAnswer]:
    """Yield the longest paths of each case. The first case changes nothing."""
    cases = [WhatIfCase("free", NONE, np.ones(len(edges))), *_cases(edges)]
    for first in range(0, len(cases), _CASES_OF_SWEEP):
        some = cases[first : first + _CASES_OF_SWEEP]
        ticks = measure_longest_paths(graph, levels, _lengths(graph, np.stack([case.left for case in some], axis=1)))
        for n, case in enumerate(some):
            touched = np.zeros(len(graph.windows), bool)
            touched[np.searchsorted(graph.windows, edges.window[case.left < 1])] = True
            yield WhatIfAnswer(case.change, case.of, ticks[:, n], touched)


def _lengths(graph: Graph, left: Floats) -> Floats:
    on_edge = graph.piece_edge != NONE
    link, ticks = graph.piece_link[on_edge], graph.piece_ticks[on_edge]
    each = left[graph.piece_edge[on_edge]] * ticks[:, None]
    return np.stack([sum_by_group(link, column, len(graph.source)) for column in each.T], axis=1)


def _cases(edges: Edges) -> Iterator[WhatIfCase]:
    divided = _GROWS[edges.kind] & (edges.operator != NONE) & (edges.kind != WAITING)
    rows = np.flatnonzero(divided)
    one_more, even = _one_more(edges, rows), _even(edges, rows)
    for operator in np.unique(edges.operator[rows]).tolist():
        its = edges.operator == operator
        yield WhatIfCase("one-more", operator, np.where(its, one_more, 1.0))
        if (even[its] < 1).any():
            yield WhatIfCase("even", operator, np.where(its, even, 1.0))
    yield WhatIfCase("unlimited", NONE, np.where(divided, 0.0, 1.0))
    for kind in np.unique(edges.kind).tolist():
        yield WhatIfCase("free", kind, np.where(edges.kind == kind, 0.0, 1.0))


def _one_more(edges: Edges, rows: Numbers) -> Floats:
    groups = Groups(edges.window[rows], edges.operator[rows])
    k = np.maximum(1, count_instances(edges, rows, groups))
    left = np.ones(len(edges))
    left[rows] = (k / (k + 1))[groups.of]
    return left


def _even(edges: Edges, rows: Numbers) -> Floats:
    """Return f of the case `even`. It is 1 for messages and for edges without an instance."""
    rows = rows[(edges.instance[rows] != NONE) & ~edges.message[rows]]
    ticks = edges.end[rows] - edges.start[rows]
    single = Groups(edges.window[rows], edges.operator[rows], edges.instance[rows])
    operator = Groups(single.keys[0], single.keys[1])
    own = single.sums(ticks)
    mean = operator.sums(own) / np.maximum(1, np.bincount(operator.of, minlength=len(operator)))
    left = np.ones(len(edges))
    left[rows] = np.minimum(1.0, mean[operator.of] / np.maximum(own, 1.0))[single.of]
    return left
