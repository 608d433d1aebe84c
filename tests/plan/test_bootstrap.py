from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.plan.search.lattice import Lattice, Point
from autotrascale.plan.search.paper_algorithms import bootstrap_set
from autotrascale.testing.strategies import boxes


def test_the_word_count_has_the_papers_ten_samples_in_order() -> None:
    """§III-D: k'_max + i · interval for all operators, then one operator at P_max and all other operators at k'."""
    assert bootstrap_set((3, 4, 12, 10), 40, uniform=6) == [
        (12, 12, 12, 12),
        (18, 18, 18, 18),
        (23, 23, 23, 23),
        (29, 29, 29, 29),
        (34, 34, 34, 34),
        (40, 40, 40, 40),
        (40, 4, 12, 10),
        (3, 40, 12, 10),
        (3, 4, 40, 10),
        (3, 4, 12, 40),
    ]


@given(boxes(), st.integers(2, 8))
def test_every_sample_is_a_point_of_the_lattice_and_unique(box: tuple[Point, Point], uniform: int) -> None:
    samples = bootstrap_set(*box, uniform)
    assert all(k in Lattice(*box) for k in samples)
    assert len(set(samples)) == len(samples) <= uniform + len(box[0])


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(30, 60), st.integers(2, 8))
def test_uniform_samples_span_the_range_and_one_hot_samples_name_each_operator(
    floor: list[int], p_max: int, uniform: int
) -> None:
    samples = bootstrap_set(floor, p_max, uniform)
    flat = [k[0] for k in samples if len(set(k)) == 1]
    assert (max(floor),) * len(floor) == samples[0]
    assert (p_max,) * len(floor) in samples
    steps = sorted(x for x in flat if x >= max(floor))
    assert all(b - a <= (p_max - max(floor)) / (uniform - 1) + 1 for a, b in pairwise(steps))
    for i in range(len(floor)):
        assert (*floor[:i], p_max, *floor[i + 1 :]) in samples


def test_a_floor_at_p_max_is_one_sample() -> None:
    assert bootstrap_set((5, 5), 5) == [(5, 5)]


def test_operators_with_their_own_bounds_stop_there() -> None:
    assert bootstrap_set((1, 2), (3, 9), uniform=2) == [(2, 2), (3, 9), (3, 2), (1, 9)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (((), 4), "floor: is empty"),
        (((1, 2), 4, 1), "uniform: must be at least 2"),
        (((1, 2), 4, 2.0), "uniform: must be a whole number"),
        (((1, 5), 4), "floor[1]: is above p_max = 4"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises(InputError) as caught:
        bootstrap_set(*arguments)
    assert str(caught.value).startswith(says)
