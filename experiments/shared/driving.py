"""The orders in which the papers run a job: floors, policies asked again and again, tuning runs. All simulated.

A run is one window at one parallelism. `iterations` counts parallelisms after the first one, as the papers' tables do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.plan.policies.drs import sojourn_seconds, use_elapsed_time
from autotrascale.plan.policies.registry import create
from autotrascale.plan.policies.stations import build_stations
from autotrascale.plan.sizing.floor_search import ThroughputSearch
from autotrascale.plan.sizing.sizing import Sizing, size
from benchmarks.workloads.case import Case

K = tuple[int, ...]
Asked = Callable[[Snapshot], Mapping[str, int]]
TOLERANCE = Target(1.0).throughput_tolerance


@dataclass(frozen=True)
class Window:
    """One run, and what is true of it without noise."""

    k: K
    throughput: float
    latency: float | None  # as measured; None where the job falls behind

    def as_dict(self) -> dict[str, Any]:
        return {"k": list(self.k), "throughput": self.throughput, "latency": self.latency}


def engine(case: Case, seed: int, noise: float | None = None) -> SimulatorEngine:
    job = case.job if noise is None else replace(case.job, noise=noise)
    return SimulatorEngine(job, case.topology, p_max=case.p_max, seed=seed)


def window(trial: Trial, case: Case) -> Window:
    assert trial.snapshot is not None
    steady = trial.verdict is Verdict.STABLE
    throughput = trial.snapshot.throughput or 0.0
    return Window(
        case.topology.vector(trial.parallelism), throughput, trial.snapshot.latency_seconds.mean if steady else None
    )


def find_floor(case: Case, running: SimulatorEngine, start: K | None = None, corrections: int = 0) -> ThroughputSearch:
    """§III-C from `start`, by default from ones."""
    named = None if start is None else case.topology.named(start)
    search = ThroughputSearch(case.topology, case.source_rates, case.p_max, start=named, corrections=corrections)
    while not search.finished:
        trial = running.run(search.ask(), case.source_rates)
        search.tell(trial.snapshot, keeps_up=trial.verdict is Verdict.STABLE)
    return search


def holds(case: Case, k: K) -> bool:
    """Throughput and latency, without noise: the truth, which no policy is told."""
    state = case.compiled.steady(k)
    enough = float(state.throughput[0]) >= case.rate * (1 - TOLERANCE)
    return enough and float(state.latency[0]) <= case.latency_target


def truth(case: Case, k: K) -> dict[str, Any]:
    state = case.compiled.steady(k)
    latency = float(state.latency[0])
    return {
        "k": list(k),
        "instances": sum(k),
        "latency": latency if math.isfinite(latency) else None,
        "throughput": float(state.throughput[0]),
        "qos": holds(case, k),
    }


def asked_until(case: Case, running: SimulatorEngine, start: K, asked: Asked, most: int) -> list[Window]:
    """Runs what is asked for until a window of it meets the target, it is asked for again or comes back; with `most`
    new parallelisms. Asked once in any case: a job that meets its target may have too much."""
    seen: list[Window] = []
    k = start
    for _ in range(most + 1):
        trial = running.run(case.topology.named(k), case.source_rates)
        seen.append(window(trial, case))
        latency = seen[-1].latency
        if len(seen) > 1 and latency is not None and latency <= case.latency_target:
            break
        assert trial.snapshot is not None
        wanted = case.topology.vector(asked(trial.snapshot))
        if any(wanted == each.k for each in seen):
            break
        k = wanted
    return seen


def drs(case: Case, rates: str, corrected: bool) -> Asked:
    """DRS for one window after the other. `corrected`: its expected latency knows of queues alone, so what was measured
    on top is put down to the model, and its target lowered in proportion: the correction is ours.
    Where no number of instances is enough then, it takes all it may."""

    def asked(snapshot: Snapshot) -> Mapping[str, int]:
        target = case.latency_target
        measured = snapshot.latency_seconds.mean
        if corrected and measured is not None:
            target *= min(1.0, _expected(snapshot, rates) / measured)
        return create(f"drs-{rates}", Target(max(target, 1e-9))).decide(snapshot).parallelism

    return asked


def _expected(snapshot: Snapshot, rates: str) -> float:
    """E[T] of what runs, by DRS's own model."""
    seen = snapshot if rates == "true" else use_elapsed_time(snapshot)
    sized = size(seen)
    if not isinstance(sized, Sizing):
        return math.inf
    each = build_stations(snapshot, sized)
    total = sum(
        s.visits * sojourn_seconds(s.arrivals, s.service, snapshot.parallelism[name])
        for name, s in each.items()
        if s.visits
    )
    return total if math.isfinite(total) else math.inf


def quartiles(values: Sequence[float]) -> list[float]:
    """Lower quartile, median, upper quartile, each a value that occurs or the middle of two."""
    ordered = sorted(values)

    def at(q: float) -> float:
        place = q * len(ordered)
        low = math.ceil(place) - 1
        return (ordered[low] + ordered[low + 1]) / 2 if place == int(place) and low + 1 < len(ordered) else ordered[low]

    return [round(at(q), 6) for q in (0.25, 0.5, 0.75)]
