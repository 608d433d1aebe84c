"""Chance without a generator: what is drawn for a record is a function of the seed, the record's number and which of
its draws it is. Any partition, in any order and as often as it likes, draws the same."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Words: TypeAlias = NDArray[np.uint64]

_DRAWS = 64  # of one record, at most
_SEEDS_APART = 1 << 48  # draws


def draw_share(seed: int, numbers: Ints, draw: int) -> Floats:
    """Draw number `draw` of each record, even in [0, 1)."""
    place = np.asarray(numbers).astype(np.uint64) * np.uint64(_DRAWS) + np.uint64(draw)
    return hash_to_share(place + np.uint64(seed * _SEEDS_APART % 2**64))


def draw_below(limit: Ints | int, seed: int, numbers: Ints, draw: int) -> Ints:
    """Whole numbers in [0, limit), even; `limit` may differ from record to record."""
    return np.asarray((draw_share(seed, numbers, draw) * limit).astype(np.int64))


def hash_to_share(places: Words) -> Floats:
    """Places in a sequence, for whoever counts them in another way → well mixed shares in [0, 1)."""
    return np.asarray((_splitmix(places) >> np.uint64(11)).astype(np.float64) / float(1 << 53))


def _splitmix(x: Words) -> Words:
    """SplitMix64 (Steele, Lea, Flood 2014), from whose sequence the x-th number is read directly."""
    x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
