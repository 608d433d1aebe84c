"""Signals that lie: what must not be taken for a lack of parallelism, and what must not be decided on at all.

    blind, stale     nothing was measured, or long ago: hold
    skew             one instance is saturated and its siblings idle: more of them would leave the hot key where it is
    external         the backlog follows the latency of a service that the job calls
    clock            the job's clock went back, or leapt: time is taken to have stood still, or gone one interval on

Garbage collection is a gate of the manager's (`max_gc_share`).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from autotrascale.domain.decision import Number, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.control.lagged import FEWEST, follows
from autotrascale.plan.words import amount, percent

SATURATED, IDLE = 0.95, 0.5  # useful share of the window: of the hottest instance, and of the others on average
CORRELATED = 0.7
SLOWER = 1.5  # times its median: below, a service is not slow, whatever it correlates with
LEAP = 10.0  # intervals beyond which a gap between two looks is the clock's doing
KEPT = 40  # looks


@dataclass(frozen=True)
class Services:
    """Backlog and service latencies, look by look."""

    backlog: tuple[float, ...] = ()
    latency: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def seen(self, backlog: float | None, latency: Mapping[str, float]) -> Services:
        if backlog is None or not latency:
            return self
        series = {name: (*self.latency.get(name, ()), value)[-KEPT:] for name, value in latency.items()}
        return Services((*self.backlog, backlog)[-KEPT:], series)

    def slow(self) -> Reason | None:
        """The service that the backlog follows."""
        for name, series in self.latency.items():
            found = follows(self.backlog, series) if len(series) >= FEWEST else None
            usual = statistics.median(series) if series else 0.0
            if found is None or found.correlation < CORRELATED or max(series[-1 - found.lag :]) < SLOWER * usual:
                continue
            text = (
                f"the backlog follows the latency of {name} ({percent(found.correlation)} at a lag of {found.lag} "
                f"looks), which takes {amount(series[-1])} s: more instances would wait for it too"
            )
            numbers: dict[str, Number] = {
                "service": name,
                "correlation": found.correlation,
                "lag": found.lag,
                "latency": series[-1],
            }
            return Reason("hold-external", text, numbers)
        return None


@dataclass(frozen=True)
class Clock:
    """A clock that never goes back, made from one that may. `now` is in seconds since the first look."""

    now: float = 0.0
    read: float | None = None

    def tick(self, at: float, interval: float) -> tuple[Clock, Reason | None]:
        if self.read is None:
            return Clock(self.now, at), None
        gone = at - self.read
        if gone < 0:
            text = f"the job's clock went back by {amount(-gone)} s: time is taken to have stood still"
            return Clock(self.now, at), Reason("clock", text, {"seconds": gone})
        if gone > max(LEAP * interval, 600.0):
            text = f"the job's clock leapt by {amount(gone)} s: taken as one interval"
            return Clock(self.now + interval, at), Reason("clock", text, {"seconds": gone})
        return replace(self, now=self.now + gone, read=at), None


def skewed(snapshot: Snapshot) -> Reason | None:
    """An operator whose hottest instance is saturated while its siblings have time to spare."""
    for name, metrics in snapshot.operators.items():
        useful = [work.useful_seconds for work in metrics.instances if work.useful_seconds is not None]
        if len(useful) < 2:
            continue
        hottest, rest = max(useful), (sum(useful) - max(useful)) / (len(useful) - 1)
        if hottest >= SATURATED * snapshot.window_seconds and rest < IDLE * snapshot.window_seconds:
            one, others = percent(hottest / snapshot.window_seconds), percent(rest / snapshot.window_seconds)
            text = (
                f"{name}: one instance is busy {one} of the time, the others {others}: "
                "a hot key, which more instances do not divide"
            )
            return Reason("hold-skew", text, {"operator": name, "skew": metrics.skew})
    return None


def too_old(at: float, measured_at: float | None, limit: float) -> Reason | None:
    age = 0.0 if measured_at is None else at - measured_at
    if age <= limit:
        return None
    text = f"the newest metric is {amount(age)} s old, the limit is {amount(limit)} s: nothing is decided on it"
    return Reason("hold-stale", text, {"age_seconds": age, "limit_seconds": limit})
