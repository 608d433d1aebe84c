"""Sweeps over all vertices of a graph in topological order, for many windows at once, level by level.

    symbol   meaning                                                              unit, shape
    level    links on the longest path to a vertex from a begin                   [V]
    least    least wait of any path to (from) a vertex                            ticks, [V]
    c₁, c₂   paths from a begin to a vertex, from a vertex to an end              counts, [V]
    N        paths from a begin to an end with the least wait                     counts, [windows]

Counts grow like 2^(links). Each is kept as a float in [½, 1) and a power of two (`frexp`), so that none overflows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotrascale.analyze.critical.edges import Numbers
from autotrascale.analyze.critical.graph import Graph

Floats = NDArray[np.float64]
_FAR = np.int64(2**60)  # longer than any path waits
_NOTHING = -(2**30)  # the power of two of a count of zero


def compute_path_shares(graph: Graph, levels: Numbers) -> Floats:
    """Return c₁ c₂ / N of each link (Def. 13): the share of its window's critical paths through it, [links]."""
    forwards = Sweep.over(graph.source, graph.target, levels)
    backwards = Sweep.over(graph.target, graph.source, -levels)
    came, goes = _least(graph, forwards, graph.starts), _least(graph, backwards, graph.ends)
    least = np.full(len(graph.windows), _FAR)
    np.minimum.at(least, graph.strand_window, came[graph.ends])

    best = least[graph.link_window]
    tight = came[graph.source] + graph.wait + goes[graph.target] == best
    starts = graph.starts[goes[graph.starts] == least[graph.strand_window]]
    ends = graph.ends[came[graph.ends] == least[graph.strand_window]]
    source, target = graph.source[tight], graph.target[tight]
    paths_to = _counts(graph.vertices, Sweep.over(source, target, levels), starts)
    paths_from = _counts(graph.vertices, Sweep.over(target, source, -levels), ends)
    return _shares(graph, tight, ends, paths_to, paths_from)


def compute_levels(vertices: int, source: Numbers, target: Numbers) -> Numbers:
    """Return the level of each vertex of an acyclic graph. A link leads to a higher level."""
    order = np.argsort(source, kind="stable")
    leads_to = target[order]
    first = np.searchsorted(source[order], np.arange(vertices + 1))
    awaited = np.bincount(target, minlength=vertices)
    levels, place = np.zeros(vertices, np.int64), np.zeros(vertices, np.int64)
    front, level = np.flatnonzero(awaited == 0), 0
    while len(front):
        levels[front] = level
        many = first[front + 1] - first[front]
        links = np.arange(many.sum()) + np.repeat(first[front] - np.cumsum(many) + many, many)
        reached = leads_to[links]
        np.subtract.at(awaited, reached, 1)
        front = _each_once(reached[awaited[reached] == 0], place)
        level += 1
    return levels


def _each_once(vertices: Numbers, place: Numbers) -> Numbers:
    """Return the distinct vertices in any order. `np.unique` takes longer for a few. `place` is scratch memory."""
    at = np.arange(len(vertices))
    place[vertices] = at
    once: Numbers = vertices[place[vertices] == at]
    return once


@dataclass(frozen=True)
class SweepStep:
    """A level: its links sorted by target vertex, and the place where the links of each vertex begin."""

    links: Numbers
    source: Numbers
    firsts: Numbers
    many: Numbers
    vertices: Numbers


@dataclass(frozen=True)
class Sweep:
    """A sweep through all levels. Each vertex comes after all vertices that lead to it."""

    links: Numbers
    source: Numbers
    firsts: Numbers  # of each vertex among the links
    vertices: Numbers
    bounds: Numbers  # of each level among the vertices

    @classmethod
    def over(cls, source: Numbers, target: Numbers, levels: Numbers) -> Sweep:
        """Return the sweep along these links."""
        links = np.lexsort((target, levels[target]))
        to = target[links]
        firsts = np.flatnonzero(np.r_[True, to[1:] != to[:-1]]) if len(to) else np.zeros(0, np.int64)
        vertices = to[firsts]
        level = levels[vertices]
        bounds = np.flatnonzero(np.r_[True, level[1:] != level[:-1], True]) if len(to) else np.zeros(1, np.int64)
        return cls(links, source[links], firsts, vertices, bounds)

    def steps(self) -> Iterator[SweepStep]:
        """Yield the levels in order."""
        until = np.r_[self.firsts, len(self.links)]
        bounds = self.bounds.tolist()
        at = until[self.bounds].tolist()
        many = np.diff(until)
        for k in range(len(bounds) - 1):
            of, among = slice(bounds[k], bounds[k + 1]), slice(at[k], at[k + 1])
            firsts = self.firsts[of] - at[k]
            yield SweepStep(self.links[among], self.source[among], firsts, many[of], self.vertices[of])


def _least(graph: Graph, sweep: Sweep, beginnings: Numbers) -> Numbers:
    least = np.full(graph.vertices, _FAR)
    least[beginnings] = 0
    for step in sweep.steps():
        waited = np.minimum(least[step.source] + graph.wait[step.links], _FAR)
        least[step.vertices] = np.minimum(least[step.vertices], np.minimum.reduceat(waited, step.firsts))
    return least


@dataclass(frozen=True)
class _Counts:
    """Counts as value · 2^power."""

    value: Floats
    power: Numbers


def _counts(vertices: int, sweep: Sweep, beginnings: Numbers) -> _Counts:
    value, power = np.zeros(vertices), np.full(vertices, _NOTHING)
    value[beginnings], power[beginnings] = 0.5, 1
    for step in sweep.steps():
        value[step.vertices], power[step.vertices] = _summed(value[step.source], power[step.source], step)
    return _Counts(value, power)


def _summed(value: Floats, power: Numbers, step: SweepStep) -> tuple[Floats, Numbers]:
    """Return Σ value · 2^power of the links to each vertex, relative to the greatest power among them."""
    greatest = np.maximum.reduceat(power, step.firsts)
    total = np.add.reduceat(np.ldexp(value, power - np.repeat(greatest, step.many)), step.firsts)
    value, more = np.frexp(total)
    return value, np.where(total > 0, greatest + more, _NOTHING)


def _shares(graph: Graph, tight: NDArray[np.bool_], ends: Numbers, paths_to: _Counts, paths_from: _Counts) -> Floats:
    window = graph.strand_window[graph.vertex_strand[ends]]
    order = np.argsort(window, kind="stable")
    window, ends = window[order], ends[order]
    firsts = np.flatnonzero(np.r_[True, window[1:] != window[:-1]])
    many = np.diff(np.r_[firsts, len(ends)])
    step = SweepStep(ends, ends, firsts, many, window[firsts])
    total, total_power = _summed(paths_to.value[ends], paths_to.power[ends], step)  # N: every window has a path
    of = graph.link_window
    value = paths_to.value[graph.source] * paths_from.value[graph.target] / total[of]
    power = paths_to.power[graph.source] + paths_from.power[graph.target] - total_power[of]
    return np.where(tight, np.ldexp(value, power), 0.0)
