"""Measured loads of the operators, and the loads that they imply at other parallelisms.

    symbol      meaning                                                                         shape
    k_r, ℓ_r    parallelism and log loads of row r, a sized window                              (R, N)
    p_r         log loads that the latency model expects at row r, given β                      (R, N)
    δ_i(k)      deviation from the latency model, a function of the operator's own parallelism
    D, L        spread of δ, and the length, in ln k, over which it changes
    v           relative error of a measured load
    s           log speed of the machine in another session, over the speed in the present session
    P, G        parameters β; parallelisms of a table
    C_i         covariance of the rows of operator i: D² M(|ln k − ln k'| / L) + v²             (R, R)

    ℓ_ri = p_ri + δ_i(k_ri) + s + error,    δ_i(k) | rows = c_i(k)ᵀ C_i⁻¹ (ℓ_i − p_i − s)

Some loads jump: the state of an operator no longer fits into memory, or a stage needs a second wave of tasks. No smooth
formula predicts a jump. It is known where it was measured, and probably holds for neighbouring parallelisms too. δ
depends on one operator's parallelism only, so it is stored as a table over a grid of parallelisms.
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
FINEST = 256  # most parallelisms in a table


@dataclass(frozen=True)
class LoadRow:
    """The measured loads of one window.

    Args:
        k: instances of each operator.
        log_q: log of its rate over the present rate.
        loads: load of each operator, in instances.
        session: number of its session; 0 is the present session.
        weight: variance of its errors in units of v², 1/n for the mean of n windows.
    """

    k: tuple[int, ...]
    log_q: float
    loads: tuple[float, ...]
    session: int = 0
    weight: float = 1.0


@dataclass(frozen=True, eq=False)
class LoadDeviation:
    """δ as tables over `parallelism_grid(most)`: posterior mean, variance, and derivatives of the mean by β."""

    most: int
    mean: Floats  # (N, G)
    variance: Floats
    slopes: Floats  # (N, G, P)

    def at(self, ks: Floats) -> tuple[Floats, Floats, Floats]:
        """Return mean, variance and slopes for each row of `ks` and operator, shapes (n, N), (n, N) and (n, N, P)."""
        return (
            look_up(self.mean, ks, self.most),
            look_up(self.variance, ks, self.most),
            look_up(self.slopes, ks, self.most),
        )


class MeasuredLoads:
    """The rows of measured loads of `operators` operators.

    Args:
        rows: measured windows.
        operators: N.
        has_measured_runs: a run was measured. Without one nothing is known about δ, which is then 0.
    """

    def __init__(self, rows: Sequence[LoadRow], operators: int, *, has_measured_runs: bool) -> None:
        self.ks = np.array([row.k for row in rows], dtype=float).reshape(-1, operators)
        self.log_q = np.array([row.log_q for row in rows], dtype=float)
        loads = np.array([row.loads for row in rows], dtype=float).reshape(-1, operators)
        self.logs = np.log(np.maximum(loads, LEAST_LOAD))
        sessions = np.array([row.session for row in rows], dtype=np.int64)
        others = np.unique(sessions[sessions != 0])
        self.of_session = (sessions[:, None] == others[None, :]).astype(float)  # (R, other sessions)
        self.spread = SPREAD if has_measured_runs else 0.0
        own = self._kernel(np.log(self.ks).T, np.log(self.ks).T)
        errors = np.diag([ERROR**2 * row.weight for row in rows]).reshape(len(rows), len(rows))
        self._chol = np.linalg.cholesky(own + errors)  # (N, R, R)

    @property
    def speeds(self) -> int:
        """Number of speeds s."""
        return int(self.of_session.shape[1])

    @property
    def log_root(self) -> float:
        """Σ_i ln √det C_i."""
        return float(np.log(np.diagonal(self._chol, axis1=1, axis2=2)).sum())

    def whitened_residuals(self, expected: Floats, slopes: Floats) -> Floats:
        """Return the residuals of p + s in standard deviations, and their derivatives, shape (N·R, 1 + P)."""
        errors = np.concatenate([(self.logs - expected)[:, :, None], -slopes], axis=2)
        return self._whiten(errors.transpose(1, 0, 2)).reshape(-1, errors.shape[2])

    def deviation(self, most: int, expected: Floats, slopes: Floats) -> LoadDeviation:
        """Return δ given p + s (`expected`, (R, N)) and its derivatives (`slopes`, (R, N, P))."""
        operators, grid = self.logs.shape[1], np.log(parallelism_grid(most))
        half = self._whitened_covariance(np.broadcast_to(grid, (operators, len(grid))))
        white = self.whitened_residuals(expected, slopes).reshape(operators, len(self.ks), -1)
        known = half.transpose(0, 2, 1) @ white
        variance = np.maximum(self.spread**2 - (half**2).sum(axis=1), 0.0)
        return LoadDeviation(most, known[:, :, 0], variance, known[:, :, 1:])

    def posterior_covariance(self, most: int, runs: Floats) -> Floats:
        """Return the posterior covariance of δ between the grid to `most` and the runs, shape (N, G, T)."""
        operators, grid, there = self.logs.shape[1], np.log(parallelism_grid(most)), np.log(runs).T
        everywhere = np.broadcast_to(grid, (operators, len(grid)))
        prior = self._kernel(everywhere, there)
        if not self.spread:
            return prior
        return prior - self._whitened_covariance(everywhere).transpose(0, 2, 1) @ self._whitened_covariance(there)

    def _whitened_covariance(self, log_k: Floats) -> Floats:
        """Return L⁻¹ c: the whitened_residuals covariance of the rows with δ at log_k (N, K), shape (N, R, K)."""
        return self._whiten(self._kernel(np.log(self.ks).T, log_k))

    def _whiten(self, right: Floats) -> Floats:
        return np.asarray(np.linalg.solve(self._chol, right))

    def _kernel(self, a: Floats, b: Floats) -> Floats:
        """Return D² M of each operator's a (N, A) and b (N, B), with M(r) = (1 + √3 r) e^{−√3 r}."""
        r = np.sqrt(3.0) * np.abs(a[:, :, None] - b[:, None, :]) / LENGTH
        return np.asarray(self.spread**2 * (1 + r) * np.exp(-r))


@lru_cache(maxsize=64)
def parallelism_grid(most: int) -> Floats:
    """Return every parallelism up to `most`, or at most FINEST of them, evenly spaced in ln k."""
    if most <= FINEST:
        return np.arange(1.0, most + 1)
    return np.unique(np.rint(np.geomspace(1, most, FINEST)))


def look_up(table: Floats, ks: Floats, most: int) -> Floats:
    """Return the entries (n, N, …) of a table (N, G, …) at the parallelism `ks` (n, N) of each operator."""
    grid = parallelism_grid(most)
    nearest = np.searchsorted((grid[1:] + grid[:-1]) / 2, ks)
    return np.asarray(table[np.arange(table.shape[0]), nearest])
