"""The mean function of the surrogate: the latency model of the job, over measured loads.

    symbol  meaning                                                                        shape
    β       parameters of the latency model, then the log speed of the machine in each     (P,)
            other session that measured loads
    δ       log deviation of loads from the latency model (see `measured_loads`)           (n, N)
    m       log(l / l_t), at parallelism k and log rate ln q                               (n,)
    e_i     ∂m/∂ log load_i, at most STEEPEST where it multiplies an uncertain δ           (n, N)
    f       relative error of a measured fixed cost of a batch

Measured loads and costs are evidence for β, like latencies. δ follows from β and the measured loads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from autotrascale.plan.search.latency_model import LatencyModel
from autotrascale.plan.search.measured_loads import SPEED, LoadDeviation
from autotrascale.plan.search.training_data import TrainingData

Floats = NDArray[np.float64]

ERROR_OF_COSTS = 0.05  # f
STEEPEST = 5.0  # beyond saturation the slope of latency has no meaning


@dataclass(frozen=True, eq=False)
class MeanEvaluation:
    """The mean function at n points.

    Args:
        value: m.
        slope: dm/dβ, including the dependence of δ on β.
        by_load: e.
        unsure: variance of m that remains through δ.
        plain: ∂m/∂β at constant δ.
    """

    value: Floats  # (n,)
    slope: Floats  # (n, P)
    by_load: Floats  # (n, N)
    unsure: Floats  # (n,)
    plain: Floats  # (n, P)


@dataclass(frozen=True, eq=False)
class MeanFunction:
    """The mean function of one job, conditioned on its training data."""

    latency_model: LatencyModel
    data: TrainingData

    @cached_property
    def centre(self) -> Floats:
        """Prior medians of β, shape (P,)."""
        return np.concatenate([self.latency_model.centre, np.zeros(self.data.loads.speeds)])

    @cached_property
    def spread(self) -> Floats:
        """Prior spreads of β, shape (P,)."""
        return np.concatenate([self.latency_model.spread, np.full(self.data.loads.speeds, SPEED)])

    @cached_property
    def busier(self) -> NDArray[np.bool_]:
        """Mask of the parameters whose increase makes operators busier, shape (P,)."""
        return np.concatenate([self.latency_model.busier, np.zeros(self.data.loads.speeds, dtype=bool)])

    def deviation(self, most: int, beta: Floats) -> LoadDeviation | None:
        """Return δ for parallelisms up to `most`; None when no run measured loads."""
        return self.data.loads.deviation(most, *self._expected_loads(beta)) if self.data.loads.spread else None

    def latency(self, ks: Floats, log_q: Floats, beta: Floats, deviation: LoadDeviation | None) -> MeanEvaluation:
        """Return m and its derivatives at `ks` (n, N) and `log_q` (n,)."""
        if deviation is None:
            value, slope, by_load = self.latency_model.latency(ks, log_q, beta[: self._model_parameter_count])
            steep = np.minimum(by_load, STEEPEST)
            slope = self._with_speeds(slope)
            return MeanEvaluation(value, slope, steep, np.zeros(len(ks)), slope)
        delta, variance, by_beta = deviation.at(ks)
        value, plain, by_load = self.latency_model.latency(ks, log_q, beta[: self._model_parameter_count], delta)
        plain = self._with_speeds(plain)
        slope = plain + np.einsum("ni,nip->np", by_load, by_beta)
        steep = np.minimum(by_load, STEEPEST)
        return MeanEvaluation(value, slope, steep, (steep**2 * variance).sum(axis=1), plain)

    def measurements(self, beta: Floats) -> Floats:
        """Return the residuals of measured loads and costs in standard deviations, and their ∂/∂β, shape (…, 1 + P)."""
        loads = self.data.loads.whitened_residuals(*self._expected_loads(beta))
        if not len(self.data.log_fixed):
            return loads
        cost, by_beta = self.latency_model.fixed_cost(self.data.fixed_at, beta[: self._model_parameter_count])
        costs = np.column_stack([self.data.log_fixed - cost, -self._with_speeds(by_beta)])
        return np.concatenate([loads, costs / self._errors_of_costs[:, None]])

    @property
    def log_root(self) -> float:
        """ln √det of the covariance of the measured loads and costs."""
        return self.data.loads.log_root + float(np.log(self._errors_of_costs).sum())

    @property
    def _errors_of_costs(self) -> Floats:
        return ERROR_OF_COSTS * np.sqrt(self.data.fixed_weight)

    def _expected_loads(self, beta: Floats) -> tuple[Floats, Floats]:
        """Return the log loads that the latency model expects in the measured windows, and their ∂/∂β."""
        of_session = self.data.loads.of_session
        logs, slope = self.latency_model.log_loads(
            self.data.loads.ks, self.data.loads.log_q, beta[: self._model_parameter_count]
        )
        by_speed = np.repeat(of_session[:, None, :], logs.shape[1], axis=1)
        return logs + (of_session @ beta[self._model_parameter_count :])[:, None], np.concatenate(
            [slope, by_speed], axis=2
        )

    @property
    def _model_parameter_count(self) -> int:
        return len(self.latency_model.centre)

    def _with_speeds(self, slope: Floats) -> Floats:
        """Return `slope` with zeros for the machine speeds, which have no effect in the present session."""
        speeds = self.data.loads.speeds
        return np.column_stack([slope, np.zeros((len(slope), speeds))]) if speeds else slope
