"""What latency is expected to be: the job's physics, over loads as they were measured.

    symbol  meaning                                                                        shape
    β       numbers of the physics, and after them the log speed of the machine in each    (P,)
            other session that measured loads
    δ       what loads are beyond the physics (see `measured_loads`)
    m       log(l / l_t), at parallelism k and log rate ln q                               (n,)
    e_i     ∂m/∂ log load_i, for what is not known of δ no more than STEEPEST              (n, N)
    f       relative error of a measured cost of a batch beside its operators

The measurements of loads and costs are evidence for β as latencies are; δ follows from β and the rows of loads.
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
STEEPEST = 5.0  # beyond saturation latency has no slope that means anything


@dataclass(frozen=True, eq=False)
class MeanEvaluation:
    """`slope` is dm/dβ with what follows from β for δ, `plain` without; `unsure` the variance of m that δ leaves."""

    value: Floats  # (n,)
    slope: Floats  # (n, P)
    by_load: Floats  # (n, N) e
    unsure: Floats  # (n,)
    plain: Floats  # (n, P)


@dataclass(frozen=True, eq=False)
class MeanFunction:
    physics: LatencyModel
    data: TrainingData

    @cached_property
    def centre(self) -> Floats:
        return np.concatenate([self.physics.centre, np.zeros(self.data.loads.speeds)])

    @cached_property
    def spread(self) -> Floats:
        return np.concatenate([self.physics.spread, np.full(self.data.loads.speeds, SPEED)])

    @cached_property
    def busier(self) -> NDArray[np.bool_]:
        """Which numbers of β make operators busier, the larger they are."""
        return np.concatenate([self.physics.busier, np.zeros(self.data.loads.speeds, dtype=bool)])

    def beyond(self, most: int, beta: Floats) -> LoadDeviation | None:
        """None where no run was measured: then nothing speaks of δ."""
        return self.data.loads.beyond(most, *self._loads(beta)) if self.data.loads.spread else None

    def latency(self, ks: Floats, log_q: Floats, beta: Floats, beyond: LoadDeviation | None) -> MeanEvaluation:
        if beyond is None:
            value, slope, by_load = self.physics.latency(ks, log_q, beta[: self._own])
            steep = np.minimum(by_load, STEEPEST)
            slope = self._with_speeds(slope)
            return MeanEvaluation(value, slope, steep, np.zeros(len(ks)), slope)
        delta, variance, by_beta = beyond.at(ks)
        value, plain, by_load = self.physics.latency(ks, log_q, beta[: self._own], delta)
        plain = self._with_speeds(plain)
        slope = plain + np.einsum("ni,nip->np", by_load, by_beta)
        steep = np.minimum(by_load, STEEPEST)
        return MeanEvaluation(value, slope, steep, (steep**2 * variance).sum(axis=1), plain)

    def measurements(self, beta: Floats) -> Floats:
        """(…, 1 + P): what β leaves unexplained of measured loads and costs, in standard deviations, and ∂/∂β of it."""
        loads = self.data.loads.whitened(*self._loads(beta))
        if not len(self.data.log_fixed):
            return loads
        cost, by_beta = self.physics.fixed_cost(self.data.fixed_at, beta[: self._own])
        costs = np.column_stack([self.data.log_fixed - cost, -self._with_speeds(by_beta)])
        return np.concatenate([loads, costs / self._errors_of_costs[:, None]])

    @property
    def log_root(self) -> float:
        """ln √det of the covariance of these measurements."""
        return self.data.loads.log_root + float(np.log(self._errors_of_costs).sum())

    @property
    def _errors_of_costs(self) -> Floats:
        return ERROR_OF_COSTS * np.sqrt(self.data.fixed_weight)

    def _loads(self, beta: Floats) -> tuple[Floats, Floats]:
        """What the rows of loads should hold but for δ, and ∂/∂β of it."""
        of_session = self.data.loads.of_session
        logs, slope = self.physics.log_loads(self.data.loads.ks, self.data.loads.log_q, beta[: self._own])
        by_speed = np.repeat(of_session[:, None, :], logs.shape[1], axis=1)
        return logs + (of_session @ beta[self._own :])[:, None], np.concatenate([slope, by_speed], axis=2)

    @property
    def _own(self) -> int:
        return len(self.physics.centre)

    def _with_speeds(self, slope: Floats) -> Floats:
        """Latency and costs are told by the present machine."""
        speeds = self.data.loads.speeds
        return np.column_stack([slope, np.zeros((len(slope), speeds))]) if speeds else slope
