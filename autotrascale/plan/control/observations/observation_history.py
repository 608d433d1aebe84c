"""What a look is judged by: the look, what earlier ones showed, and how long the job has been watched."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from autotrascale.domain.observation import Observation
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Topology
from autotrascale.domain.true_rates import compute_true_rates

MAX_CLOCK_SKEW_SECONDS = 5.0  # seconds that two machines' clocks may differ by


@dataclass(frozen=True)
class ObservationRecord:
    """What is remembered of a look, for the next ones to be compared with."""

    at: float
    measured_at: float | None
    counted: tuple[float | None, ...]  # enough numbers of the window to know it again
    backlog: float | None = None  # the last that was known …
    backlog_at: float = 0.0  # … and when, in seconds watched
    rate: float = 0.0  # that was offered then
    capacity: Mapping[str, float] = field(default_factory=dict)  # records per useful second, of each operator


@dataclass(frozen=True)
class ObservationContext:
    """A look, and what it is judged by."""

    look: Observation
    target: Target
    stale_seconds: float
    beliefs: ObservationHistory
    topology: Topology | None = None  # of the job, where it is known
    watched: float = 0.0  # seconds for which the job has been watched

    @property
    def snapshot(self) -> Snapshot:
        assert self.look.snapshot is not None  # the first check saw to it
        return self.look.snapshot


@dataclass(frozen=True)
class ObservationHistory:
    """What one look leaves for the next."""

    believed: ObservationRecord | None = None  # the last look that was believed
    last: ObservationRecord | None = None  # the last look there was
    agreeing: int = 0  # looks in a row that agree with one another, and not with what was believed
    still_waiting: float = 0.0  # records at the last look that was believed, at least, whether it named them or not


def record_observation(evidence: ObservationContext, before: ObservationRecord | None) -> ObservationRecord | None:
    """What the next look is to be compared with; what this one does not know is taken from the one before."""
    look, snapshot = evidence.look, evidence.look.snapshot
    if snapshot is None or not math.isfinite(look.at):
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
    at, made = look.at, look.measured_at
    known = made if made is not None and math.isfinite(made) and made <= at + MAX_CLOCK_SKEW_SECONDS else None
    backlog, backlog_at, rate = snapshot.backlog_records, evidence.watched, snapshot.target_rate
    if backlog is None and before is not None:
        backlog, backlog_at, rate = before.backlog, before.backlog_at, before.rate
    capacity = {**(before.capacity if before is not None else {}), **measure_capacity(snapshot)}
    return ObservationRecord(at, known, counted, backlog, backlog_at, rate, capacity)


def measure_capacity(snapshot: Snapshot) -> dict[str, float]:
    rates = {name: compute_true_rates(metrics).processing for name, metrics in snapshot.operators.items()}
    return {name: rate / snapshot.operators[name].parallelism for name, rate in rates.items() if rate}
