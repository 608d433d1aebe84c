"""The longest path of records through the operators of a job, from its sources to its sinks.

    symbol  meaning                                             shape
    n, N    configurations; operators
    ks      instances of each operator                          (n, N)
    each    time that a record takes at each operator           (n, N)

A join waits for its slower branch, so the longest path determines the latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DataflowPaths:
    """The paths of a graph. `upstream[i]` has the positions of the operators that operator i reads from."""

    upstream: tuple[tuple[int, ...], ...]

    @classmethod
    def chain(cls, operators: int) -> DataflowPaths:
        """Return the paths of operators in a chain."""
        return cls(((), *((i,) for i in range(operators - 1))))

    @cached_property
    def is_straight(self) -> bool:
        """True when one path contains every operator, so no other path is longer."""
        return self.steps == len(self.upstream)

    @cached_property
    def steps(self) -> int:
        """Number of operators on the path with most operators."""
        reached: dict[int, int] = {}
        for i in self._order:
            reached[i] = 1 + max((reached[up] for up in self.upstream[i]), default=0)
        return max(reached.values())

    def channels(self, ks: Floats) -> Floats:
        """Return the number of channels into each operator, shape (n, N): k_i times the instances of its upstreams."""
        return np.asarray(ks * (ks @ self._feeds))

    def longest(self, each: Floats) -> tuple[Floats, Floats]:
        """Return the length of the longest path (n,), and 1 for each operator on it (n, N), from times `each`."""
        if self.is_straight:
            return each.sum(axis=1), np.ones_like(each)
        rows, arrived = np.arange(len(each)), np.zeros_like(each)
        before = np.full(each.shape, -1)
        for i in self._order:
            up = np.array(self.upstream[i], dtype=int)
            if len(up):
                before[:, i] = up[arrived[:, up].argmax(axis=1)]
            arrived[:, i] = each[:, i] + np.where(before[:, i] < 0, 0.0, arrived[rows, before[:, i]])
        ends = np.array(self._sinks)
        at = ends[arrived[:, ends].argmax(axis=1)]
        length, on_path = arrived[rows, at], np.zeros_like(each)
        for _ in range(self.steps):
            there = at >= 0
            on_path[rows[there], at[there]] = 1.0
            at = np.where(there, before[rows, at], -1)
        return length, on_path

    @cached_property
    def _feeds(self) -> Floats:
        """Matrix with 1 where the operator of the row feeds the operator of the column."""
        feeds = np.zeros((len(self.upstream), len(self.upstream)))
        for i, up in enumerate(self.upstream):
            feeds[list(up), i] = 1.0
        return feeds

    @cached_property
    def _sinks(self) -> Sequence[int]:
        fed = {up for each in self.upstream for up in each}
        return [i for i in range(len(self.upstream)) if i not in fed]

    @cached_property
    def _order(self) -> Sequence[int]:
        """Positions of the operators, every upstream before its downstreams."""
        return tuple(TopologicalSorter(dict(enumerate(self.upstream))).static_order())
