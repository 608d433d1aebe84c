"""The paper's surrogate: a Gaussian process over the benefit score itself (§III-E), by scikit-optimize.

symbol  meaning                                                         shape
x       (k − k') / (P_max − k'), each operator on [0, 1]                (n, N)
F       benefit score, standardised before fitting                      (n,)
θ       log of amplitude², N length scales, noise²; then mean and spread of F    (N + 4,)

Only the paper's algorithms need scikit-optimize, which takes two seconds to import, so it is imported on use.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autotrascale.plan.search.one_thread import on_one_thread

if TYPE_CHECKING:
    from skopt.learning import GaussianProcessRegressor

Floats = NDArray[np.float64]

LEAST_SPREAD = 1e-9


@dataclass(frozen=True)
class ScoreProcess:
    """A fitted process, with the scaling of its inputs (`floor`, `side`) and outputs (`mean`, `spread`)."""

    process: GaussianProcessRegressor
    floor: Floats
    side: Floats
    mean: float
    spread: float

    @on_one_thread
    def predict(self, ks: ArrayLike) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of F at `ks` (n, N), without the noise of a reading."""
        mean, std = self.process.predict(self._scale(ks), return_std=True)
        # A white kernel adds the noise of a reading to σ.
        latent = np.sqrt(np.maximum(std**2 - np.exp(self.process.kernel_.theta[-1]), 0.0))
        return mean * self.spread + self.mean, latent * self.spread

    @property
    def theta(self) -> tuple[float, ...]:
        """θ, from which `rebuild` makes the same process."""
        return (*(float(x) for x in self.process.kernel_.theta), self.mean, self.spread)

    def _scale(self, ks: ArrayLike) -> Floats:
        return np.asarray((np.atleast_2d(np.asarray(ks, dtype=float)) - self.floor) / self.side)


@on_one_thread
def fit(ks: ArrayLike, scores: ArrayLike, floor: Sequence[int], p_max: Sequence[int], seed: int = 0) -> ScoreProcess:
    """Fit a Matérn 5/2 process with one length scale per operator and learned noise to `scores` at `ks` (n, N)."""
    from skopt.learning import GaussianProcessRegressor
    from skopt.learning.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    n = len(floor)
    kernel = ConstantKernel(1.0, (0.01, 1000.0)) * Matern(np.ones(n), [(0.01, 100.0)] * n, nu=2.5) + WhiteKernel(
        0.01, (1e-6, 1.0)
    )
    process = GaussianProcessRegressor(kernel, alpha=1e-10, n_restarts_optimizer=2, random_state=seed)
    return _fit_scaled(process, ks, scores, floor, p_max)


@on_one_thread
def rebuild(
    ks: ArrayLike, scores: ArrayLike, floor: Sequence[int], p_max: Sequence[int], theta: Sequence[float]
) -> ScoreProcess:
    """Return the process with the stored hyperparameters `theta`; it predicts the same numbers as the fitted one."""
    from skopt.learning import GaussianProcessRegressor
    from skopt.learning.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    amplitude, *lengths, noise = np.exp(np.asarray(theta[:-2], dtype=float))
    kernel = ConstantKernel(amplitude) * Matern(np.asarray(lengths), nu=2.5) + WhiteKernel(noise)
    process = GaussianProcessRegressor(kernel, alpha=1e-10, optimizer=None)
    return _fit_scaled(process, ks, scores, floor, p_max, standard=(theta[-2], theta[-1]))


def _fit_scaled(
    process: GaussianProcessRegressor,
    ks: ArrayLike,
    scores: ArrayLike,
    floor: Sequence[int],
    p_max: Sequence[int],
    standard: tuple[float, float] | None = None,
) -> ScoreProcess:
    from sklearn.exceptions import ConvergenceWarning

    scores = np.asarray(scores, dtype=float)
    # One sample, or samples equal up to rounding, have no spread to divide by.
    spread = float(scores.std())
    mean, spread = standard or (float(scores.mean()), spread if spread > LEAST_SPREAD else 1.0)
    low = np.asarray(floor, dtype=float)
    side = np.maximum(np.asarray(p_max, dtype=float) - low, 1.0)
    fitted = ScoreProcess(process, low, side, mean, spread)
    with warnings.catch_warnings():
        # A hyperparameter at its bound is expected: noise-free scores, or an operator without effect.
        warnings.simplefilter("ignore", ConvergenceWarning)
        process.fit(fitted._scale(ks), (scores - mean) / spread)
    return fitted
