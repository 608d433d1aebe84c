"""Random draws that depend on the seed, the number of a record and the number of the draw alone.

Any partition draws the same for the same record, in any order and any number of times.
"""

from __future__ import annotations

import numpy as np

from autotrascale.execute.spark.jobs.hashed_numbers import Floats, Ints, hash_to_share

_DRAWS = 64  # per record, at most
_DRAWS_PER_SEED = 1 << 48  # distance of two seeds in the sequence of hashed numbers


def draw_share(seed: int, numbers: Ints, draw: int) -> Floats:
    """Return draw number `draw` of each record: shares in [0, 1), evenly distributed."""
    positions = np.asarray(numbers).astype(np.uint64) * np.uint64(_DRAWS) + np.uint64(draw)
    return hash_to_share(positions + np.uint64(seed * _DRAWS_PER_SEED % 2**64))


def draw_below(limit: Ints | int, seed: int, numbers: Ints, draw: int) -> Ints:
    """Return evenly distributed whole numbers in [0, limit); `limit` may differ from record to record."""
    return np.asarray((draw_share(seed, numbers, draw) * limit).astype(np.int64))
