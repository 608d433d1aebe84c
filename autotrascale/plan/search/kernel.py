"""The covariance of log latency between two configurations, as a scikit-learn kernel.

    symbol  meaning                                                                     shape
    φ       features of a configuration: log(k_i / k'_i)                                (N,)
    m       expected shapes (see `expectation`), whose weights are themselves unknown   (B,)
    s       which rate the run was made at: 0 the present one, 1, 2, … the sources      id
    ℓ       length scale of each operator                                               (N,)
    a       amplitude of each operator's own effect                                     (N,)
    f, L    amplitude and length scale of the operators' joint effect
    ν       relative noise of one reading (of log latency)
    ρ_s     correlation of the present rate with source s

    κ = ρ(s,s') · [ c² + b² m·m' + Σ_i a_i² M(|φ_i − φ'_i| / ℓ_i) + f² M(‖(φ − φ')/ℓ‖ / L) ] + ν² w 1[same run]

M is the Matérn 5/2 function. The sum over operators lets one run teach about each operator apart, which is what makes
few runs enough; the joint term is there for contention, which no sum can express. differs: the paper has only the
joint term, on k itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

Floats = NDArray[np.float64]

LEVEL = 1.5  # c: before the first run the level of latency is known to a factor of e^±1.5 at one sigma
TRUST = 0.4  # b: the weight of an expected shape is 1 (or its share of 1), give or take this much


@dataclass(frozen=True)
class Layout:
    """How a run is laid out as one row of numbers, which is all that scikit-learn passes on: φ, m, s, w."""

    operators: int
    shapes: int

    def rows(self, features: Floats, shapes: Floats, source: int, weight: Floats) -> Floats:
        return np.column_stack([features, shapes, np.full(len(features), float(source)), weight])

    def split(self, rows: Floats) -> tuple[Floats, Floats, NDArray[np.int64], Floats]:
        end = self.operators + self.shapes
        return rows[:, : self.operators], rows[:, self.operators : end], rows[:, end].astype(np.int64), rows[:, end + 1]


class LatencyKernel(Kernel):  # type: ignore[misc]
    """κ above. Hyperparameters are searched in log space, in the alphabetical order that scikit-learn gives them."""

    def __init__(
        self,
        layout: Layout,
        amplitude: Floats,
        joint_amplitude: float,
        joint_scale: float,
        length_scale: Floats,
        noise: float,
        correlation: Sequence[float] = (),
    ) -> None:
        self.layout = layout
        self.amplitude = amplitude
        self.joint_amplitude = joint_amplitude
        self.joint_scale = joint_scale
        self.length_scale = length_scale
        self.noise = noise
        self.correlation = correlation

    @property
    def hyperparameter_amplitude(self) -> Hyperparameter:
        return Hyperparameter("amplitude", "numeric", (1e-3, 1e2), self.layout.operators)

    @property
    def hyperparameter_joint_amplitude(self) -> Hyperparameter:
        return Hyperparameter("joint_amplitude", "numeric", (1e-3, 1e2))

    @property
    def hyperparameter_joint_scale(self) -> Hyperparameter:
        return Hyperparameter("joint_scale", "numeric", (1e-2, 1e3))

    @property
    def hyperparameter_length_scale(self) -> Hyperparameter:
        return Hyperparameter("length_scale", "numeric", (1e-2, 1e3), self.layout.operators)

    @property
    def hyperparameter_noise(self) -> Hyperparameter:
        return Hyperparameter("noise", "numeric", (1e-4, 1.0))

    def __call__(self, X: Floats, Y: Floats | None = None, eval_gradient: bool = False) -> Any:
        phi, shapes, source, weight = self.layout.split(X)
        phi2, shapes2, source2, _ = (phi, shapes, source, weight) if Y is None else self.layout.split(Y)
        rho = self._rho(source, source2)
        distance = (phi / self.length_scale)[:, None, :] - (phi2 / self.length_scale)[None, :, :]
        np.abs(distance, out=distance)
        joint_distance = np.sqrt(np.einsum("ijn,ijn->ij", distance, distance)) / self.joint_scale
        # scikit-learn hands an array of one hyperparameter back as a number.
        a2, f2 = np.atleast_1d(self.amplitude) ** 2, self.joint_amplitude**2
        own, joint = _matern(distance), _matern(joint_distance)
        kappa = rho * (LEVEL**2 + TRUST**2 * shapes @ shapes2.T + own @ a2 + f2 * joint)
        if Y is None:
            kappa[np.diag_indices_from(kappa)] += self.noise**2 * weight
        if not eval_gradient:
            return kappa
        # d/dlog of each hyperparameter, in alphabetical order. M'(r) = -slope·r, so dM/dlog ℓ = slope·r².
        squares = distance**2
        d_joint = f2 * _slope(joint_distance)
        d_scalars = np.stack([2 * f2 * joint, d_joint * joint_distance**2], axis=-1)
        d_length = (a2 * _slope(distance) + (d_joint / self.joint_scale**2)[:, :, None]) * squares
        gradient = rho[:, :, None] * np.concatenate([2 * a2 * own, d_scalars, d_length], axis=-1)
        d_noise = np.diag(2 * self.noise**2 * weight)[:, :, None]
        return kappa, np.concatenate([gradient, d_noise], axis=-1)

    def diag(self, X: Floats) -> Floats:
        """The variance of true log latency: without the noise of a reading, which nobody wants to predict."""
        _, shapes, _, _ = self.layout.split(X)
        own = float(np.sum(self.amplitude**2)) + self.joint_amplitude**2
        return np.asarray(LEVEL**2 + own + TRUST**2 * np.einsum("nb,nb->n", shapes, shapes))

    def is_stationary(self) -> bool:
        return False

    def _rho(self, source: NDArray[np.int64], other: NDArray[np.int64]) -> Floats:
        """1 within a rate, ρ_s between the present rate and source s, ρ_s ρ_t between sources."""
        to_present = np.array([1.0, *self.correlation])
        across = np.outer(to_present[source], to_present[other])
        return np.where(source[:, None] == other[None, :], 1.0, across)


def _matern(distance: Floats) -> Floats:
    """M(r) = (1 + √5 r + 5r²/3) e^{−√5 r}. In place where it can be: predicting a pool spends most of its time here."""
    r = np.sqrt(5.0) * distance
    value = r * (1 / 3)
    value += 1
    value *= r
    value += 1
    np.negative(r, out=r)
    np.exp(r, out=r)
    value *= r
    return np.asarray(value)


def _slope(distance: Floats) -> Floats:
    """−M'(r)/r = 5/3 (1 + √5 r) e^{−√5 r}."""
    r = np.sqrt(5.0) * distance
    return np.asarray((5 / 3) * (1 + r) * np.exp(-r))
