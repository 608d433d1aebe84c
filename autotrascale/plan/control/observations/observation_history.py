"""The input of the observation checks: an observation, records of earlier ones, and the time under observation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from autotrascale.domain.observation import Observation
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Topology
from autotrascale.domain.true_rates import compute_true_rates

MAX_CLOCK_SKEW_SECONDS = 5.0  # between the clocks of two machines


@dataclass(frozen=True)
class ObservationRecord:
    """The part of an observation that later ones are compared with."""

    at: float
    measured_at: float | None
    counted: tuple[float | None, ...]  # numbers that identify the window
    backlog: float | None = None  # records; the newest known
    backlog_at: float = 0.0  # when `backlog` was measured, in seconds under observation
    rate: float = 0.0  # records/s offered at that time
    capacity: Mapping[str, float] = field(default_factory=dict)  # records per useful second of one instance


@dataclass(frozen=True)
class ObservationHistory:
    """The state that the checks leave for the next observation."""

    trusted: ObservationRecord | None = None  # the last trusted observation
    last: ObservationRecord | None = None  # the last observation, trusted or not
    agreeing: int = 0  # distrusted observations in a row that agree with one another
    least_backlog: float = 0.0  # records that waited at least at the last trusted observation


@dataclass(frozen=True)
class ObservationContext:
    """An observation and everything that it is checked against."""

    observation: Observation
    target: Target
    max_age_seconds: float  # of metrics
    history: ObservationHistory
    topology: Topology | None = None
    watched_seconds: float = 0.0  # how long the job has been under observation

    @property
    def snapshot(self) -> Snapshot:
        assert self.observation.snapshot is not None  # the first check rejects an observation without snapshot
        return self.observation.snapshot


def record_observation(context: ObservationContext, before: ObservationRecord | None) -> ObservationRecord | None:
    """Return the record of the observation, or None without a snapshot. Unknown values are taken from `before`."""
    observation, snapshot = context.observation, context.observation.snapshot
    if snapshot is None or not math.isfinite(observation.at):
        return None
    counted = (
        snapshot.window_seconds,
        snapshot.throughput,
        snapshot.latency_seconds.mean,
        snapshot.backlog_records,
        *snapshot.source_rates.values(),
        *(each.total.records_in for each in snapshot.operators.values()),
        *(each.total.useful_seconds for each in snapshot.operators.values()),
    )
    at, measured_at = observation.at, observation.measured_at
    is_plausible = measured_at is not None and math.isfinite(measured_at) and measured_at <= at + MAX_CLOCK_SKEW_SECONDS
    backlog, backlog_at, rate = snapshot.backlog_records, context.watched_seconds, snapshot.target_rate
    if backlog is None and before is not None:
        backlog, backlog_at, rate = before.backlog, before.backlog_at, before.rate
    capacity = {**(before.capacity if before is not None else {}), **measure_capacity(snapshot)}
    return ObservationRecord(at, measured_at if is_plausible else None, counted, backlog, backlog_at, rate, capacity)


def measure_capacity(snapshot: Snapshot) -> dict[str, float]:
    """Return the true processing rate of one instance in records/s, for each operator whose rate is known."""
    rates = {name: compute_true_rates(metrics).processing for name, metrics in snapshot.operators.items()}
    return {name: rate / snapshot.operators[name].parallelism for name, rate in rates.items() if rate}
