"""Expected improvement: of a score that is modelled itself (Eq. 5–7), and of a score whose latency is modelled.

symbol    meaning                                                    shape
μ, σ      mean and standard deviation of the modelled quantity       (n,)
F⁺        best score seen                                            scalar
ξ         exploration: improvement over F⁺ that counts               scalar
y         log(l_r / l_t), modelled as N(μ, σ²)                       (n,)
r         resource term (1/N) Σ k'_i / k_i, known                    (n,)
Φ, φ      standard normal distribution and density
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr, ndtri

Floats = NDArray[np.float64]


def expected_improvement(mean: ArrayLike, std: ArrayLike, best: float, xi: float = 0.0) -> Floats:
    """Return EI (Eq. 5–7) of a modelled score.

    Args:
        mean: μ, shape (n,).
        std: σ, shape (n,).
        best: F⁺.
        xi: ξ, default 0.

    >>> expected_improvement([0.5, 0.9], [0.0, 0.1], best=0.8).round(4).tolist()
    [0.0, 0.1083]
    """
    mean, std = np.asarray(mean, dtype=float), np.asarray(std, dtype=float)
    gain = mean - best - xi  # Eq. 6
    safe = np.where(std > 0, std, 1.0)
    z = gain / safe  # Eq. 7
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    # max(…, 0): for z below −38 both terms underflow and their rounding may leave −0.
    return np.where(std > 0, np.maximum(gain * ndtr(z) + safe * density, 0.0), 0.0)  # Eq. 5


def probability_met(mean: ArrayLike, std: ArrayLike) -> Floats:
    """Return P(y ≤ 0), the probability that the true latency is within the target."""
    return np.asarray(ndtr(-np.asarray(mean, dtype=float) / np.asarray(std, dtype=float)))


def probability_accepted(mean: ArrayLike, std: ArrayLike, noise: float, confidence: float) -> Floats:
    """Return the probability that one run leads to P(y ≤ 0) ≥ `confidence`: a look-ahead of one step.

    One reading with noise ν moves the mean by N(0, σ⁴/(σ² + ν²)) and leaves a standard deviation of σν/√(σ² + ν²).
    A configuration just within the target is likely to meet it, but unlikely to be proven to.

    Args:
        mean: μ, shape (n,).
        std: σ, shape (n,).
        noise: ν.
        confidence: required P(y ≤ 0), in [0, 1].
    """
    return np.exp(log_probability_accepted(mean, std, noise, confidence))


def log_probability_accepted(mean: ArrayLike, std: ArrayLike, noise: float, confidence: float) -> Floats:
    """Return the logarithm of `probability_accepted`, which still ranks hopeless configurations."""
    mu, sigma = np.asarray(mean, dtype=float), np.asarray(std, dtype=float)
    spread = np.sqrt(sigma**2 + noise**2)
    doubt = sigma * noise / spread
    return np.asarray(log_ndtr((-mu - ndtri(confidence) * doubt) / (sigma**2 / spread)))


def improvement_of_benefit(mean: ArrayLike, std: ArrayLike, resources: ArrayLike, best: float, alpha: float) -> Floats:
    """Return E[(F − F⁺)₊] for F = α min(1, e^{−y}) + (1 − α) r with y ~ N(μ, σ²), in closed form.

    With c = (F⁺ − (1 − α) r)/α the latency term must beat c, so y must stay below −ln c:

        E = α [ (1 − c) P(y ≤ 0) + E[e^{−y}; 0 < y ≤ −ln c] − c P(0 < y ≤ −ln c) ]

    differs: Eq. 5 assumes a normal score, but the score has a kink at the target and its resource term is not random.
    """
    mu, sigma, r = (np.asarray(x, dtype=float) for x in (mean, std, resources))
    if alpha == 0:  # latency has no weight, so the score is certain
        return np.maximum(r - best, 0.0)
    c = (best - (1 - alpha) * r) / alpha
    # c ≤ 0: any latency improves the score. The bound keeps the logarithm finite.
    reach = -np.log(np.maximum(c, 1e-12))
    met = ndtr(-mu / sigma)
    within = ndtr((reach - mu) / sigma)
    # Φ(b) − Φ(a) as Φ(−a) − Φ(−b): for large e^{σ²/2} both Φ are close to 1, and their difference loses all digits.
    speed = np.exp(-mu + sigma**2 / 2) * (ndtr((mu - sigma**2) / sigma) - ndtr((mu - reach - sigma**2) / sigma))
    value = alpha * ((1 - c) * met + speed - c * (within - met))
    return np.where(c < 1, np.maximum(value, 0.0), 0.0)


def benefit_moments(mean: ArrayLike, std: ArrayLike, resources: ArrayLike, alpha: float) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of F for y ~ N(μ, σ²), by Gauss–Hermite quadrature."""
    mu, sigma, r = (np.asarray(x, dtype=float) for x in (mean, std, resources))
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    speed = np.exp(-np.maximum(mu[..., None] + sigma[..., None] * nodes, 0.0))
    weights = weights / weights.sum()
    first, second = speed @ weights, (speed**2) @ weights
    return alpha * first + (1 - alpha) * r, alpha * np.sqrt(np.maximum(second - first**2, 0.0))
