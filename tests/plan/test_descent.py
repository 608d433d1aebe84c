"""The descent to the floor: never below the need on a straight line, always lower, and in few runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from autotrascale.plan.sizing.descent import DescentRun, propose_lower

LEAST = {"a": 1, "b": 1}

slopes = st.floats(0.0, 0.9)
needs = st.integers(1, 8)


def recommended(k: Mapping[str, int], needed: Mapping[str, int], slope: float) -> dict[str, int]:
    """Follow the descent of a job whose instances seem to carry less when there are more."""
    return {name: max(1, math.ceil(needed[name] + slope * (k[name] - needed[name]))) for name in k}


def down(start: Mapping[str, int], needed: Mapping[str, int], slope: float) -> list[DescentRun]:
    runs: list[DescentRun] = []
    now: Mapping[str, int] | None = start
    while now is not None:
        runs.append((now, recommended(now, needed, slope)))
        now = propose_lower(runs, LEAST)
    return runs


@given(st.fixed_dictionaries({"a": needs, "b": needs}), slopes, st.integers(1, 40), st.integers(1, 40))
def test_each_run_has_fewer_instances_and_at_least_half_of_the_recommendation(
    needed: dict[str, int], slope: float, a: int, b: int
) -> None:
    """The descent ends at a run with too few instances; the search then goes up (`tests/test_tuning.py`)."""
    runs = down({"a": max(a, needed["a"]), "b": max(b, needed["b"])}, needed, slope)
    for (before, floor), (after, _) in pairwise(runs):
        assert sum(after.values()) < sum(before.values())
        assert all(math.ceil(floor[name] / 2) <= after[name] <= floor[name] for name in after)


@given(st.fixed_dictionaries({"a": needs, "b": needs}), st.floats(0.0, 0.85))
def test_a_few_runs_are_enough(needed: dict[str, int], slope: float) -> None:
    runs = down({"a": 40, "b": 40}, needed, slope)
    assert len(runs) <= 6
    last = runs[-1][0]
    repeats_itself = {name: k + 1 / (1 - slope) for name, k in needed.items()}  # rounded up
    assert sum(last.values()) <= 1.12 * sum(repeats_itself.values()) + len(last)


def test_no_run_follows_when_the_recommendation_equals_the_run() -> None:
    for floor in ({"a": 4, "b": 4}, {"a": 3, "b": 6}):
        assert propose_lower([({"a": 4, "b": 4}, floor)], LEAST) is None


def test_a_small_saving_is_not_worth_a_third_run() -> None:
    runs: list[DescentRun] = [({"a": 30, "b": 30}, {"a": 16, "b": 15}), ({"a": 16, "b": 15}, {"a": 16, "b": 14})]
    assert propose_lower(runs, LEAST) is None
    runs[-1] = ({"a": 16, "b": 15}, {"a": 15, "b": 14})
    assert propose_lower(runs, LEAST) is not None


def test_a_line_through_two_runs_is_not_followed_below_half() -> None:
    runs: list[DescentRun] = [({"a": 20, "b": 1}, {"a": 11, "b": 1}), ({"a": 11, "b": 1}, {"a": 6, "b": 1})]
    assert propose_lower(runs, LEAST) == {"a": 3, "b": 1}
