"""What windows measured of the operators' loads, and what that says of loads elsewhere.

    symbol      meaning                                                                         shape
    k_r, ℓ_r    parallelism and log loads of row r: a window that was sized                     (R, N)
    p_r         what the physics expects there, given its numbers β                             (R, N)
    δ_i(k)      what the physics leaves: a function of the operator's own parallelism
    D, L        spread of δ, and the length, in ln k, over which it changes
    v           relative error of a measured load
    s           log speed of the machine in another session, over that in the present one
    C_i         covariance of the rows of operator i: D² M(|ln k − ln k'| / L) + v²             (R, R)

    ℓ_ri = p_ri + δ_i(k_ri) + s + error,    δ_i(k) | rows = c_i(k)ᵀ C_i⁻¹ (ℓ_i − p_i − s)

A load that jumps, where the state of an operator no longer fits or a stage needs a second round of tasks, follows no
smooth law that could foretell it. It is seen where it was measured, and most likely holds beside it too. As δ depends
on one operator's parallelism, it is a table, whatever the number of configurations that are asked about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ERROR = 0.05  # v
SPREAD, LENGTH = 0.2, 0.35  # D, L
SPEED = 0.1  # standard deviation of s
LEAST_LOAD = 1e-3
FINEST = 256  # parallelisms that a table has


@dataclass(frozen=True)
class LoadRow:
    """One window: where it ran, at which log rate over the present one, its loads, and the session it is of."""

    k: tuple[int, ...]
    log_q: float
    loads: tuple[float, ...]
    session: int = 0
    weight: float = 1.0  # variance of its errors in units of v²: of the mean of n windows 1/n


@dataclass(frozen=True, eq=False)
class LoadDeviation:
    """δ at every parallelism up to `most`: tables over the grid of that."""

    most: int
    mean: Floats  # (N, G)
    variance: Floats
    slopes: Floats  # (N, G, P) of the mean, by β

    def at(self, ks: Floats) -> tuple[Floats, Floats, Floats]:
        """(n, N …): of each operator at its own parallelism."""
        return (
            look_up(self.mean, ks, self.most),
            look_up(self.variance, ks, self.most),
            look_up(self.slopes, ks, self.most),
        )


class MeasuredLoads:
    """`beyond`: whether any run was measured. Where none was, nothing speaks of δ, and the physics is left alone."""

    def __init__(self, rows: Sequence[LoadRow], operators: int, *, beyond: bool) -> None:
        self.ks = np.array([row.k for row in rows], dtype=float).reshape(-1, operators)
        self.log_q = np.array([row.log_q for row in rows], dtype=float)
        loads = np.array([row.loads for row in rows], dtype=float).reshape(-1, operators)
        self.logs = np.log(np.maximum(loads, LEAST_LOAD))
        sessions = np.array([row.session for row in rows], dtype=np.int64)
        others = np.unique(sessions[sessions != 0])
        self.of_session = (sessions[:, None] == others[None, :]).astype(float)  # (R, sessions beside the present)
        self.spread = SPREAD if beyond else 0.0
        own = self._kernel(np.log(self.ks).T, np.log(self.ks).T)
        errors = np.diag([ERROR**2 * row.weight for row in rows]).reshape(len(rows), len(rows))
        self._chol = np.linalg.cholesky(own + errors)  # (N, R, R)

    @property
    def speeds(self) -> int:
        """How many numbers s there are."""
        return int(self.of_session.shape[1])

    @property
    def log_root(self) -> float:
        """Σ_i ln √det C_i."""
        return float(np.log(np.diagonal(self._chol, axis1=1, axis2=2)).sum())

    def whitened(self, expected: Floats, slopes: Floats) -> Floats:
        """(N·R, 1 + P): what p + s leaves unexplained, in standard deviations, and its derivatives."""
        errors = np.concatenate([(self.logs - expected)[:, :, None], -slopes], axis=2)
        return self._solved(errors.transpose(1, 0, 2)).reshape(-1, errors.shape[2])

    def beyond(self, most: int, expected: Floats, slopes: Floats) -> LoadDeviation:
        operators, grid = self.logs.shape[1], np.log(parallelism_grid(most))
        half = self._half(np.broadcast_to(grid, (operators, len(grid))))
        white = self.whitened(expected, slopes).reshape(operators, len(self.ks), -1)
        known = half.transpose(0, 2, 1) @ white
        variance = np.maximum(self.spread**2 - (half**2).sum(axis=1), 0.0)
        return LoadDeviation(most, known[:, :, 0], variance, known[:, :, 1:])

    def left(self, most: int, runs: Floats) -> Floats:
        """What stays unknown of δ: its covariance (N, G, T) between the grid to `most` and the runs at `runs`."""
        operators, grid, there = self.logs.shape[1], np.log(parallelism_grid(most)), np.log(runs).T
        everywhere = np.broadcast_to(grid, (operators, len(grid)))
        prior = self._kernel(everywhere, there)
        return prior - self._half(everywhere).transpose(0, 2, 1) @ self._half(there) if self.spread else prior

    def _half(self, log_k: Floats) -> Floats:
        """The rows' Cholesky root solved for their covariance with δ at log_k (N, K): (N, R, K)."""
        return self._solved(self._kernel(np.log(self.ks).T, log_k))

    def _solved(self, right: Floats) -> Floats:
        return np.asarray(np.linalg.solve(self._chol, right))

    def _kernel(self, a: Floats, b: Floats) -> Floats:
        """D² M, of each operator's a (N, A) and b (N, B); M(r) = (1 + √3 r) e^{−√3 r}."""
        r = np.sqrt(3.0) * np.abs(a[:, :, None] - b[:, None, :]) / LENGTH
        return np.asarray(self.spread**2 * (1 + r) * np.exp(-r))


@lru_cache(maxsize=64)
def parallelism_grid(most: int) -> Floats:
    """Every parallelism up to `most`; of more than FINEST, so many that lie evenly in ln k."""
    if most <= FINEST:
        return np.arange(1.0, most + 1)
    return np.unique(np.rint(np.geomspace(1, most, FINEST)))


def look_up(table: Floats, ks: Floats, most: int) -> Floats:
    """The rows (n, N …) of a table (N, G …) over the grid to `most`, each operator's at its own parallelism."""
    grid = parallelism_grid(most)
    nearest = np.searchsorted((grid[1:] + grid[:-1]) / 2, ks)
    return np.asarray(table[np.arange(table.shape[0]), nearest])
