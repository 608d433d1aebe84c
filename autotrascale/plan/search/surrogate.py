"""The surrogate: a Gaussian process over log latency, fitted to the runs at this rate and those of source models.

    symbol  meaning                                                         shape
    y       log(l_r / l_t): below zero the target is met                    (T,)
    φ       log(k_i / k'_i), every run relative to the floor of its rate    (T, N)
    μ, σ    posterior of the true y, without the noise of a reading         (n,)
    θ       log hyperparameters of `LatencyKernel`, found as the mode of likelihood × prior

Two choices carry most of the weight. Latency is modelled rather than the score, because the resource term is known
exactly. And configurations are compared by k/k': a run at another rate that used its operators equally is the same
run, so that a source model says something before the first run at a new rate (§III-F, l. 9).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessRegressor

from autotrascale.plan.search import expectation
from autotrascale.plan.search.kernel import LatencyKernel, Layout
from autotrascale.plan.search.lattice import Point
from autotrascale.plan.search.one_thread import on_one_thread
from autotrascale.plan.sizing.sizing import Sizing

Floats = NDArray[np.float64]

# Priors of the hyperparameters: median and spread (of the logarithm). They matter, as ten runs cannot tell twenty
# numbers. Medians: effects of an operator fade over a factor of e in k; its own effect is a factor of e^0.4.
Prior = tuple[Any, float]  # median and spread; the median may be an array, one for each operator

_PRIORS: dict[str, tuple[float, float]] = {
    "amplitude": (0.4, 1.0),
    "joint_amplitude": (0.6, 0.5),
    "joint_scale": (1.35, 0.5),
    "length_scale": (1.0, 1.0),
    "noise": (0.05, 0.3),
}
_PIECE = 128
_ITERATIONS = 15  # the mode is flat: more iterations change the hyperparameters, not the answers

# An operator that is hardly busy at its floor has hardly any latency to give: more of it is not worth a run, until runs
# say otherwise. Its length scale grows as the square of how much less busy it is than the busiest, this much at most.
_LEAST_BUSY = 0.05

# Readings far off the target only have to say "far off": without a bound one saturated run bends the whole surface.
_FARTHEST = 3.0

CORRELATIONS = (0.0, 0.5, 0.8, 0.95, 0.99)  # what a source may be worth; 0 drops it
EXPECTED_CORRELATION = 0.95  # … and what it is worth before any run has tested it


@dataclass(frozen=True)
class Readings:
    """Runs made at one rate, with what places them: the job's sizing at that rate."""

    sizing: Sizing
    ks: tuple[Point, ...] = ()
    log_ratio: tuple[float, ...] = ()  # y
    weight: tuple[float, ...] = ()  # variance of a reading in units of ν²: 1/windows, more for a failed run

    @property
    def floor(self) -> Point:
        return self.sizing.floor

    def features(self, ks: ArrayLike) -> Floats:
        return np.asarray(np.log(np.asarray(ks, dtype=float) / np.asarray(self.floor, dtype=float)))

    def shapes(self, ks: ArrayLike) -> Floats:
        return expectation.shapes(self.sizing, ks)

    @property
    def y(self) -> Floats:
        return np.asarray(np.clip(np.asarray(self.log_ratio, dtype=float), -_FARTHEST, _FARTHEST))


@dataclass(frozen=True)
class Posterior:
    """What the runs say about the latency of any configuration at the present rate."""

    present: Readings
    kernel: LatencyKernel
    rows: Floats
    chol: Floats
    alpha: Floats
    level: float

    @on_one_thread
    def log_ratio(self, ks: ArrayLike) -> tuple[Floats, Floats]:
        """μ and σ of y."""
        ks = np.atleast_2d(np.asarray(ks))
        shapes = self.present.shapes(ks)
        rows = self.kernel.layout.rows(self.present.features(ks), shapes, 0, np.ones(len(ks)))
        mean = self.level + shapes.mean(axis=-1)
        variance = self.kernel.diag(rows)
        if len(self.rows):
            # In pieces that stay in the processor's cache: the kernel makes n × T × N numbers on its way.
            cross = np.concatenate([self.kernel(rows[i : i + _PIECE], self.rows) for i in range(0, len(rows), _PIECE)])
            mean = mean + cross @ self.alpha
            half = solve_triangular(self.chol, cross.T, lower=True, check_finite=False)
            variance = variance - np.einsum("ij,ij->j", half, half)
        # Rounding may leave a tiny negative variance at a point that was run many times.
        return mean, np.sqrt(np.maximum(variance, 1e-10))

    @property
    def correlation(self) -> tuple[float, ...]:
        """ρ_s: how much each source was found to be worth."""
        return tuple(self.kernel.correlation)

    @property
    def noise(self) -> float:
        return float(self.kernel.noise)


@on_one_thread
def fit(present: Readings, sources: Sequence[Readings] = (), *, noise: float = 0.05) -> Posterior:
    """The posterior after the runs. θ is looked for from the medians of its prior, always: so it depends on the runs
    and not on what was fitted before."""
    layout = Layout(len(present.floor), present.shapes([present.floor]).shape[1])
    priors = _PRIORS | {"noise": (noise, _PRIORS["noise"][1]), "length_scale": _length_scales(present.sizing)}
    kernel = _prior_kernel(layout, priors, len(sources))
    rows, residual, level = _stack(layout, (present, *sources))
    if len(rows) == 0:
        return Posterior(present, kernel, rows, np.empty((0, 0)), np.empty(0), level)
    process = GaussianProcessRegressor(kernel, alpha=1e-8, optimizer=None).fit(rows, residual)
    correlation = _weigh_sources(process, len(present.ks))
    kernel = _with_correlation(kernel, correlation)
    rows, residual, level = _stack(layout, (present, *_kept(sources, correlation)))
    process = GaussianProcessRegressor(kernel, alpha=1e-8, optimizer=_posterior_mode(layout, priors))
    process.fit(rows, residual)
    return Posterior(present, process.kernel_, rows, process.L_, process.alpha_, level)


@on_one_thread
def rebuild(present: Readings, sources: Sequence[Readings], theta: Sequence[float], rho: Sequence[float]) -> Posterior:
    """The posterior with hyperparameters as they were stored: nothing is searched, so the answers are the same."""
    layout = Layout(len(present.floor), present.shapes([present.floor]).shape[1])
    kernel = _prior_kernel(layout, _PRIORS, len(sources)).clone_with_theta(np.asarray(theta, dtype=float))
    kernel = _with_correlation(kernel, tuple(rho))
    rows, residual, level = _stack(layout, (present, *_kept(sources, rho)))
    process = GaussianProcessRegressor(kernel, alpha=1e-8, optimizer=None).fit(rows, residual)
    return Posterior(present, process.kernel_, rows, process.L_, process.alpha_, level)


def _with_correlation(kernel: LatencyKernel, correlation: tuple[float, ...]) -> LatencyKernel:
    fresh: LatencyKernel = kernel.clone_with_theta(kernel.theta)
    fresh.correlation = correlation
    return fresh


def _kept(sources: Sequence[Readings], correlation: Sequence[float]) -> tuple[Readings, ...]:
    """The sources, those worth nothing emptied: left in, they would still move the level and θ."""
    return tuple(
        source if rho > 0 else Readings(source.sizing) for source, rho in zip(sources, correlation, strict=True)
    )


def _stack(layout: Layout, readings: Sequence[Readings]) -> tuple[Floats, Floats, float]:
    """All runs as rows, what is left of y after the expected shape, and the level taken off it."""
    rows, residual = [np.empty((0, layout.operators + layout.shapes + 2))], [np.empty(0)]
    for source, part in enumerate(readings):
        if part.ks:
            # By the present execution: one row has one number of shapes, and a source may not have known its own.
            shapes = replace(part, sizing=replace(part.sizing, execution=readings[0].sizing.execution)).shapes(part.ks)
            rows.append(layout.rows(part.features(part.ks), shapes, source, np.asarray(part.weight)))
            residual.append(part.y - shapes.mean(axis=-1))
    stacked = np.concatenate(residual)
    level = float(stacked.mean()) if len(stacked) else 0.0
    return np.concatenate(rows), stacked - level, level


def _weigh_sources(process: GaussianProcessRegressor, runs: int) -> tuple[float, ...]:
    """ρ_s by evidence, one source after the other: a source that misleads explains the runs worse than none would."""
    kernel: LatencyKernel = process.kernel_
    chosen = list(kernel.correlation)
    if runs == 0:
        return tuple(chosen)
    for s in range(len(chosen)):
        evidence = []
        for rho in CORRELATIONS:
            kernel.correlation = (*chosen[:s], rho, *chosen[s + 1 :])
            evidence.append(process.log_marginal_likelihood(kernel.theta, clone_kernel=False))
        chosen[s] = CORRELATIONS[int(np.argmax(evidence))]
    return tuple(chosen)


def _prior_kernel(layout: Layout, priors: Mapping[str, Prior], sources: int) -> LatencyKernel:
    return LatencyKernel(
        layout,
        amplitude=np.full(layout.operators, priors["amplitude"][0]),
        joint_amplitude=priors["joint_amplitude"][0],
        joint_scale=priors["joint_scale"][0],
        length_scale=np.full(layout.operators, priors["length_scale"][0]),
        noise=priors["noise"][0],
        correlation=(EXPECTED_CORRELATION,) * sources,
    )


def _length_scales(sizing: Sizing) -> Prior:
    """ℓ_i: the same for all where no load was measured."""
    median, spread = _PRIORS["length_scale"]
    busy = np.asarray(sizing.hottest, dtype=float) / np.asarray(sizing.floor, dtype=float)
    if not sizing.measured or busy.max() <= 0:
        return median, spread
    return median / np.maximum((busy / busy.max()) ** 2, _LEAST_BUSY), spread


Objective = Callable[[Floats], tuple[float, Floats]]


def _posterior_mode(layout: Layout, priors: Mapping[str, Prior]) -> Callable[..., tuple[Floats, float]]:
    """An optimiser for scikit-learn that adds the log prior of θ to the log likelihood it is handed."""
    centre = np.log(_by_element(layout, priors, 0))
    spread = _by_element(layout, priors, 1)

    def search(negative_likelihood: Objective, start: Floats, **_bounds: object) -> tuple[Floats, float]:
        def objective(theta: Floats) -> tuple[float, Floats]:
            value, slope = negative_likelihood(theta)
            z = (theta - centre) / spread
            return value + 0.5 * float(z @ z), slope + z / spread

        # scikit-learn's own bounds are wider. Within three spreads: beyond, only a diverging line search would go.
        box = list(zip(centre - 3 * spread, centre + 3 * spread, strict=True))
        found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=box, options={"maxiter": _ITERATIONS})
        return found.x, float(found.fun)

    return search


def _by_element(layout: Layout, priors: Mapping[str, Prior], part: int) -> Floats:
    """Prior medians or spreads laid out as θ is: alphabetical, the per-operator ones N times."""
    sizes = {"amplitude": layout.operators, "length_scale": layout.operators}
    return np.concatenate([np.full(sizes.get(name, 1), priors[name][part]) for name in sorted(priors)])
