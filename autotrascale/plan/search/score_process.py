"""The paper's surrogate: a Gaussian process over the score itself (§III-E), here scikit-optimize's.

symbol  meaning                                                         shape
x       (k − k') / (P_max − k'), each operator on [0, 1]                (n, N)
F       benefit score, standardised before fitting                      (n,)
θ       log of amplitude², length scales, noise², then mean and spread of F
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from skopt.learning import GaussianProcessRegressor
from skopt.learning.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from autotrascale.plan.search.one_thread import on_one_thread

Floats = NDArray[np.float64]

LEAST_SPREAD = 1e-9


@dataclass(frozen=True)
class ScoreProcess:
    process: GaussianProcessRegressor
    floor: Floats
    side: Floats
    mean: float
    spread: float

    @on_one_thread
    def predict(self, ks: ArrayLike) -> tuple[Floats, Floats]:
        """μ and σ of F, latent: the noise of a reading, which a white kernel puts into σ, is taken out again."""
        mean, std = self.process.predict(self._unit(ks), return_std=True)
        latent = np.sqrt(np.maximum(std**2 - np.exp(self.process.kernel_.theta[-1]), 0.0))
        return mean * self.spread + self.mean, latent * self.spread

    @property
    def theta(self) -> tuple[float, ...]:
        return (*(float(x) for x in self.process.kernel_.theta), self.mean, self.spread)

    def _unit(self, ks: ArrayLike) -> Floats:
        return np.asarray((np.atleast_2d(np.asarray(ks, dtype=float)) - self.floor) / self.side)


@on_one_thread
def fit(ks: ArrayLike, scores: ArrayLike, floor: Sequence[int], p_max: Sequence[int], seed: int = 0) -> ScoreProcess:
    """Matérn 5/2 with a length scale for each operator and a fitted noise."""
    n = len(floor)
    kernel = ConstantKernel(1.0, (0.01, 1000.0)) * Matern(np.ones(n), [(0.01, 100.0)] * n, nu=2.5) + WhiteKernel(
        0.01, (1e-6, 1.0)
    )
    process = GaussianProcessRegressor(kernel, alpha=1e-10, n_restarts_optimizer=2, random_state=seed)
    return _fitted(process, ks, scores, floor, p_max)


@on_one_thread
def rebuild(
    ks: ArrayLike, scores: ArrayLike, floor: Sequence[int], p_max: Sequence[int], theta: Sequence[float]
) -> ScoreProcess:
    """The process with stored hyperparameters: the same answers, nothing searched."""
    amplitude, *lengths, noise = np.exp(np.asarray(theta[:-2], dtype=float))
    kernel = ConstantKernel(amplitude) * Matern(np.asarray(lengths), nu=2.5) + WhiteKernel(noise)
    process = GaussianProcessRegressor(kernel, alpha=1e-10, optimizer=None)
    return _fitted(process, ks, scores, floor, p_max, standard=(theta[-2], theta[-1]))


def _fitted(
    process: GaussianProcessRegressor,
    ks: ArrayLike,
    scores: ArrayLike,
    floor: Sequence[int],
    p_max: Sequence[int],
    standard: tuple[float, float] | None = None,
) -> ScoreProcess:
    scores = np.asarray(scores, dtype=float)
    # One sample, or equal ones but for rounding, have no spread to divide by.
    spread = float(scores.std())
    mean, spread = standard or (float(scores.mean()), spread if spread > LEAST_SPREAD else 1.0)
    low = np.asarray(floor, dtype=float)
    side = np.maximum(np.asarray(p_max, dtype=float) - low, 1.0)
    made = ScoreProcess(process, low, side, mean, spread)
    with warnings.catch_warnings():
        # A hyperparameter at its bound (noise-free scores, an operator without effect) is an answer, not a fault.
        warnings.simplefilter("ignore", ConvergenceWarning)
        process.fit(made._unit(ks), (scores - mean) / spread)
    return made
