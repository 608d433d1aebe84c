"""Detection of a slow service: does the backlog follow the latency of a service that the job calls?

More instances would only wait for the same service.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from autotrascale.domain.decision import Number, Reason
from autotrascale.plan.control.observations.lagged_correlation import MIN_PAIRS, find_best_lag
from autotrascale.plan.formatting import format_percent, format_seconds

MIN_CORRELATION = 0.7
MIN_SLOWDOWN = 1.5  # latency over its median; below, a service is not slow whatever it correlates with
MAX_OBSERVATIONS = 40


@dataclass(frozen=True)
class ServiceLatencyHistory:
    """The backlog and the latency of each service, one value for each observation."""

    backlog: tuple[float, ...] = ()  # records
    latency: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # seconds

    def add(self, backlog: float | None, latency: Mapping[str, float]) -> ServiceLatencyHistory:
        """Return the history with one more observation. Without a backlog or a valid latency nothing is added."""
        latency = {name: value for name, value in latency.items() if math.isfinite(value) and value >= 0}
        if backlog is None or not latency:
            return self
        series = {name: (*self.latency.get(name, ()), value)[-MAX_OBSERVATIONS:] for name, value in latency.items()}
        return ServiceLatencyHistory((*self.backlog, backlog)[-MAX_OBSERVATIONS:], series)

    def find_slow_service(self) -> Reason | None:
        """Return a reason that names the slow service whose latency the backlog follows, or None."""
        for name, series in self.latency.items():
            best = find_best_lag(self.backlog, series) if len(series) >= MIN_PAIRS else None
            if best is None or best.correlation < MIN_CORRELATION:
                continue
            if max(series[-1 - best.lag :]) < MIN_SLOWDOWN * statistics.median(series):
                continue
            text = (
                f"On hold: the backlog follows the latency of {name}, now {format_seconds(series[-1])} "
                f"(correlation {format_percent(best.correlation)} at a lag of {best.lag} observations). "
                "More instances would wait for the same service."
            )
            numbers: dict[str, Number] = {
                "service": name,
                "correlation": best.correlation,
                "lag": best.lag,
                "latency": series[-1],
            }
            return Reason("hold-external", text, numbers)
        return None
