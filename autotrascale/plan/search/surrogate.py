"""The surrogate: what is known of a job's physics, and a Gaussian process over what the physics leaves unexplained.

    symbol  meaning                                                                        shape
    y       log(l_r / l_t): below zero the target is met                                   (T,)
    m, β    the expected log latency and its numbers (see `physics`), β ~ N(β₀, Σ₀);
            with them the speed of the machine in each other session (see `measured_loads`)
    δ       what measured loads are beyond the physics; e_i = ∂m/∂ log load_i              (T, N)
    φ       log(k_i / load_i) at the rate of the run, and the log of that rate             (T, N + 1)
    κ       covariance of what m leaves: A² M(‖φ − φ'‖ / L), and D_s² more within source s, and
            Σ_i e_i e_i' cov(δ_i, δ_i')
    ν, f    relative noise of a reading, learned; of a measured cost of a batch beside its operators
    μ, σ    posterior of the true y, without the noise of a reading                        (n,)

All that was run is one set of data, whatever the rate and whenever: y = m(k, q; β, δ) + what m leaves + noise. What
windows measured of loads and costs is data too, and most of what a run says of runs elsewhere: latency is one number,
loads are one for each operator. β stands where the posterior is highest; m is taken as linear around it, so that doubt
about β is doubt about latency:

    μ(x) = m(x; β̂) + κ(x)ᵀ K⁻¹ (y − m),    σ² = κ − κᵀ K⁻¹ κ + h V hᵀ,    h = ∂m/∂β(x) − κ(x)ᵀ K⁻¹ ∂m/∂β

Near saturation m bends: it rises without end and falls no lower than what a record takes anyway. Where μ is above the
target only the fall matters, so there the slope by what makes operators busy is no steeper than down to where all of
it is FALL standard deviations less. Else the latest configuration would be the most hopeful, for being the least
certain.

Runs of a source, which another tuning run made, count as one's own for as long as the evidence is for it. Else they
count with a doubt D_s; and where even that is too much to believe, not at all. The loads that a source measured are
evidence too, so that the model of another job is recognised before the first run.
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
AMPLITUDE_OF_TIMED = 0.1  # A, where windows measured what a record takes of each operator, or a batch beside them

# A log ratio beyond which, either way, no clock could show the latency; a doubt that is none about which.
LATEST, MOST_DOUBT = 50.0, 20.0

FALL = 2.0  # how far the operators' busyness is followed down, to see how much latency can fall

# D_s, and −log of what each is worth before any run has tested it: as one's own; somewhat different; another job.
DOUBTS: tuple[tuple[Doubt, float], ...] = ((0.0, 0.0), (0.15, 1.5), (None, 2.5))
OTHER = 1.0  # spread of the log loads of another job

# What the noise was said to be counts as so many windows; and it is off by so many times at most, as windows that
# follow each other are more alike than others. Of 105 jobs seen, 79 % stop within five runs where it stays as it was
# said, 81 % where that counts as four windows, and 82 % with two; 90 % stop within 9, 9 and 7.
SAID = 2.0
MOST_OFF = 2.0
LEAST_NOISE = 1e-4  # below, readings are as good as exact

STEPS, PASSES = 25, 2  # towards β̂, at most; with the covariance worked out anew
SETTLED = 1e-3  # a step that gains less is the last


@dataclass(frozen=True, eq=False)
class Posterior:
    """What the runs say about the latency of any configuration, at the present rate or another."""

    expectation: MeanFunction
    beta: Floats
    curvature: Floats  # R: V⁻¹ = R Rᵀ
    chol: Floats  # L: K = L Lᵀ
    residual: Floats  # L⁻¹ (y − m)
    slopes: Floats  # −L⁻¹ ∂m/∂β
    by_load: Floats  # e of the runs
    evidence: float
    amplitude: float
    most: int  # instances that an operator may have
    noise: float
    doubts: tuple[Doubt, ...]

    @on_one_thread
    def log_ratio(self, ks: ArrayLike, log_q: float = 0.0) -> tuple[Floats, Floats]:
        """μ and σ of y."""
        ks = np.atleast_2d(np.asarray(ks, dtype=float))
        rates = np.full(len(ks), log_q)
        m = self.expectation.latency(ks, rates, self.beta, self._beyond)
        mean, h, variance = m.value, m.slope, self.amplitude**2 + m.unsure
        if len(self.data.y):
            cross = self.amplitude**2 * _matern(compute_features(self.physics, ks, rates), self._phi)
            if self.data.loads.spread:
                cross += np.einsum("ni,ti,nit->nt", m.by_load, self.by_load, look_up(self._left, ks, self.most))
            half = _halfway(self.chol, cross.T)
            mean = mean + half.T @ self.residual
            variance = np.maximum(variance - np.einsum("ij,ij->j", half, half), 0.0)
            h = h + half.T @ self.slopes
        doubt = self._doubt(h)
        if (late := mean > 0).any():
            doubt[late] = np.minimum(doubt[late], self._doubt(h[late] - self._overstated(ks, rates, m, late)))
        # Rounding may leave no variance at a point that was run many times.
        spread = np.sqrt(np.maximum(variance + doubt, 1e-10))
        return np.clip(mean, -LATEST, LATEST), np.minimum(spread, MOST_DOUBT)

    @property
    def physics(self) -> LatencyModel:
        return self.expectation.physics

    @property
    def data(self) -> TrainingData:
        return self.expectation.data

    @property
    def informed(self) -> bool:
        """Whether any source counts."""
        return any(doubt is not None for doubt in self.doubts)

    def _doubt(self, h: Floats) -> Floats:
        """h V hᵀ."""
        half = _halfway(self.curvature, h.T)
        return np.asarray(np.einsum("ij,ij->j", half, half))

    def _overstated(self, ks: Floats, log_q: Floats, m: MeanEvaluation, late: NDArray[np.bool_]) -> Floats:
        """By how much dm/dβ is steeper, through all that makes operators busy, than the fall of m to where all of it is
        less. What was measured of loads holds against what β says of them, so both are."""
        busier, numbers = self.expectation.busier, len(self.physics.centre)
        ks, log_q, plain = ks[late], log_q[late], m.plain[late]
        beyond = 0.0 if self._beyond is None else look_up(self._beyond.mean, ks, self.most)
        lowered = np.where(busier, FALL * self._spread_of_beta, 0.0)
        least = self.physics.value(ks, log_q, (self.beta - lowered)[:numbers], beyond)
        promised = plain @ lowered
        kept = np.divide(m.value[late] - least, promised, out=np.ones(len(ks)), where=promised > 0)
        through_loads = np.where(busier, plain, 0.0) + m.slope[late] - plain
        return np.asarray(through_loads * (1 - np.clip(kept, 0.0, 1.0))[:, None])

    @cached_property
    def _beyond(self) -> LoadDeviation | None:
        return self.expectation.beyond(self.most, self.beta)

    @cached_property
    def _left(self) -> Floats:
        return self.data.loads.left(self.most, self.data.ks)

    @cached_property
    def _spread_of_beta(self) -> Floats:
        root = _halfway(self.curvature, np.eye(len(self.beta)))
        return np.asarray(np.sqrt((root**2).sum(axis=0)))

    @cached_property
    def _phi(self) -> Floats:
        return compute_features(self.physics, self.data.ks, self.data.log_q)


@on_one_thread
def fit(present: SessionReadings, sources: Sequence[SessionReadings] = (), *, noise: float = 0.05) -> Posterior:
    """The posterior after the runs, each source in turn with the doubt that the evidence gives it. `noise` as it was
    said to be; what windows at one configuration show of it counts too, of sources that are this job's."""
    # A model keeps its sizing in short. What the very same window said beside, it says of that session too.
    sources = [replace(each, sizing=present.sizing) if each.shares_window_of(present) else each for each in sources]
    own = [source for source in sources if source.shares_window_of(present)]
    said, noise = noise, learn_noise(noise, [present, *own])
    parts = [present, *sources]
    physics = LatencyModel.of(present.sizing)
    amplitude = AMPLITUDE_OF_TIMED if physics.timed or any(part.tells_costs for part in parts) else AMPLITUDE
    doubts: list[Doubt] = [0.0] * len(sources)
    best = _fit(physics, parts, doubts, noise, amplitude)
    for s, source in enumerate(sources):
        weighed = []
        for doubt, price in DOUBTS:
            if doubt and source.shares_window_of(present):
                continue  # one's own, or told of another job by mistake: there is nothing between
            tried = [*doubts[:s], doubt, *doubts[s + 1 :]]
            fitted = best if tried == doubts else _fit(physics, parts, tried, noise, amplitude)
            apart = _evidence_alone(source, noise, amplitude) if doubt is None else 0.0
            weighed.append((fitted.evidence + apart - price, -price, tried, fitted))
        _, _, doubts, best = max(weighed, key=lambda each: each[:2])
    theirs = [source for source, doubt in zip(sources, doubts, strict=True) if doubt is not None]
    known = learn_noise(said, [present, *theirs])
    return best if known == noise else _fit(physics, parts, doubts, known, amplitude)


def learn_noise(said: float, parts: Sequence[SessionReadings]) -> float:
    """ν. What a source of the very same window ran too, is one more window of the present session's configuration."""
    present, *sources = parts
    repeated, scatter = sum(part.repeated for part in parts), sum(part.scatter for part in parts)
    for source in sources:
        theirs = source.read if source.shares_window_of(present) else {}
        for where, (y, weight) in present.read.items():
            if where in theirs:
                other, its_weight = theirs[where]
                repeated, scatter = repeated + 1, scatter + (y - other) ** 2 / (weight + its_weight)
    found = math.sqrt((SAID * said**2 + scatter) / (SAID + repeated))
    return min(max(found, said / MOST_OFF, LEAST_NOISE), MOST_OFF * said)


@lru_cache(maxsize=64)
def _evidence_alone(source: SessionReadings, noise: float, amplitude: float) -> float:
    """Of a source as a job of its own, with as much left unexplained as where it is not: else what its sizing does not
    hold would be evidence. The loads that its physics starts from are none: those of another job may be any."""
    found = _fit(LatencyModel.of(source.sizing), [source], [], noise, amplitude).evidence
    return found - len(source.floor) * float(np.log(OTHER / np.hypot(MEASURED, ERROR))) * source.sizing.measured


def _fit(
    physics: LatencyModel, parts: Sequence[SessionReadings], doubts: Sequence[Doubt], noise: float, amplitude: float
) -> Posterior:
    expectation = MeanFunction(physics, build_training_data(physics, parts, [0.0, *doubts]))
    data = expectation.data
    phi = compute_features(physics, data.ks, data.log_q)
    covariance = amplitude**2 * _matern(phi, phi) + np.diag(noise**2 * data.weight)
    for s, doubt in enumerate(doubts, start=1):
        same = data.session == s
        covariance += (doubt or 0.0) ** 2 * np.outer(same, same)
    at_runs = int(data.ks.max(initial=1))
    left = look_up(data.loads.left(at_runs, data.ks), data.ks, at_runs)
    beta = expectation.centre
    for _ in range(PASSES if data.loads.spread else 1):  # what δ adds to the covariance follows from β
        beyond = expectation.beyond(at_runs, beta)
        by_load = expectation.latency(data.ks, data.log_q, beta, beyond).by_load
        chol = _cholesky(covariance + np.einsum("ti,ui,tiu->tu", by_load, by_load, left))
        beta, errors, slopes = _highest(expectation, chol, beta)
    curvature = _root(slopes)
    roots = (np.diag(chol), np.diag(curvature), expectation.spread)
    evidence = -0.5 * errors @ errors - sum(np.log(np.abs(each)).sum() for each in roots) - expectation.log_root
    runs, most = len(data.y), max(at_runs, *parts[0].sizing.upper)
    return Posterior(
        expectation,
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


def _highest(expectation: MeanFunction, chol: Floats, beta: Floats) -> tuple[Floats, Floats, Floats]:
    """β̂ by Levenberg and Marquardt's steps from β, with the errors and slopes there."""
    spread, damping = expectation.spread, 0.0
    errors, slopes = _errors(expectation, chol, beta)
    for _ in range(STEPS):
        root = _root(np.concatenate([slopes, np.sqrt(damping) * np.diag(1 / spread)]))
        step = -np.asarray(dpotrs(root, slopes.T @ errors, lower=1)[0])
        tried = beta + np.clip(step, -2 * spread, 2 * spread)
        found = _errors(expectation, chol, tried)
        gain = 0.5 * float(errors @ errors - found[0] @ found[0])
        if gain <= 0:
            damping = max(4 * damping, 1.0)
            continue
        beta, (errors, slopes), damping = tried, found, damping / 4
        if gain < SETTLED:
            break
    return beta, errors, slopes


def _errors(expectation: MeanFunction, chol: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """What β leaves unexplained, in standard deviations: of latencies, of what was measured beside them, of β itself.
    And ∂/∂β of it."""
    data = expectation.data
    m = expectation.latency(data.ks, data.log_q, beta, expectation.beyond(int(data.ks.max(initial=1)), beta))
    residual = data.y - m.value
    white = np.column_stack([np.where(data.at_least & (residual < 0), 0.0, residual), -m.slope])
    if len(chol):
        white = _halfway(chol, white)
    own = np.column_stack([beta - expectation.centre, np.eye(len(beta))]) / expectation.spread[:, None]
    every = np.concatenate([white, expectation.measurements(beta), own])
    return every[:, 0], every[:, 1:]


def compute_features(physics: LatencyModel, ks: Floats, log_q: Floats) -> Floats:
    """φ."""
    return np.column_stack([np.log(ks) - np.log(physics.loads) - log_q[:, None], log_q])


def _root(slopes: Floats) -> Floats:
    """L with L Lᵀ = Jᵀ J, from J itself: squared, the slopes of a saturated job lose all that the others say."""
    upper = np.asarray(np.linalg.qr(slopes, mode="r"), dtype=np.float64)
    return upper.T


def _cholesky(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)


def _halfway(root: Floats, right: Floats) -> Floats:
    """L⁻¹ right. By LAPACK's own routine: of matrices this small, most of the time goes to what is around it."""
    return np.asarray(dtrtrs(root, right, lower=1)[0])


def _matern(a: Floats, b: Floats) -> Floats:
    """M(r) = (1 + √5 r + 5r²/3) e^{−√5 r} of the distances between the rows, in lengths."""
    a, b = a * (np.sqrt(5.0) / LENGTH), b * (np.sqrt(5.0) / LENGTH)
    squares = (-2 * a) @ b.T
    squares += (a**2).sum(axis=1)[:, None]
    squares += (b**2).sum(axis=1)
    r = np.sqrt(np.maximum(squares, 0.0, out=squares))
    polynomial = np.add(squares / 3, r + 1)
    return np.asarray(polynomial * np.exp(-r))
