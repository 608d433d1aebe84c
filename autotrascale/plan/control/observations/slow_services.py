"""What looks like a lack of parallelism and is none.

    hot key      one instance takes in most of the records: more of them would leave the hot key where it is
    partitions   more instances than the partitions of a topic wait while it is read
    external     the backlog follows the latency of a service that the job calls

Garbage collection is a gate of the manager's (`max_gc_share`). What critical paths say: `elsewhere.py`. What cannot be
believed at all: `belief.py`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autotrascale.domain.decision import Number, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.control.observations.lagged_correlation import MIN_PAIRS, find_best_lag
from autotrascale.plan.formatting import format_percent, format_seconds
from autotrascale.plan.policies import reasons
from autotrascale.plan.sizing.sizing import Unsized, size

SATURATED, IDLE = 0.95, 0.5  # useful share of the window: of the hottest instance, and of the others on average
MIN_CORRELATION = 0.7
MIN_SLOWDOWN = 1.5  # times its median: below, a service is not slow, whatever it correlates with
HOT = 0.5  # share of an operator's records that one instance takes in …
FAIR = 3.0  # … and times the share that would be its own
MAX_OBSERVATIONS = 40  # looks


@dataclass(frozen=True)
class ServiceLatencyHistory:
    """Backlog and service latencies, look by look."""

    backlog: tuple[float, ...] = ()
    latency: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def adding(self, backlog: float | None, latency: Mapping[str, float]) -> ServiceLatencyHistory:
        latency = {name: value for name, value in latency.items() if math.isfinite(value) and value >= 0}
        if backlog is None or not latency:
            return self
        series = {name: (*self.latency.get(name, ()), value)[-MAX_OBSERVATIONS:] for name, value in latency.items()}
        return ServiceLatencyHistory((*self.backlog, backlog)[-MAX_OBSERVATIONS:], series)

    def slow(self) -> Reason | None:
        """The service that the backlog follows."""
        for name, series in self.latency.items():
            found = find_best_lag(self.backlog, series) if len(series) >= MIN_PAIRS else None
            usual = statistics.median(series) if series else 0.0
            if (
                found is None
                or found.correlation < MIN_CORRELATION
                or max(series[-1 - found.lag :]) < MIN_SLOWDOWN * usual
            ):
                continue
            text = (
                f"the backlog follows the latency of {name} ({format_percent(found.correlation)} at a lag of {found.lag} "
                f"looks), which takes {format_seconds(series[-1])}: more instances would wait for it too"
            )
            numbers: dict[str, Number] = {
                "service": name,
                "correlation": found.correlation,
                "lag": found.lag,
                "latency": series[-1],
            }
            return Reason("hold-external", text, numbers)
        return None


def check_skew(snapshot: Snapshot) -> Reason | None:
    """An operator whose hottest instance is saturated while its siblings have time to spare."""
    for name, metrics in snapshot.operators.items():
        useful = [work.useful_seconds for work in metrics.instances if work.useful_seconds is not None]
        if len(useful) < 2:
            continue
        hottest, rest = max(useful), (sum(useful) - max(useful)) / (len(useful) - 1)
        if hottest >= SATURATED * snapshot.window_seconds and rest < IDLE * snapshot.window_seconds:
            one, others = (
                format_percent(hottest / snapshot.window_seconds),
                format_percent(rest / snapshot.window_seconds),
            )
            text = (
                f"{name}: one instance is busy {one} of the time, the others {others}: "
                "a hot key, which more instances do not divide"
            )
            return Reason("hold-skew", text, {"operator": name, "skew": metrics.skew})
    return None


def find_hot_keys(snapshot: Snapshot) -> list[Reason]:
    """Operators of which one instance takes in most of the records: named whatever is decided."""
    found = []
    for name, metrics in snapshot.operators.items():
        taken = [work.records_in for work in metrics.instances if work.records_in is not None]
        share = max(taken, default=0.0) / (sum(taken) or 1.0)
        if len(taken) < 2 or share < HOT or share * len(taken) < min(FAIR, 0.9 * len(taken)):
            continue
        text = f"{name}: one of its {len(taken)} instances takes in {format_percent(share)} of the records: a hot key"
        found.append(Reason("hot-key", text, {"operator": name, "share": share}))
    return found


def find_narrow_sources(snapshot: Snapshot, wanted: Mapping[str, int], said: Sequence[Reason]) -> list[Reason]:
    """Operators with more instances than the partitions of their source keep busy, where the policy has not said it."""
    if all(metrics.narrow is None for metrics in snapshot.operators.values()):
        return []
    sized = size(snapshot)
    if isinstance(sized, Unsized) or any(reason.code == "source-partitions" for reason in said):
        return []
    return reasons.explain_narrow_sources(sized, [wanted[name] for name in sized.operators])
