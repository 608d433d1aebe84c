"""Sums over groups of rows, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotrascale.analyze.critical.edges import Numbers
from autotrascale.analyze.critical.paths import Floats


class Groups:
    """Groups of rows that agree in all of `keys`, in the order of the keys. Keys are -1 or more."""

    def __init__(self, *keys: Numbers) -> None:
        combined = np.zeros(len(keys[0]), np.int64)
        for key in keys:
            different, number = np.unique(key, return_inverse=True)
            combined = combined * max(1, len(different)) + number
        _, first, self._of = np.unique(combined, return_index=True, return_inverse=True)
        self.keys: Sequence[Numbers] = [key[first] for key in keys]

    def __len__(self) -> int:
        return len(self.keys[0])

    @property
    def of(self) -> Numbers:
        """The group of each row."""
        return self._of

    def sums(self, weights: NDArray[Any]) -> Floats:
        """Return the sum of `weights` over each group."""
        return sum_by_group(self._of, weights, len(self))


def sum_by_group(of: Numbers, weights: NDArray[Any], many: int) -> Floats:
    """Return the sums of `weights` over `many` groups; `of` holds the group of each row."""
    return np.bincount(of, weights, many).astype(np.float64, copy=False)
