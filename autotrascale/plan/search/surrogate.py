"""The surrogate: a latency model of the job, and a Gaussian process over the residuals of that model.

    symbol  meaning                                                                        shape
    y       log(l_r / l_t): below zero the target is met                                   (T,)
    m, β    mean function (see `mean_function`) and its parameters, β ~ N(β₀, Σ₀); they    (P,)
            include the speed of the machine in each other session
    δ       log deviation of loads from the latency model; e_i = ∂m/∂ log load_i           (T, N)
    φ       log(k_i / load_i) at the rate of the run, and the log of that rate             (T, N + 1)
    κ       covariance of the residuals: A² M(‖φ − φ'‖ / L), plus D_s² within source s,
            plus Σ_i e_i e_i' cov(δ_i, δ_i')
    ν       relative noise of a reading, learned from repeated windows
    μ, σ    posterior of the true y, without the noise of a reading                        (n,)
    V       posterior covariance of β                                                      (P, P)

All runs are one set of data, at any rate and time: y = m(k, q; β, δ) + residual + noise. Measured loads and costs are
data too. They tell most about runs elsewhere: a run has one latency, but one load for each operator. β̂ has the highest
posterior density, and m is linearised around it, so that uncertainty of β becomes uncertainty of latency:

    μ(x) = m(x; β̂) + κ(x)ᵀ K⁻¹ (y − m),    σ² = κ − κᵀ K⁻¹ κ + h V hᵀ,    h = ∂m/∂β(x) − κ(x)ᵀ K⁻¹ ∂m/∂β

Near saturation m is not linear: it rises without bound, but falls only to the time of a record that never waits. Where
μ is above the target only the fall matters. So there the slope by the parameters that make operators busy is limited to
the mean slope down to FALL standard deviations less of these parameters. Otherwise the slowest configuration would be
the most promising, because it is the most uncertain.

The runs of a source, an earlier study, count like own runs as long as the evidence supports it. Otherwise they count
with a doubt D_s, and if the evidence is against that too, they are left out. Measured loads of a source are evidence,
so the model of another job is recognised before the first run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dpotrs, dtrtrs

from autotrascale.plan.search.latency_model import MEASURED, LatencyModel
from autotrascale.plan.search.mean_function import MeanEvaluation, MeanFunction
from autotrascale.plan.search.measured_loads import ERROR, LoadDeviation, look_up
from autotrascale.plan.search.one_thread import on_one_thread
from autotrascale.plan.search.training_data import Doubt, SessionReadings, TrainingData, build_training_data

Floats = NDArray[np.float64]

AMPLITUDE, LENGTH = 0.2, 1.5  # A, L
AMPLITUDE_OF_TIMED = 0.1  # A, when service times or the fixed cost of a batch are measured

LATEST, MOST_DOUBT = 50.0, 20.0  # bounds of |μ| and of σ

FALL = 2.0  # standard deviations of busy parameters over which the fall of latency is measured

# D_s, and −log of its prior weight: the same job; a somewhat different job; another job, whose runs are left out.
DOUBTS: tuple[tuple[Doubt, float], ...] = ((0.0, 0.0), (0.15, 1.5), (None, 2.5))
OTHER = 1.0  # spread of the log loads of another job

# The configured noise counts as so many windows. The learned noise differs from it by a factor of MOST_OFF at most,
# because consecutive windows are more alike than others. Of 105 jobs, 79 % stop within five runs without learning, 81 %
# with four windows and 82 % with two; 90 % stop within 9, 9 and 7 runs.
CONFIGURED_WINDOWS = 2.0
MOST_OFF = 2.0
LEAST_NOISE = 1e-4  # readings of less noise are as good as exact

STEPS, PASSES = 25, 2  # most steps towards β̂; updates of the covariance, which depends on β
SETTLED = 1e-3  # gain below which a step is the last


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of log latency at any configuration and rate, given the runs."""

    mean_function: MeanFunction
    beta: Floats
    curvature: Floats  # R: V⁻¹ = R Rᵀ
    chol: Floats  # L: K = L Lᵀ
    residual: Floats  # L⁻¹ (y − m)
    slopes: Floats  # −L⁻¹ ∂m/∂β
    by_load: Floats  # e of the runs
    evidence: float  # log marginal likelihood, up to a constant
    amplitude: float
    most: int  # most instances of an operator
    noise: float
    doubts: tuple[Doubt, ...]

    @on_one_thread
    def log_ratio(self, ks: ArrayLike, log_q: float = 0.0) -> tuple[Floats, Floats]:
        """Return μ and σ of y at `ks` (n, N) and the log rate ratio `log_q`, default 0."""
        ks = np.atleast_2d(np.asarray(ks, dtype=float))
        rates = np.full(len(ks), log_q)
        m = self.mean_function.latency(ks, rates, self.beta, self._deviation)
        mean, h, variance = m.value, m.slope, self.amplitude**2 + m.unsure
        if len(self.data.y):
            cross = self.amplitude**2 * _matern(compute_features(self.latency_model, ks, rates), self._phi)
            if self.data.loads.spread:
                cross += np.einsum(
                    "ni,ti,nit->nt", m.by_load, self.by_load, look_up(self._remaining_covariance, ks, self.most)
                )
            half = _solve_lower(self.chol, cross.T)
            mean = mean + half.T @ self.residual
            variance = np.maximum(variance - np.einsum("ij,ij->j", half, half), 0.0)
            h = h + half.T @ self.slopes
        doubt = self._parameter_variance(h)
        if (late := mean > 0).any():
            doubt[late] = np.minimum(
                doubt[late], self._parameter_variance(h[late] - self._excess_slope(ks, rates, m, late))
            )
        # Rounding may leave no variance at a configuration with many windows.
        spread = np.sqrt(np.maximum(variance + doubt, 1e-10))
        return np.clip(mean, -LATEST, LATEST), np.minimum(spread, MOST_DOUBT)

    @property
    def latency_model(self) -> LatencyModel:
        """The latency model of the job."""
        return self.mean_function.latency_model

    @property
    def data(self) -> TrainingData:
        """The runs and measurements."""
        return self.mean_function.data

    @property
    def informed(self) -> bool:
        """True when at least one source counts."""
        return any(doubt is not None for doubt in self.doubts)

    def _parameter_variance(self, h: Floats) -> Floats:
        """Return h V hᵀ for each row of h."""
        half = _solve_lower(self.curvature, h.T)
        return np.asarray(np.einsum("ij,ij->j", half, half))

    def _excess_slope(self, ks: Floats, log_q: Floats, m: MeanEvaluation, late: NDArray[np.bool_]) -> Floats:
        """Return the part of dm/dβ that exceeds the mean slope of the fall of m, for the rows `late`.

        It covers all parameters that make operators busier, and the measured loads that depend on β.
        """
        busier, numbers = self.mean_function.busier, len(self.latency_model.centre)
        ks, log_q, plain = ks[late], log_q[late], m.plain[late]
        deviation = 0.0 if self._deviation is None else look_up(self._deviation.mean, ks, self.most)
        lowered = np.where(busier, FALL * self._spread_of_beta, 0.0)
        least = self.latency_model.value(ks, log_q, (self.beta - lowered)[:numbers], deviation)
        linear_fall = plain @ lowered
        share = np.divide(m.value[late] - least, linear_fall, out=np.ones(len(ks)), where=linear_fall > 0)
        through_loads = np.where(busier, plain, 0.0) + m.slope[late] - plain
        return np.asarray(through_loads * (1 - np.clip(share, 0.0, 1.0))[:, None])

    @cached_property
    def _deviation(self) -> LoadDeviation | None:
        return self.mean_function.deviation(self.most, self.beta)

    @cached_property
    def _remaining_covariance(self) -> Floats:
        return self.data.loads.posterior_covariance(self.most, self.data.ks)

    @cached_property
    def _spread_of_beta(self) -> Floats:
        root = _solve_lower(self.curvature, np.eye(len(self.beta)))
        return np.asarray(np.sqrt((root**2).sum(axis=0)))

    @cached_property
    def _phi(self) -> Floats:
        return compute_features(self.latency_model, self.data.ks, self.data.log_q)


@on_one_thread
def fit(present: SessionReadings, sources: Sequence[SessionReadings] = (), *, noise: float = 0.05) -> Posterior:
    """Return the posterior given the runs of the present session and of `sources`.

    Each source in turn gets the doubt with the highest evidence.

    Args:
        present: runs of the present session, possibly none.
        sources: runs of earlier sessions, default none.
        noise: configured relative noise of a reading, default 0.05. Repeated windows of this session and of sources of
            the same job correct it.
    """
    # A stored model has a summary of its sizing. A source with the same window as the present session has its sizing.
    sources = [replace(each, sizing=present.sizing) if each.shares_window_of(present) else each for each in sources]
    own = [source for source in sources if source.shares_window_of(present)]
    configured, noise = noise, learn_noise(noise, [present, *own])
    parts = [present, *sources]
    latency_model = LatencyModel.of(present.sizing)
    amplitude = AMPLITUDE_OF_TIMED if latency_model.timed or any(part.has_fixed_cost for part in parts) else AMPLITUDE
    doubts: list[Doubt] = [0.0] * len(sources)
    best = _fit(latency_model, parts, doubts, noise, amplitude)
    for s, source in enumerate(sources):
        weighed = []
        for doubt, price in DOUBTS:
            if doubt and source.shares_window_of(present):
                continue  # the same window is of the same job, or of another job by mistake
            tried = [*doubts[:s], doubt, *doubts[s + 1 :]]
            fitted = best if tried == doubts else _fit(latency_model, parts, tried, noise, amplitude)
            apart = _evidence_alone(source, noise, amplitude) if doubt is None else 0.0
            weighed.append((fitted.evidence + apart - price, -price, tried, fitted))
        _, _, doubts, best = max(weighed, key=lambda each: each[:2])
    theirs = [source for source, doubt in zip(sources, doubts, strict=True) if doubt is not None]
    known = learn_noise(configured, [present, *theirs])
    return best if known == noise else _fit(latency_model, parts, doubts, known, amplitude)


def learn_noise(configured: float, parts: Sequence[SessionReadings]) -> float:
    """Return ν. A configuration that a source with the same sizing window also ran counts as a repeated window."""
    present, *sources = parts
    repeated, scatter = sum(part.repeated for part in parts), sum(part.scatter for part in parts)
    for source in sources:
        theirs = source.read if source.shares_window_of(present) else {}
        for where, (y, weight) in present.read.items():
            if where in theirs:
                other, its_weight = theirs[where]
                repeated, scatter = repeated + 1, scatter + (y - other) ** 2 / (weight + its_weight)
    found = math.sqrt((CONFIGURED_WINDOWS * configured**2 + scatter) / (CONFIGURED_WINDOWS + repeated))
    return min(max(found, configured / MOST_OFF, LEAST_NOISE), MOST_OFF * configured)


@lru_cache(maxsize=64)
def _evidence_alone(source: SessionReadings, noise: float, amplitude: float) -> float:
    """Return the evidence of a source as a separate job, with the same amplitude, so that both are comparable.

    The loads that its latency model starts from are no evidence: another job may have any loads.
    """
    found = _fit(LatencyModel.of(source.sizing), [source], [], noise, amplitude).evidence
    return found - len(source.floor) * float(np.log(OTHER / np.hypot(MEASURED, ERROR))) * source.sizing.measured


def _fit(
    latency_model: LatencyModel,
    parts: Sequence[SessionReadings],
    doubts: Sequence[Doubt],
    noise: float,
    amplitude: float,
) -> Posterior:
    mean_function = MeanFunction(latency_model, build_training_data(latency_model, parts, [0.0, *doubts]))
    data = mean_function.data
    phi = compute_features(latency_model, data.ks, data.log_q)
    covariance = amplitude**2 * _matern(phi, phi) + np.diag(noise**2 * data.weight)
    for s, doubt in enumerate(doubts, start=1):
        same = data.session == s
        covariance += (doubt or 0.0) ** 2 * np.outer(same, same)
    at_runs = int(data.ks.max(initial=1))
    left = look_up(data.loads.posterior_covariance(at_runs, data.ks), data.ks, at_runs)
    beta = mean_function.centre
    for _ in range(PASSES if data.loads.spread else 1):  # the covariance of δ depends on β
        deviation = mean_function.deviation(at_runs, beta)
        by_load = mean_function.latency(data.ks, data.log_q, beta, deviation).by_load
        chol = _cholesky(covariance + np.einsum("ti,ui,tiu->tu", by_load, by_load, left))
        beta, errors, slopes = _maximise_posterior(mean_function, chol, beta)
    curvature = _triangular_root(slopes)
    roots = (np.diag(chol), np.diag(curvature), mean_function.spread)
    evidence = -0.5 * errors @ errors - sum(np.log(np.abs(each)).sum() for each in roots) - mean_function.log_root
    runs, most = len(data.y), max(at_runs, *parts[0].sizing.upper)
    return Posterior(
        mean_function,
        beta,
        curvature,
        chol,
        errors[:runs],
        slopes[:runs],
        by_load,
        float(evidence),
        amplitude,
        most,
        noise,
        tuple(doubts),
    )


def _maximise_posterior(mean_function: MeanFunction, chol: Floats, beta: Floats) -> tuple[Floats, Floats, Floats]:
    """Return β̂ by Levenberg–Marquardt steps from β, with the errors and slopes there."""
    spread, damping = mean_function.spread, 0.0
    errors, slopes = _whitened_errors(mean_function, chol, beta)
    for _ in range(STEPS):
        root = _triangular_root(np.concatenate([slopes, np.sqrt(damping) * np.diag(1 / spread)]))
        step = -np.asarray(dpotrs(root, slopes.T @ errors, lower=1)[0])
        tried = beta + np.clip(step, -2 * spread, 2 * spread)
        found = _whitened_errors(mean_function, chol, tried)
        gain = 0.5 * float(errors @ errors - found[0] @ found[0])
        if gain <= 0:
            damping = max(4 * damping, 1.0)
            continue
        beta, (errors, slopes), damping = tried, found, damping / 4
        if gain < SETTLED:
            break
    return beta, errors, slopes


def _whitened_errors(mean_function: MeanFunction, chol: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """Return the errors of latencies, measured loads and costs, and prior of β, in standard deviations, and ∂/∂β."""
    data = mean_function.data
    m = mean_function.latency(data.ks, data.log_q, beta, mean_function.deviation(int(data.ks.max(initial=1)), beta))
    residual = data.y - m.value
    white = np.column_stack([np.where(data.at_least & (residual < 0), 0.0, residual), -m.slope])
    if len(chol):
        white = _solve_lower(chol, white)
    own = np.column_stack([beta - mean_function.centre, np.eye(len(beta))]) / mean_function.spread[:, None]
    every = np.concatenate([white, mean_function.measurements(beta), own])
    return every[:, 0], every[:, 1:]


def compute_features(latency_model: LatencyModel, ks: Floats, log_q: Floats) -> Floats:
    """Return φ of each row, shape (n, N + 1)."""
    return np.column_stack([np.log(ks) - np.log(latency_model.loads) - log_q[:, None], log_q])


def _triangular_root(slopes: Floats) -> Floats:
    """Return L with L Lᵀ = Jᵀ J by QR of J: in JᵀJ, slopes of a saturated job hide all others."""
    upper = np.asarray(np.linalg.qr(slopes, mode="r"), dtype=np.float64)
    return upper.T


def _cholesky(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)


def _solve_lower(root: Floats, right: Floats) -> Floats:
    """Return L⁻¹ right by LAPACK's own routine: for small matrices, the checks of a wrapper take most of the time."""
    return np.asarray(dtrtrs(root, right, lower=1)[0])


def _matern(a: Floats, b: Floats) -> Floats:
    """Return M(r) = (1 + √5 r + 5r²/3) e^{−√5 r} of the distances r between rows of a and b, in units of L."""
    a, b = a * (np.sqrt(5.0) / LENGTH), b * (np.sqrt(5.0) / LENGTH)
    squares = (-2 * a) @ b.T
    squares += (a**2).sum(axis=1)[:, None]
    squares += (b**2).sum(axis=1)
    r = np.sqrt(np.maximum(squares, 0.0, out=squares))
    polynomial = np.add(squares / 3, r + 1)
    return np.asarray(polynomial * np.exp(-r))
