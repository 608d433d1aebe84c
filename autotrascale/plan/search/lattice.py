"""The search space Ω: integer vectors between the floor and P_max, both included.

symbol  meaning                         shape
Ω       Π_i {k'_i, …, P_max,i}          |Ω| points
k       one point of Ω                  (N,)
K       a pool of points                (n, N)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.domain.job import check_p_max

Point = tuple[int, ...]
Pool = NDArray[np.int64]

ENUMERABLE = 4_000  # largest |Ω| that is searched exactly; one pass takes a few milliseconds
# A larger Ω is searched by a random pool, from whose best points the search climbs. Of 708 choices, 12.7 % are below
# the best choice that any pool and climb found; with twice the pool, one more start and ten climbs, 16 %.
POOL = 500
STARTS = 3
CLIMBS = 30
STEPS = (1, 2, 4)


@dataclass(frozen=True)
class Lattice:
    """Ω: the integer vectors between `lower` and `upper`. Make it with `Lattice.between`, which checks the bounds."""

    lower: Point
    upper: Point

    @classmethod
    def between(cls, floor: Sequence[int], p_max: int | Sequence[int]) -> Lattice:
        """Return the lattice between checked bounds; a single `p_max` is the bound of every operator."""
        floor = _as_tuple("floor", floor)
        upper = (p_max,) * len(floor) if isinstance(p_max, int | np.integer) else _as_tuple("p_max", p_max)
        if not floor:
            raise InputError("floor", "is empty", remedy="give one parallelism for each operator")
        if len(upper) != len(floor):
            remedy = "give one number, or one for each operator"
            raise InputError("p_max", f"has {len(upper)} bounds for {len(floor)} operators", seen=upper, remedy=remedy)
        for i, (low, high) in enumerate(zip(floor, upper, strict=True)):
            checks.count(f"floor[{i}]", low)
            check_p_max(high)
            if low > high:
                remedy = "the job needs more slots than it may have: raise p_max"
                raise InputError(f"floor[{i}]", f"is above p_max = {high}", seen=low, remedy=remedy)
        return cls(tuple(map(int, floor)), tuple(map(int, upper)))

    @cached_property
    def size(self) -> int:
        """Number of points of Ω."""
        return prod(high - low + 1 for low, high in zip(self.lower, self.upper, strict=True))

    def __contains__(self, k: Point) -> bool:
        return len(k) == len(self.lower) and all(
            low <= x <= high for low, x, high in zip(self.lower, k, self.upper, strict=True)
        )

    def clip(self, k: Sequence[int]) -> Point:
        """Return the point of Ω nearest to `k`."""
        return tuple(min(max(x, low), high) for low, x, high in zip(self.lower, k, self.upper, strict=True))

    def check(self, k: Sequence[int]) -> Point:
        """Return `k` as a point of Ω; raise `InputError` if it is not a point of Ω."""
        k = _as_tuple("k", k)
        if len(k) != len(self.lower):
            raise InputError("k", f"must have {len(self.lower)} numbers", seen=k, remedy="one for each operator")
        for i, x in enumerate(k):
            checks.count(f"k[{i}]", x)
        point = tuple(int(x) for x in k)
        if point not in self:
            remedy = "use points between the floor and p_max"
            raise InputError("k", f"lies outside [{self.lower}, {self.upper}]", seen=point, remedy=remedy)
        return point

    @cached_property
    def points(self) -> Pool:
        """All points of Ω, for lattices of at most `ENUMERABLE` points."""
        axes = [np.arange(low, high + 1) for low, high in zip(self.lower, self.upper, strict=True)]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))

    def sample(self, rng: np.random.Generator, n: int) -> Pool:
        """Return n random points, log-uniform and denser near the floor, where the resource term is large."""
        low, high = np.array(self.lower), np.array(self.upper)
        lean = rng.choice((1.0, 2.0, 3.0), size=(n, 1))
        t = rng.random((n, len(low))) ** lean
        # From half below to half above the bounds, so that each integer has an interval of its own.
        real = np.rint((low - 0.5) * ((high + 0.5) / (low - 0.5)) ** t)
        return np.asarray(np.clip(real, low, high), dtype=np.int64)

    def around(self, centres: Pool) -> Pool:
        """Return the neighbours of the centres: one operator ±1, ±2 or ±4, or one instance moved between two."""
        n = len(self.lower)
        eye = np.eye(n, dtype=np.int64)
        moves = [sign * step * eye for step in STEPS for sign in (1, -1)]
        swaps = (eye[:, None, :] - eye[None, :, :]).reshape(-1, n)
        offsets = np.concatenate([*moves, swaps[np.any(swaps, axis=1)]])
        near = (centres[:, None, :] + offsets[None, :, :]).reshape(-1, n)
        return self._unique(np.clip(near, self.lower, self.upper))

    def argmax(
        self,
        value: Callable[[Pool], NDArray[np.float64]],
        *,
        excluded: Collection[Point],
        hints: Sequence[Point],
        rng: np.random.Generator,
    ) -> Point | None:
        """Return the point of Ω outside `excluded` with the largest value; None when no point is left.

        The search is exact for a small Ω. Otherwise it climbs from the best points of a random pool and the hints.
        It uses integer points only: no real-valued optimum is rounded.

        Args:
            value: the objective, for a pool of points (n, N).
            excluded: points that must not be returned.
            hints: promising points.
            rng: source of the random pool.
        """
        if self.size <= ENUMERABLE:
            pool = self._without(self.points, excluded)
            return None if len(pool) == 0 else _as_point(pool[int(np.argmax(value(pool)))])
        start = np.array(hints, dtype=np.int64).reshape(-1, len(self.lower))
        pool = self._without(np.concatenate([self.sample(rng, POOL), self.around(start), start]), excluded)
        if len(pool) == 0:  # Ω is connected: if no neighbour of an excluded point is left, no point is left
            pool = self._without(self.around(np.array(list(excluded), dtype=np.int64)), excluded)
            if len(pool) == 0:
                return None
        values = value(pool)
        climbed: set[Point] = set()
        for _ in range(CLIMBS):
            top = np.argsort(-values, kind="stable")[:STARTS]
            pool, values, best = pool[top], values[top], values[top[0]]
            # The neighbours of points that stay at the top have been tried already.
            new = [k for k in map(_as_point, pool) if k not in climbed]
            climbed.update(new)
            near = self._without(self.around(np.array(new, dtype=np.int64).reshape(-1, len(self.lower))), excluded)
            if len(near) == 0:
                break
            pool, values = np.concatenate([pool, near]), np.concatenate([values, value(near)])
            if values.max() <= best:
                break
        return _as_point(pool[int(np.argmax(values))])

    def _without(self, pool: Pool, excluded: Collection[Point]) -> Pool:
        if not excluded:
            return pool
        if self._radix is None:
            banned = set(excluded)
            return pool[[_as_point(row) not in banned for row in pool]]
        return pool[~np.isin(self._codes(pool), self._codes(np.array(list(excluded), dtype=np.int64)))]

    def _unique(self, pool: Pool) -> Pool:
        """Return the points of `pool` in lexicographic order, each once."""
        if self._radix is None:
            return np.unique(pool, axis=0)
        return pool[np.unique(self._codes(pool), return_index=True)[1]]

    def _codes(self, pool: Pool) -> NDArray[np.int64]:
        """Return a number for each point, in lexicographic order, because comparing rows is slow."""
        return np.asarray((pool - np.array(self.lower, dtype=np.int64)) @ np.asarray(self._radix))

    @cached_property
    def _radix(self) -> NDArray[np.int64] | None:
        """Weights of a mixed radix over the sides of Ω; None when Ω has more points than 64-bit numbers."""
        if self.size >= 2**62:
            return None
        sides = [high - low + 1 for low, high in zip(self.lower, self.upper, strict=True)]
        return np.array([prod(sides[i + 1 :]) for i in range(len(sides))], dtype=np.int64)


def _as_tuple(place: str, values: object) -> tuple[Any, ...]:
    """Return `values` as a tuple. The caller checks its members."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise InputError(place, "must be whole numbers, one for each operator", seen=values, remedy="give a list")
    return tuple(values)


def _as_point(row: NDArray[np.int64]) -> Point:
    return tuple(int(x) for x in row)
