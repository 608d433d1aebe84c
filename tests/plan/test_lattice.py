from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.plan.search import lattice as lattices
from autotrascale.plan.search.lattice import Lattice, Point, Pool
from autotrascale.testing.strategies import boxes, points_within

HUGE = Lattice((1,) * 10, (200,) * 10)
LARGE = Lattice((3, 4, 12, 10), (40,) * 4)


def every(lattice: Lattice) -> list[Point]:
    axes = [range(low, high + 1) for low, high in zip(lattice.lower, lattice.upper, strict=True)]
    return list(product(*axes))


def hilly(seed: int, size: int) -> Any:
    """Return a value without a structure that a search could use."""
    weight = np.random.default_rng(seed).normal(size=size)

    def value(pool: Pool) -> np.ndarray:
        return np.asarray(np.sin(pool @ weight) + np.cos((pool**2) @ weight))

    return value


def towards(goal: Point) -> Any:
    def value(pool: Pool) -> np.ndarray:
        return np.asarray(-((pool - np.array(goal)) ** 2).sum(axis=1), dtype=float)

    return value


@given(boxes(max_operators=3, top=6))
def test_every_point_is_listed_once(box: tuple[Point, Point]) -> None:
    lattice = Lattice(*box)
    assert [tuple(row) for row in lattice.points.tolist()] == every(lattice)
    assert lattice.size == len(every(lattice))
    assert all(k in lattice for k in every(lattice))


@given(boxes(max_operators=3, top=6), st.integers(0, 1000), st.data())
def test_the_search_of_a_small_lattice_is_exact(box: tuple[Point, Point], seed: int, data: st.DataObject) -> None:
    lattice = Lattice(*box)
    told = data.draw(st.sets(points_within(*box), max_size=5))
    value = hilly(seed, len(lattice.lower))
    best = lattice.argmax(value, excluded=told, hints=[], rng=np.random.default_rng(0))
    left = [k for k in every(lattice) if k not in told]
    if not left:
        assert best is None
        return
    assert best is not None
    assert best in left
    assert value(np.array([best]))[0] == pytest.approx(max(value(np.array(left))))


@settings(max_examples=15)
@given(boxes(max_operators=3, top=6), st.integers(0, 1000))
def test_the_search_stays_inside_the_bounds_and_avoids_excluded_points(box: tuple[Point, Point], seed: int) -> None:
    """The search of large lattices, on small ones, until no point is left."""
    lattice, told = Lattice(*box), []
    value, rng = hilly(seed, len(lattice.lower)), np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lattices, "ENUMERABLE", 0)
        patch.setattr(lattices, "POOL", 50)
        for _ in range(min(lattice.size, 12)):
            k = lattice.argmax(value, excluded=told, hints=[lattice.lower], rng=rng)
            assert k is not None
            assert k in lattice
            assert k not in told
            told.append(k)


def test_the_search_of_a_large_lattice_finds_every_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattices, "ENUMERABLE", 0)
    lattice = Lattice((1, 2), (2, 2))
    told = [(1, 2), (2, 2)]
    assert lattice.argmax(towards((1, 2)), excluded=told, hints=told, rng=np.random.default_rng(0)) is None


def test_the_last_point_of_a_large_lattice_is_found_outside_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattices, "ENUMERABLE", 0)
    monkeypatch.setattr(lattices, "POOL", 1)
    lattice = Lattice((1,), (40,))
    told = [(k,) for k in range(1, 41) if k != 37]
    assert lattice.argmax(towards((1,)), excluded=told, hints=[(1,)], rng=np.random.default_rng(0)) == (37,)


@pytest.mark.parametrize("lattice", [LARGE, HUGE], ids=["37·29·31·31", "200^10"])
def test_a_single_hill_is_climbed_to_its_top(lattice: Lattice) -> None:
    rng = np.random.default_rng(1)
    for goal in (lattice.lower, tuple(low + 3 for low in lattice.lower)):
        assert lattice.argmax(towards(goal), excluded=[], hints=[lattice.lower], rng=rng) == goal
    top = lattice.argmax(towards(lattice.upper), excluded=[], hints=[lattice.lower], rng=rng)
    assert top is not None
    assert towards(lattice.upper)(np.array([top]))[0] > towards(lattice.upper)(lattice.sample(rng, 2000)).max()


def test_excluded_points_of_a_huge_lattice_are_not_returned() -> None:
    rng, told = np.random.default_rng(0), []
    for _ in range(8):
        k = HUGE.argmax(towards(HUGE.lower), excluded=told, hints=[HUGE.lower], rng=rng)
        assert k is not None
        assert k in HUGE
        assert k not in told
        told.append(k)
    assert sum(told[0]) == 10


@given(boxes(max_operators=5, top=300), st.integers(0, 1000))
def test_samples_stay_within_the_bounds(box: tuple[Point, Point], seed: int) -> None:
    pool = Lattice(*box).sample(np.random.default_rng(seed), 60)
    assert pool.shape == (60, len(box[0]))
    assert (pool >= np.array(box[0])).all()
    assert (pool <= np.array(box[1])).all()


@pytest.mark.parametrize("box", [((1,), (6,)), ((3, 4, 12, 10), (40, 40, 12, 14)), ((1, 190), (30, 200))])
def test_samples_hit_both_bounds_and_all_between(box: tuple[Point, Point]) -> None:
    pool = Lattice(*box).sample(np.random.default_rng(0), 6000)
    for low, high, column in zip(*box, pool.T, strict=True):
        assert sorted(set(column.tolist())) == list(range(low, high + 1))


@given(boxes(max_operators=4, top=20), st.data())
def test_neighbours_lie_inside_and_include_every_single_step(box: tuple[Point, Point], data: st.DataObject) -> None:
    lattice, k = Lattice(*box), data.draw(points_within(*box))
    near = {tuple(row) for row in lattice.around(np.array([k])).tolist()}
    assert all(n in lattice for n in near)
    for i in range(len(k)):
        for step in (-1, 1):
            moved = (*k[:i], k[i] + step, *k[i + 1 :])
            assert moved in near or moved not in lattice


@given(boxes(max_operators=4, top=9), st.data())
def test_points_are_excluded_equally_by_codes_and_by_tuples(box: tuple[Point, Point], data: st.DataObject) -> None:
    """Lattices of more than 2^62 points compare tuples."""
    told = data.draw(st.sets(points_within(*box), max_size=6))
    lattice = Lattice(*box)
    pool = lattice.sample(np.random.default_rng(0), 40)
    kept = lattice._without(pool, told).tolist()
    assert kept == [row for row in pool.tolist() if tuple(row) not in told]
    sides = (*box[0], 1, 1), (*box[1], 2**31, 2**31)
    wide = np.column_stack([pool, np.ones((40, 2), dtype=np.int64)])
    assert Lattice(*sides)._without(wide, {(*k, 1, 1) for k in told}).tolist() == [[*row, 1, 1] for row in kept]


@given(boxes(), st.data())
def test_clipping_leads_into_the_lattice_and_keeps_its_points(box: tuple[Point, Point], data: st.DataObject) -> None:
    lattice = Lattice(*box)
    anywhere = data.draw(st.tuples(*(st.integers(-5, 50) for _ in box[0])))
    assert lattice.clip(anywhere) in lattice
    inside = data.draw(points_within(*box))
    assert lattice.clip(inside) == inside
    assert lattice.check(inside) == inside


@pytest.mark.parametrize(
    ("floor", "p_max", "says"),
    [
        ((), 4, "floor: is empty"),
        (3, 4, "floor: must be whole numbers"),
        (None, 4, "floor: must be whole numbers"),
        ("34", 4, "floor: must be whole numbers"),
        ((1, 0), 4, "floor[1]: must be at least 1"),
        ((1, 2.0), 4, "floor[1]: must be a whole number"),
        ((True, 2), 4, "floor[0]: must be a whole number"),
        ((1, 5), 4, "floor[1]: is above p_max = 4 (seen: 5)"),
        ((1, 5), (5, 4), "floor[1]: is above p_max = 4"),
        ((1, 2), (4,), "p_max: has 1 bounds for 2 operators"),
        ((1, 2), 4.0, "p_max: must be whole numbers"),
        ((1, 2), None, "p_max: must be whole numbers"),
        ((1, 2), True, "p_max: must be a whole number"),
        ((1, 2), "44", "p_max: must be whole numbers"),
        ((1, 2), (4, 4.5), "p_max: must be a whole number"),
        ((1, 2), 2**31, "p_max: is above 2147483647"),
        ((1, 10**400), 10**401, "p_max: is above 2147483647"),
    ],
)
def test_invalid_bounds_are_refused_in_one_line(floor: Any, p_max: Any, says: str) -> None:
    with pytest.raises(InputError) as caught:
        Lattice.between(floor, p_max)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("k", "says"),
    [
        (5, "k: must be whole numbers"),
        (None, "k: must be whole numbers"),
        ("56", "k: must be whole numbers"),
        ({3: 1, 4: 1}, "k: must be whole numbers"),
        ((5,), "k: must have 2 numbers"),
        ((5, 5, 5), "k: must have 2 numbers"),
        ((5, 5.0), "k[1]: must be a whole number"),
        ((5, True), "k[1]: must be a whole number"),
        ((5, None), "k[1]: must be a whole number"),
        (np.array([[5], [5]]), "k[0]: must be a whole number"),
        (np.array([5.0, 5.0]), "k[0]: must be a whole number"),
        ((2, 5), "k: lies outside [(3, 4), (9, 9)]"),
        ((5, 10), "k: lies outside [(3, 4), (9, 9)]"),
        ((5, 10**400), "k: lies outside"),
    ],
)
def test_an_invalid_point_is_refused_in_one_line(k: Any, says: str) -> None:
    with pytest.raises(InputError) as caught:
        Lattice.between((3, 4), 9).check(k)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_numpy_integers_are_accepted() -> None:
    lattice = Lattice.between(np.array([3, 4]), np.int64(9))
    point = lattice.check([np.int8(5), np.uint16(6)])
    assert (lattice, point) == (Lattice((3, 4), (9, 9)), (5, 6))
    assert [type(x) for x in (*lattice.lower, *lattice.upper, *point)] == [int] * 6
