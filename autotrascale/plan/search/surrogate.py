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
from autotrascale.plan.search.measured_loads import ERROR, SPEED, MeasuredLoads, Row
from autotrascale.plan.search.one_thread import on_one_thread
from autotrascale.plan.search.runs import Measured
from autotrascale.plan.search.physics import LEAST_LOAD, MEASURED, Physics
from autotrascale.plan.sizing.sizing import Sizing

Floats = NDArray[np.float64]

AMPLITUDE, LENGTH = 0.15, 1.5  # A, L
AMPLITUDE_BATCHES = 0.06
STEEPEST = 5.0
# d: without it 57 % of 118 warm starts were accepted at their first run, with it 59 % (`search_choices.run --jobs 4`).
FAR = 0.1
NOISE_OF_FIXED = 0.05

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
OTHER = 1.0  # spread of the log loads of another job
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
    measured: tuple[Measured | None, ...] = ()
    latency_target: float = 1.0

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
    loads: MeasuredLoads
    fixed_at: Floats
    log_fixed: Floats


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
    most: int
    by_load: Floats
    amplitude: float

    @on_one_thread
    def log_ratio(self, ks: ArrayLike, log_q: float = 0.0) -> tuple[Floats, Floats]:
        """μ and σ of y."""
        ks = np.atleast_2d(np.asarray(ks, dtype=float))
        rates = np.full(len(ks), log_q)
        mean, h, by_load, unsure = _latency(self.physics, self._beyond, ks, rates, self.beta)
        variance = np.full(len(ks), self.amplitude**2) + unsure
        if len(self.data.y):
            cross = self.amplitude**2 * _matern(features(self.physics, ks, rates), self._phi)
            cross += np.einsum("ni,ti,nit->nt", by_load, self.by_load, _at(self._left, ks))
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
        busier = np.concatenate([self.physics.busier, np.zeros(self.data.loads.speeds, dtype=bool)])
        beyond = _at(self._beyond[0], ks)
        value, slope, _ = self.physics.latency(ks, log_q, self._own, beyond)
        slope = np.column_stack([slope, np.zeros((len(ks), self.data.loads.speeds))])
        lowered = np.where(busier, FALL * self._spread_of_beta, 0.0)
        least, _, _ = self.physics.latency(ks, log_q, self._own - lowered[: len(self._own)], beyond)
        promised = slope @ lowered
        kept = np.divide(value - least, promised, out=np.ones(len(ks)), where=promised > 0)
        return np.where(busier, slope * (1 - np.clip(kept, 0.0, 1.0))[:, None], 0.0)

    @property
    def _own(self) -> Floats:
        return self.beta[: len(self.physics.centre)]

    @cached_property
    def _left(self) -> Floats:
        return self.data.loads.left(self.most, self.data.ks)

    @cached_property
    def _beyond(self) -> Table:
        return _table(self.physics, self.data.loads, self.beta, self.most)

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
    parts = [present, *sources]
    physics = Physics.of(present.sizing)
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
    # Its first loads are where its physics starts from, and no evidence for it: those of another job may be any.
    operators = len(source.floor) if source.sizing.measured else 0
    known = float(np.hypot(MEASURED, ERROR))
    return _fit(Physics.of(source.sizing), [source], [], noise).evidence - operators * np.log(OTHER / known)


def _fit(physics: Physics, parts: Sequence[Readings], doubts: Sequence[Doubt], noise: float) -> Posterior:
    data = _gathered(physics, parts, [0.0, *doubts])
    phi = features(physics, data.ks, data.log_q)
    amplitude = AMPLITUDE_BATCHES if physics.execution == "micro-batch" and len(data.log_fixed) else AMPLITUDE
    covariance = amplitude**2 * _matern(phi, phi) + np.diag(noise**2 * data.weight)
    for s, doubt in enumerate(doubts, start=1):
        same = data.session == s
        far = FAR * float(data.log_q[same].mean()) if same.any() else 0.0
        covariance += ((doubt or 0.0) ** 2 + far**2) * np.outer(same, same)
    beta = np.concatenate([physics.centre, np.zeros(data.loads.speeds)])
    by_load = np.zeros_like(data.ks)
    if len(data.y) and data.loads.spread:
        most = int(data.ks.max())
        left = _at(data.loads.left(most, data.ks), data.ks)
        for _ in range(2):
            by_load = np.minimum(_latency(physics, _table(physics, data.loads, beta, most), data.ks, data.log_q, beta)[2], STEEPEST)
            chol = _cholesky(covariance + np.einsum("ti,ui,tiu->tu", by_load, by_load, left))
            beta, errors, slopes = _highest(physics, data, chol, beta)
    else:
        chol = _cholesky(covariance)
        beta, errors, slopes = _highest(physics, data, chol, beta)
    curvature = _root(slopes)
    evidence = -0.5 * errors @ errors - sum(
        np.log(np.abs(each)).sum() for each in (np.diag(chol), np.diag(curvature), _spread(physics, data))
    ) - data.loads.log_determinant - len(data.log_fixed) * np.log(NOISE_OF_FIXED)# fmt: skip
    runs = len(data.y)
    return Posterior(
        physics, data, beta, curvature, chol, errors[:runs], slopes[:runs], float(evidence), noise, tuple(doubts),
        max(max(parts[0].sizing.upper), int(data.ks.max(initial=1))), by_load, amplitude,
    )


Table = tuple[Floats, Floats, Floats]


def _table(physics: Physics, loads: MeasuredLoads, beta: Floats, most: int) -> Table:
    """δ at every parallelism, where the physics' numbers are β."""
    return loads.table(most, *_expected(physics, loads, beta))


def _expected(physics: Physics, loads: MeasuredLoads, beta: Floats) -> tuple[Floats, Floats]:
    """What the rows should hold but for δ, and its derivatives; the machine's speed in other sessions last."""
    own = len(physics.centre)
    expected, rows = physics.log_loads(loads.ks, loads.log_q, beta[:own])
    by_speed = np.repeat(loads.of_session[:, None, :], expected.shape[1], axis=1)
    return expected + (loads.of_session @ beta[own:])[:, None], np.concatenate([rows, by_speed], axis=2)


def _at(table: Floats, ks: Floats) -> Floats:
    """(n, N …): of each operator at its own parallelism."""
    return np.asarray(table[np.arange(table.shape[0]), ks.astype(np.int64)])


def _latency(physics: Physics, table: Table, ks: Floats, log_q: Floats, beta: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """m, ∂m/∂β with what follows from it for δ, and the variance that δ leaves."""
    beyond, variance, by_beta = (_at(each, ks) for each in table)
    value, slope, by_load = physics.latency(ks, log_q, beta[: len(physics.centre)], beyond)
    slope = np.column_stack([slope, np.zeros((len(ks), len(beta) - len(physics.centre)))])
    unsure = (by_load**2 * variance).sum(axis=1)
    return value, slope + np.einsum("ni,nip->np", by_load, by_beta), by_load, unsure


def _spread(physics: Physics, data: Data) -> Floats:
    return np.concatenate([physics.spread, np.full(data.loads.speeds, SPEED)])


def _highest(physics: Physics, data: Data, chol: Floats, beta: Floats) -> tuple[Floats, Floats, Floats]:
    """β̂ by Levenberg and Marquardt's steps, with the errors and slopes there."""
    damping = 0.0
    spread = _spread(physics, data)
    errors, slopes = _errors(physics, data, chol, beta)
    for _ in range(STEPS):
        root = _root(np.concatenate([slopes, np.sqrt(damping) * np.diag(1 / spread)]))
        step = -cho_solve((root, True), slopes.T @ errors, check_finite=False)
        tried = beta + np.clip(step, -2 * spread, 2 * spread)
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
    table = _table(physics, data.loads, beta, int(data.ks.max(initial=1)))
    mean, slope, _, _ = _latency(physics, table, data.ks, data.log_q, beta)
    residual = data.y - mean
    white = np.column_stack([np.where(data.at_least & (residual < 0), 0.0, residual), -slope])
    if len(chol):
        white = solve_triangular(chol, white, lower=True, check_finite=False)
    loads = data.loads.whitened(*_expected(physics, data.loads, beta))
    if len(data.log_fixed):
        fixed, by = physics.fixed_part(data.fixed_at, beta[: len(physics.centre)])
        by = np.column_stack([by, np.zeros((len(by), data.loads.speeds))])
        loads = np.concatenate([loads, np.column_stack([data.log_fixed - fixed, -by]) / NOISE_OF_FIXED])
    spread = _spread(physics, data)
    centre = np.concatenate([physics.centre, np.zeros(data.loads.speeds)])
    own = np.column_stack([(beta - centre) / spread, np.diag(1 / spread)])
    every = np.concatenate([white, loads, own])
    return every[:, 0], every[:, 1:]


def _gathered(physics: Physics, parts: Sequence[Readings], doubts: Sequence[Doubt]) -> Data:
    present, n = parts[0].sizing, len(physics.floor)
    kept = [(s, part) for s, part in enumerate(parts) if doubts[s] is not None]
    y = np.array([each for _, part in kept for each in part.log_ratio], dtype=float)
    failed = [bad for _, part in kept for bad in part.failed or (False,) * len(part.ks)]
    log_q = [_log_rate(part.sizing, present, rate) for _, part in kept
             for rate in part.rates or (part.sizing.rate,) * len(part.ks)]  # fmt: skip
    rows, fixed = _measured(physics, kept, present)
    farthest = FARTHEST + max(0.0, float(y.min()) if len(y) else 0.0)
    return Data(
        ks=np.array([k for _, part in kept for k in part.ks], dtype=float).reshape(-1, n),
        log_q=np.array(log_q, dtype=float),
        y=np.clip(y, -FARTHEST, farthest),
        weight=np.array([each for _, part in kept for each in part.weight], dtype=float),
        at_least=np.array(failed, dtype=bool) | (y >= farthest),
        session=np.array([s for s, part in kept for _ in part.ks], dtype=np.int64),
        loads=MeasuredLoads(rows, n, LEAST_LOAD, any(any(part.measured) for _, part in kept)),
        fixed_at=np.array([row[0] for row in fixed], dtype=float).reshape(-1, n),
        log_fixed=np.array([row[1] for row in fixed], dtype=float),
    )


def _measured(
    physics: Physics, kept: Sequence[tuple[int, Readings]], present: Sizing
) -> tuple[list[Row], list[tuple[Point, float]]]:
    """What windows measured of the loads, and of what a batch costs beside them; no window twice."""
    rows: dict[tuple[object, ...], Row] = {}
    fixed: dict[tuple[object, ...], tuple[Point, float]] = {}

    def take(k: Point, rate: float, said: Measured, session: int, part: Readings) -> None:
        key = (k, rate, said.loads)
        rows.setdefault(key, Row(k, _log_rate(part.sizing, present, rate), said.loads, session))
        if said.fixed is not None and physics.execution == "micro-batch":
            fixed.setdefault(key, (k, float(np.log(said.fixed / part.latency_target))))

    for number, part in kept:
        # A source at this rate with these loads was made in the very session that the present runs are made in.
        s = 0 if (part.sizing.rate, part.sizing.hottest) == (present.rate, present.hottest) else number
        if part.sizing.measured:
            take(part.sizing.floor, part.sizing.rate, Measured(part.sizing.hottest, part.sizing.fixed_seconds or None), s, part)
        for k, said, rate in zip(part.ks, part.measured, part.rates or (part.sizing.rate,) * len(part.ks), strict=False):
            if said is not None:
                take(k, rate, said, s, part)
    return list(rows.values()), list(fixed.values())


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
