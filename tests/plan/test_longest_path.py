"""The longest path through a job, compared with all paths."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.plan.search.longest_path import DataflowPaths
from autotrascale.plan.sizing.sizing import Sizing


@st.composite
def graphs(draw: st.DrawFn) -> tuple[tuple[int, ...], ...]:
    """Draw an acyclic graph with operators in any order."""
    n = draw(st.integers(1, 7))
    place = draw(st.permutations(range(n)))
    upstream: list[tuple[int, ...]] = [()] * n
    for i in range(1, n):
        before = draw(st.sets(st.integers(0, i - 1), max_size=3))
        upstream[place[i]] = tuple(sorted(place[up] for up in before))
    return tuple(upstream)


def walked(upstream: tuple[tuple[int, ...], ...]) -> Iterator[tuple[int, ...]]:
    fed = {up for each in upstream for up in each}

    def back(way: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if not upstream[way[-1]]:
            yield way
        for up in upstream[way[-1]]:
            yield from back((*way, up))

    for end in range(len(upstream)):
        if end not in fed:
            yield from back((end,))


@settings(max_examples=60)
@given(graphs(), st.integers(0, 10_000))
def test_no_path_is_longer_and_its_operators_sum_to_its_length(
    upstream: tuple[tuple[int, ...], ...], seed: int
) -> None:
    ways, each = DataflowPaths(upstream), np.random.default_rng(seed).uniform(0.1, 9.0, (4, len(upstream)))
    length, on_way = ways.longest(each)
    every = list(walked(upstream))
    assert length == pytest.approx(np.max([each[:, list(way)].sum(axis=1) for way in every], axis=0))
    assert (each * on_way).sum(axis=1) == pytest.approx(length)
    assert {tuple(np.flatnonzero(row)) for row in on_way} <= {tuple(sorted(way)) for way in every}
    assert ways.steps == max(map(len, every))
    assert ways.is_straight == (len(upstream) in map(len, every))


def test_channels_are_between_neighbours() -> None:
    joined = DataflowPaths(((), (), (0, 1)))
    assert joined.channels(np.array([[2.0, 3.0, 4.0]])).tolist() == [[0.0, 0.0, 20.0]]


@pytest.mark.parametrize("upstream", [((1,), (0,)), ((0,), ()), ((), (2,)), ((), (-1,)), ((),)])
def test_a_cycle_or_an_unknown_upstream_is_refused(upstream: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(InputError, match="upstream"):
        Sizing.of_loads((2, 3), (9, 9), [1.5, 2.5], upstream=upstream)
