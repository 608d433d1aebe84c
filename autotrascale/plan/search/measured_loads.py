"""What windows measured of the operators' loads, and what they leave open about loads elsewhere.

    symbol   meaning                                                                            shape
    k_ri, ℓ_ri  parallelism and log load of operator i in row r, one for each window that was sized    (R, N)
    p_r(β)   what the physics expects there                                                     (R, N)
    δ_i(k)   what it leaves, a function of the operator's own parallelism                       table (N, most k)
    D, ℓ     spread of δ, and the length, in ln k, over which it changes
    v        relative error of a measured load
    s        log speed of the machine in another session, over the present one

    ℓ_ri = p_ri + δ_i(k_ri) + s + error,     δ_i a Gaussian process of Matérn 3/2 in ln k_i

A load that jumps where an operator's state fits, or where its tasks need a second wave, is no growth that a smooth law
could foretell; but it is seen at once where it was measured, and most likely holds beside it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ERROR = 0.05  # v
SPREAD, LENGTH = 0.2, 0.35  # D, ℓ
SPEED = 0.1  # of s


@dataclass(frozen=True)
class Row:
    """One window of one session: where it ran, at which log rate over the present one, and its loads."""

    k: tuple[int, ...]
    log_q: float
    loads: tuple[float, ...]
    session: int = 0


class MeasuredLoads:
    def __init__(self, rows: Sequence[Row], operators: int, least: float, open_: bool) -> None:
        self.ks = np.array([row.k for row in rows], dtype=float).reshape(-1, operators)
        self.log_q = np.array([row.log_q for row in rows], dtype=float)
        loads = np.array([row.loads for row in rows], dtype=float).reshape(-1, operators)
        self.logs = np.log(np.maximum(loads, least))
        sessions = np.array([row.session for row in rows], dtype=np.int64)
        others = sorted(set(sessions.tolist()) - {0})
        self.of_session = (sessions[:, None] == np.array(others, dtype=np.int64)[None, :]).astype(float)  # (R, s)
        self.spread = SPREAD if open_ else 0.0
        log_k = np.log(self.ks)
        kernel = self.spread**2 * _matern(log_k.T[:, :, None] - log_k.T[:, None, :])
        self._chol = np.linalg.cholesky(kernel + ERROR**2 * np.eye(len(rows))) if len(rows) else kernel

    @property
    def speeds(self) -> int:
        return int(self.of_session.shape[1])

    @property
    def log_determinant(self) -> float:
        """Half of it."""
        return float(np.log(np.diagonal(self._chol, axis1=1, axis2=2)).sum()) if len(self.ks) else 0.0

    def whitened(self, expected: Floats, slopes: Floats) -> Floats:
        """(R·N, 1 + P): what is unexplained, and its derivatives, in standard deviations."""
        errors = np.concatenate([(self.logs - expected)[:, :, None], -slopes], axis=2)  # (R, N, 1 + P)
        white = np.linalg.solve(self._chol, errors.transpose(1, 0, 2)) if len(self.ks) else errors
        return np.asarray(white).reshape(-1, errors.shape[2])

    def table(self, most: int, expected: Floats, slopes: Floats) -> tuple[Floats, Floats, Floats]:
        """δ_i at k = 0 … most: its mean (N, most + 1), its variance, and the mean's derivatives (N, most + 1, P)."""
        operators = self.logs.shape[1]
        grid = np.log(np.maximum(np.arange(most + 1), 1))
        if not len(self.ks) or self.spread == 0:
            shape = (operators, most + 1)
            return np.zeros(shape), np.zeros(shape), np.zeros((*shape, slopes.shape[2]))
        cross = self.spread**2 * _matern(grid[None, :, None] - np.log(self.ks).T[:, None, :])  # (N, K, R)
        half = np.linalg.solve(self._chol, cross.transpose(0, 2, 1))  # (N, R, K)
        white = self.whitened(expected, slopes).reshape(operators, len(self.ks), -1)
        known = half.transpose(0, 2, 1) @ white  # (N, K, 1 + P)
        variance = np.maximum(self.spread**2 - (half**2).sum(axis=1), 0.0)
        return known[:, :, 0], variance, known[:, :, 1:]


    def left(self, most: int, runs: Floats) -> Floats:
        """What stays unknown of δ: covariance (N, most + 1, T) between k = 0 … most and the runs at `runs` (T, N)."""
        operators = runs.shape[1]
        if not len(self.ks) or self.spread == 0:
            return np.zeros((operators, most + 1, len(runs)))
        grid, there = np.log(np.maximum(np.arange(most + 1), 1)), np.log(runs).T
        own = np.log(self.ks).T
        prior = _matern(grid[None, :, None] - there[:, None, :])
        by_grid, by_runs = (np.linalg.solve(self._chol, self.spread**2 * _matern(own[:, :, None] - each[:, None, :]))
                            for each in (np.broadcast_to(grid, (operators, len(grid))), there))
        return np.asarray(self.spread**2 * prior - by_grid.transpose(0, 2, 1) @ by_runs)


def _matern(distance: Floats) -> Floats:
    r = np.sqrt(3.0) * np.abs(distance) / LENGTH
    return np.asarray((1 + r) * np.exp(-r))
