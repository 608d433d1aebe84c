"""Random numbers without a generator: a share in [0, 1) that depends on a whole number alone.

Any partition of a load generator draws the same number for the same record, in any order and any number of times.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Words: TypeAlias = NDArray[np.uint64]


def hash_to_share(positions: Words) -> Floats:
    """Return one well-mixed share in [0, 1) for each position of a sequence."""
    return np.asarray((_splitmix(positions) >> np.uint64(11)).astype(np.float64) / float(1 << 53))


def _splitmix(x: Words) -> Words:
    """Return the x-th number of the SplitMix64 sequence (Steele, Lea, Flood 2014)."""
    x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
