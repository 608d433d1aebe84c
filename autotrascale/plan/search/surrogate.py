"""The surrogate: what is known of a job's physics, and a Gaussian process over what the physics leaves unexplained.

    symbol  meaning                                                                        shape
    y       log(l_r / l_t): below zero the target is met                                   (T,)
    m, β    the expected log latency and its numbers (see `physics`), β ~ N(β₀, Σ₀)
    φ       log(k_i / load_i) at the rate of the run, and the log of that rate             (T, N + 1)
    κ       covariance of what m leaves: A² M(‖φ − φ'‖ / L), and D_s² + d² more within source s
    d       doubt that comes with distance: FAR for each e-fold between the rates
    ν, v, S relative noise of a reading; of a measured load; how far the machine's speed may drift between sessions
    μ, σ    posterior of the true y, without the noise of a reading                        (n,)

All that was run is one set of data, whatever the rate and whenever: y = m(k, q; β) + what m leaves + noise. β stands
where the posterior is highest; m is taken as linear around it, so that doubt about β is doubt about latency:

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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_solve, solve_triangular

from autotrascale.plan.search.lattice import Point
from autotrascale.plan.search.one_thread import on_one_thread
from autotrascale.plan.search.physics import LEAST_LOAD, Physics
from autotrascale.plan.sizing.sizing import Sizing

Floats = NDArray[np.float64]

AMPLITUDE, LENGTH = 0.15, 1.5  # A, L
# d: without it 57 % of 118 warm starts were accepted at their first run, with it 59 % (`search_choices.run --jobs 4`).
FAR = 0.1
NOISE_OF_LOADS, SPEED = 0.06, 0.15  # v, S

# Readings this far above the target, or above the best of them where none is near it, only have to say "far off":
# without a bound one saturated run bends the whole surface.
FARTHEST = 3.0

# A log ratio beyond which, either way, no clock could show the latency; a doubt that is none about which.
LATEST, MOST_DOUBT = 50.0, 20.0

FALL = 2.0  # how far the operators' busyness is followed down, to see how much latency can fall

Doubt = float | None
# D_s, and −log of what each is worth before any run has tested it: as one's own; somewhat different; another job.
DOUBTS: tuple[tuple[Doubt, float], ...] = ((0.0, 0.0), (0.15, 1.5), (None, 2.5))

STEPS = 25  # towards β̂, at most
SETTLED = 1e-4  # a step that gains less is the last


@dataclass(frozen=True)
class Readings:
    """Runs of one session, with what places them: the job's sizing at the session's rate. `rates` where they were made
    at several."""

    sizing: Sizing
    ks: tuple[Point, ...] = ()
    log_ratio: tuple[float, ...] = ()  # y
    weight: tuple[float, ...] = ()  # variance of a reading in units of ν²: 1/windows, more for a failed run
    failed: tuple[bool, ...] = ()
    rates: tuple[float, ...] = ()

    @property
    def floor(self) -> Point:
        return self.sizing.floor


@dataclass(frozen=True, eq=False)
class Data:
    """All runs that count, as arrays, for the physics of the present job."""

    ks: Floats  # (T, N)
    log_q: Floats
    y: Floats
    weight: Floats
    at_least: NDArray[np.bool_]  # readings that only say "so much or more"
    session: NDArray[np.int64]  # 0: the present one
    loads_at: Floats  # (S, N) the floors at which sources measured loads
    loads_log_q: Floats
    log_loads: Floats  # (S, N)

    @cached_property
    def loads_chol(self) -> Floats:
        """Of the covariance of one source's measured loads: v² 1[i = j] + S²."""
        operators = self.ks.shape[1]
        return _cholesky(NOISE_OF_LOADS**2 * np.eye(operators) + SPEED**2)


@dataclass(frozen=True, eq=False)
class Posterior:
    """What the runs say about the latency of any configuration, at the present rate or another."""

    physics: Physics
    data: Data
    beta: Floats
    curvature: Floats  # R: V⁻¹ = R Rᵀ
    chol: Floats  # L: K = L Lᵀ
    residual: Floats  # L⁻¹ (y − m)
    slopes: Floats  # −L⁻¹ ∂m/∂β
    evidence: float
    noise: float
    doubts: tuple[Doubt, ...]

    @on_one_thread
    def log_ratio(self, ks: ArrayLike, log_q: float = 0.0) -> tuple[Floats, Floats]:
        """μ and σ of y."""
        ks = np.atleast_2d(np.asarray(ks, dtype=float))
        rates = np.full(len(ks), log_q)
        mean, h = self.physics.latency(ks, rates, self.beta)
        variance = np.full(len(ks), AMPLITUDE**2)
        if len(self.data.y):
            cross = AMPLITUDE**2 * _matern(features(self.physics, ks, rates), self._phi)
            half = solve_triangular(self.chol, cross.T, lower=True, check_finite=False)
            mean = mean + half.T @ self.residual
            variance = np.maximum(variance - np.einsum("ij,ij->j", half, half), 0.0)
            h = h + half.T @ self.slopes
        doubt = self._doubt(h)
        if (late := mean > 0).any():
            doubt[late] = np.minimum(doubt[late], self._doubt(h[late] - self._overstated(ks[late], rates[late])))
        # Rounding may leave no variance at a point that was run many times.
        spread = np.sqrt(np.maximum(variance + doubt, 1e-10))
        return np.clip(mean, -LATEST, LATEST), np.minimum(spread, MOST_DOUBT)

    def _doubt(self, h: Floats) -> Floats:
        """h V hᵀ."""
        half = solve_triangular(self.curvature, h.T, lower=True, check_finite=False)
        return np.asarray(np.einsum("ij,ij->j", half, half))

    def _overstated(self, ks: Floats, log_q: Floats) -> Floats:
        """By how much ∂m/∂β is steeper than the fall of m to where all that makes operators busy is less."""
        value, slope = self.physics.latency(ks, log_q, self.beta)
        lowered = np.where(self.physics.busier, FALL * self._spread_of_beta, 0.0)
        least, _ = self.physics.latency(ks, log_q, self.beta - lowered)
        promised = slope @ lowered
        kept = np.divide(value - least, promised, out=np.ones(len(ks)), where=promised > 0)
        return np.where(self.physics.busier, slope * (1 - np.clip(kept, 0.0, 1.0))[:, None], 0.0)

    @cached_property
    def _spread_of_beta(self) -> Floats:
        root = solve_triangular(self.curvature, np.eye(len(self.beta)), lower=True, check_finite=False)
        return np.asarray(np.sqrt((root**2).sum(axis=0)))

    @property
    def informed(self) -> bool:
        """Whether any source counts."""
        return any(doubt is not None for doubt in self.doubts)

    @cached_property
    def _phi(self) -> Floats:
        return features(self.physics, self.data.ks, self.data.log_q)


@on_one_thread
def fit(present: Readings, sources: Sequence[Readings] = (), *, noise: float = 0.05) -> Posterior:
    """The posterior after the runs, each source in turn with the doubt that the evidence gives it."""
    physics = Physics.of(present.sizing)
    parts = [present, *sources]
    doubts: list[Doubt] = [0.0] * len(sources)
    best = _fit(physics, parts, doubts, noise)
    for s, source in enumerate(sources):
        weighed = []
        for doubt, price in DOUBTS:
            tried = [*doubts[:s], doubt, *doubts[s + 1 :]]
            fitted = best if tried == doubts else _fit(physics, parts, tried, noise)
            apart = _evidence_alone(source, noise) if doubt is None else 0.0
            weighed.append((fitted.evidence + apart - price, -price, tried, fitted))
        _, _, doubts, best = max(weighed, key=lambda each: each[:2])
    return best


@lru_cache(maxsize=64)
def _evidence_alone(source: Readings, noise: float) -> float:
    """Of a source as a job of its own."""
    return _fit(Physics.of(source.sizing), [source], [], noise).evidence


def _fit(physics: Physics, parts: Sequence[Readings], doubts: Sequence[Doubt], noise: float) -> Posterior:
    data = _gathered(physics, parts, [0.0, *doubts])
    phi = features(physics, data.ks, data.log_q)
    covariance = AMPLITUDE**2 * _matern(phi, phi) + np.diag(noise**2 * data.weight)
    for s, doubt in enumerate(doubts, start=1):
        same = data.session == s
        far = FAR * float(data.log_q[same].mean()) if same.any() else 0.0
        covariance += ((doubt or 0.0) ** 2 + far**2) * np.outer(same, same)
    chol = _cholesky(covariance)
    beta, errors, slopes = _highest(physics, data, chol)
    curvature = _root(slopes)
    evidence = -0.5 * errors @ errors - sum(
        np.log(np.abs(each)).sum() for each in (np.diag(chol), np.diag(curvature), physics.spread)
    ) - len(data.log_loads) * np.log(np.diag(data.loads_chol)).sum()  # fmt: skip
    runs = len(data.y)
    return Posterior(
        physics, data, beta, curvature, chol, errors[:runs], slopes[:runs], float(evidence), noise, tuple(doubts)
    )


def _highest(physics: Physics, data: Data, chol: Floats) -> tuple[Floats, Floats, Floats]:
    """β̂ by Levenberg and Marquardt's steps, with the errors and slopes there."""
    beta, damping = physics.centre, 0.0
    errors, slopes = _errors(physics, data, chol, beta)
    for _ in range(STEPS):
        root = _root(np.concatenate([slopes, np.sqrt(damping) * np.diag(1 / physics.spread)]))
        step = -cho_solve((root, True), slopes.T @ errors, check_finite=False)
        tried = beta + np.clip(step, -2 * physics.spread, 2 * physics.spread)
        found = _errors(physics, data, chol, tried)
        gain = 0.5 * float(errors @ errors - found[0] @ found[0])
        if gain <= 0:
            damping = max(4 * damping, 1.0)
            continue
        beta, (errors, slopes), damping = tried, found, damping / 4
        if gain < SETTLED:
            break
    return beta, errors, slopes


def _errors(physics: Physics, data: Data, chol: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """What β leaves unexplained, in standard deviations: of latencies, of loads, of β itself. And ∂/∂β of it."""
    mean, slope = physics.latency(data.ks, data.log_q, beta)
    residual = data.y - mean
    white = np.column_stack([np.where(data.at_least & (residual < 0), 0.0, residual), -slope])
    if len(chol):
        white = solve_triangular(chol, white, lower=True, check_finite=False)
    expected, rows = physics.log_loads(data.loads_at, data.loads_log_q, beta)
    loads = np.concatenate([(data.log_loads - expected)[:, :, None], -rows], axis=2)
    loads = np.linalg.solve(data.loads_chol, loads).reshape(-1, 1 + len(beta))
    own = np.column_stack([(beta - physics.centre) / physics.spread, np.diag(1 / physics.spread)])
    every = np.concatenate([white, loads, own])
    return every[:, 0], every[:, 1:]


def _gathered(physics: Physics, parts: Sequence[Readings], doubts: Sequence[Doubt]) -> Data:
    present, n = parts[0].sizing, len(physics.floor)
    kept = [(s, part) for s, part in enumerate(parts) if doubts[s] is not None]
    # A source at this rate with these loads speaks of the very window that the present ones were measured in.
    loaded = [part.sizing for s, part in kept if s > 0 and part.sizing.measured
              and (part.sizing.rate, part.sizing.hottest) != (present.rate, present.hottest)]  # fmt: skip
    y = np.array([each for _, part in kept for each in part.log_ratio], dtype=float)
    failed = [bad for _, part in kept for bad in part.failed or (False,) * len(part.ks)]
    log_q = [_log_rate(part.sizing, present, rate) for _, part in kept
             for rate in part.rates or (part.sizing.rate,) * len(part.ks)]  # fmt: skip
    loads = np.array([each.hottest for each in loaded], dtype=float).reshape(-1, n)
    farthest = FARTHEST + max(0.0, float(y.min()) if len(y) else 0.0)
    return Data(
        ks=np.array([k for _, part in kept for k in part.ks], dtype=float).reshape(-1, n),
        log_q=np.array(log_q, dtype=float),
        y=np.clip(y, -FARTHEST, farthest),
        weight=np.array([each for _, part in kept for each in part.weight], dtype=float),
        at_least=np.array(failed, dtype=bool) | (y >= farthest),
        session=np.array([s for s, part in kept for _ in part.ks], dtype=np.int64),
        loads_at=np.array([each.floor for each in loaded], dtype=float).reshape(-1, n),
        loads_log_q=np.array([_log_rate(each, present, each.rate) for each in loaded], dtype=float),
        log_loads=np.log(np.maximum(loads, LEAST_LOAD)),
    )


def _log_rate(sizing: Sizing, present: Sizing, rate: float) -> float:
    """ln q. Where a study was not told its rate, the floors say it roughly."""
    if sizing is present or sizing.rate == present.rate:
        return float(np.log(rate / present.rate)) if rate != present.rate else 0.0
    if rate > 0 and present.rate > 0:
        return float(np.log(rate / present.rate))
    return float(np.median(np.log(np.asarray(sizing.floor) / np.asarray(present.floor))))


def features(physics: Physics, ks: Floats, log_q: Floats) -> Floats:
    """φ."""
    return np.column_stack([np.log(ks) - np.log(physics.loads) - log_q[:, None], log_q])


def _root(slopes: Floats) -> Floats:
    """L with L Lᵀ = Jᵀ J, from J itself: squared, the slopes of a saturated job lose all that the others say."""
    upper = np.asarray(np.linalg.qr(slopes, mode="r"), dtype=np.float64)
    return upper.T


def _cholesky(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)


def _matern(a: Floats, b: Floats) -> Floats:
    """M(r) = (1 + √5 r + 5r²/3) e^{−√5 r} of the distances between the rows, in lengths."""
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    squares = np.maximum(squares, 0.0) * (5.0 / LENGTH**2)
    r = np.sqrt(squares)
    return np.asarray((1 + r + squares / 3) * np.exp(-r))
