"""The lattice [k', P_max]^N, enumerated exactly as far as it can matter.

| symbol | meaning |
|---|---|
| k' | floor |
| r(k) | resource term, mean(k'_i / k_i), in (0, 1] |
| r_min | points below it cannot win, so they are never built |

F(k) = α·min(1, l_t/l) + (1 − α)·r(k) ≤ α + (1 − α)·r(k): once a point of score F⁺ is known, only points with
r(k) ≥ (F⁺ − α)/(1 − α) can beat it. Prefixes are grown one operator at a time, the operators not yet chosen counted
as 1 (their best), so a prefix that cannot reach r_min is dropped with everything under it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SLACK = 1e-9  # rounding in a sum of N ratios must not drop a point that lies on the bound


def frugal_points(floor: Sequence[int], p_max: int, r_min: float, *, chunk: int = 1 << 19) -> Iterator[Ints]:
    """Every lattice point with r(k) ≥ r_min, in chunks; r_min = 0 gives the whole lattice."""
    base = np.asarray(floor, dtype=np.int64)
    prefix = np.empty((1, 0), dtype=np.int64)
    yield from _grow(prefix, np.zeros(1), base, p_max, len(base) * r_min - SLACK, chunk)


def _grow(prefix: Ints, spent: Floats, floor: Ints, p_max: int, needed: float, chunk: int) -> Iterator[Ints]:
    """`spent` is Σ k'_i/k_i over the prefix, `needed` what the sum over all operators must reach."""
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
    """`size` points, close to uniform over those with r(k) ≥ r_min: one Gibbs chain each, started at the floor."""
    base = np.asarray(floor, dtype=np.int64)
    K = np.tile(base, (size, 1))
    ratios = np.ones((len(base), size))
    needed = len(base) * r_min - SLACK
    for _ in range(sweeps):
        for i in rng.permutation(len(base)):
            spare = needed - (ratios.sum(axis=0) - ratios[i])  # what k'_i / k_i must still be
            most = np.floor(base[i] / np.maximum(spare, base[i] / (2 * p_max)) + SLACK)
            most = np.minimum(np.maximum(most, base[i]), p_max)
            K[:, i] = base[i] + (rng.random(size) * (most - base[i] + 1)).astype(np.int64)
            ratios[i] = base[i] / K[:, i]
    return K
