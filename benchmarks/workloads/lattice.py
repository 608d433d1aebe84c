"""Enumeration of the points of the lattice [k', P_max]^N that can be optimal.

| symbol | meaning |
|---|---|
| k' | floor |
| r(k) | resource term, mean(k'_i / k_i), in (0, 1] |
| r_min | lower limit of r: points below cannot win and are never built |

F(k) = α·min(1, l_t/l) + (1 − α)·r(k) ≤ α + (1 − α)·r(k). So only points with r(k) ≥ (F⁺ − α)/(1 − α) can beat a known
score F⁺. Prefixes of vectors grow by one operator at a time. Missing operators count as 1, their best value. A prefix
that cannot reach r_min is dropped with all its continuations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SLACK = 1e-9  # so that rounding of a sum does not drop a point on the limit


def list_frugal_points(floor: Sequence[int], p_max: int, r_min: float, *, chunk: int = 1 << 19) -> Iterator[Ints]:
    """Yield all points with r(k) ≥ r_min, in chunks. r_min = 0 gives the whole lattice."""
    base = np.asarray(floor, dtype=np.int64)
    prefix = np.empty((1, 0), dtype=np.int64)
    yield from _grow(prefix, np.zeros(1), base, p_max, len(base) * r_min - SLACK, chunk)


def _grow(prefix: Ints, spent: Floats, floor: Ints, p_max: int, needed: float, chunk: int) -> Iterator[Ints]:
    """Extend prefixes by one operator. `spent` is Σ k'_i/k_i of a prefix, `needed` the limit for all operators."""
    done = prefix.shape[1]
    if done == len(floor):
        if len(prefix):
            yield prefix
        return
    values = np.arange(int(floor[done]), p_max + 1)
    after = len(floor) - done - 1
    rows = max(1, chunk // len(values))
    for start in range(0, len(prefix), rows):
        sums = spent[start : start + rows, None] + floor[done] / values[None, :]
        which, value = np.nonzero(sums + after >= needed)
        if len(which) == 0:
            continue
        grown = np.column_stack((prefix[start + which], values[value]))
        yield from _grow(grown, sums[which, value], floor, p_max, needed, chunk)


def sample_frugal(
    floor: Sequence[int], p_max: int, r_min: float, size: int, rng: np.random.Generator, sweeps: int = 30
) -> Ints:
    """Return `size` points, nearly uniform over those with r(k) ≥ r_min: a Gibbs chain for each, from the floor."""
    base = np.asarray(floor, dtype=np.int64)
    K = np.tile(base, (size, 1))
    ratios = np.ones((len(base), size))
    needed = len(base) * r_min - SLACK
    for _ in range(sweeps):
        for i in rng.permutation(len(base)):
            spare = needed - (ratios.sum(axis=0) - ratios[i])  # the least that k'_i / k_i may be
            most = np.floor(base[i] / np.maximum(spare, base[i] / (2 * p_max)) + SLACK)
            most = np.minimum(np.maximum(most, base[i]), p_max)
            K[:, i] = base[i] + (rng.random(size) * (most - base[i] + 1)).astype(np.int64)
            ratios[i] = base[i] / K[:, i]
    return K
