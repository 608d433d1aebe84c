"""What is run on the query: p tasks of each operator in either mode (AuTraScale's Fig. 2); and in real-time mode two
tasks of each while the rate rises (Fig. 1), the search for the floor (Fig. 5), and policies from too little and from
too much (Figs. 6 and 7)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.plan.policies.registry import PolicyChoice
from autotrascale.tuning import TuningSettings, tune
from experiments.real_time.engine import TOPOLOGY, RealTimeEngine
from experiments.real_time.query import MODES, P_MAX, Load, Queries, queries
from experiments.shared.record import Case, Measure, Sitting
from experiments.shared.trials import SameStart, find_floor, told

PARALLELISMS = (1, 2, 3, 4, 5, 6)
LOAD = Load()
FIXED, RISING = 2, (150, 300, 450, 600)  # tasks of each operator, and records/s
# For policies: two operators that need different numbers of tasks.
UNEVEN = Load(count=0.009, seconds=10, window_seconds=5)
TARGET_SECONDS = 0.1
MOST_TRIALS = 6
POLICIES = ("none", "ds2", "drs-true", "drs-observed", "threshold", "queueing", "queueing-path", "autrascale")
# Down, those that move by one task at a time would not get there within the trials.
POLICIES_DOWN = tuple(each for each in POLICIES if each not in ("threshold", "queueing-path"))
STARTS = {"up": {"split": 1, "count": 1}, "down": {"split": P_MAX, "count": P_MAX}}


def cases() -> list[Case]:
    return [
        *(Case(mode, str(p)) for mode in MODES for p in PARALLELISMS),
        Case("real-time", "rates"),
        Case("real-time", "floor"),
        *(Case("real-time", "up", policy) for policy in POLICIES),
        *(Case("real-time", "down", policy) for policy in POLICIES_DOWN),
    ]


@contextmanager
def measuring(sitting: Sitting) -> Iterator[Measure]:
    job = Job("real-time", TOPOLOGY, P_MAX, {"split": float(UNEVEN.rate)}, Target(TARGET_SECONDS, "mean", 0.05))
    with queries() as running:
        engine = SameStart(RealTimeEngine(running, UNEVEN))
        yield lambda case: measure(case, job, engine, running, sitting.seed)


def measure(case: Case, job: Job, engine: SameStart, running: Queries, seed: int) -> dict[str, Any]:
    if case.policy:
        engine.begin()
        settings = TuningSettings(total_trials=MOST_TRIALS, noise=0.1, seed=seed, initial=STARTS[case.kind])
        return {"load": asdict(UNEVEN), **told(tune(job, engine, settings, policy=PolicyChoice(case.policy)))}
    if case.kind == "floor":
        engine.begin()
        return {"load": asdict(UNEVEN), **find_floor(job, engine)}
    if case.kind == "rates":
        return {"points": [_offered(rate, running) for rate in RISING]}
    p, mode = int(case.kind), next(each for each in MODES if each == case.bench)
    return {"load": asdict(LOAD), "p": p, **arrivals(running.run(mode, (p, p), LOAD), LOAD)}


def _offered(rate: int, running: Queries) -> dict[str, Any]:
    load = replace(LOAD, rate=rate, seconds=UNEVEN.seconds, window_seconds=UNEVEN.window_seconds)
    return {"load": asdict(load), **arrivals(running.run("real-time", (FIXED, FIXED), load), load)}


def arrivals(times: Any, load: Load) -> dict[str, Any]:
    """`throughput`: of all that arrived while there was input. Latencies are of what arrived in the window."""
    if len(times) == 0:
        return {"throughput": 0.0, "latency": None}
    end = times[:, 0].min() + 1000 * load.seconds
    seen = times[times[:, 1] <= end]
    throughput = round(len(seen) / load.seconds, 1)
    within = seen[seen[:, 1] > end - 1000 * load.window_seconds]
    if len(within) == 0:
        return {"throughput": throughput, "latency": None}
    late = (within[:, 1] - within[:, 0]) / 1000
    half, nearly_all = (round(float(each), 4) for each in np.quantile(late, [0.5, 0.99]))
    return {"throughput": throughput, "latency": {"mean": round(float(late.mean()), 4), "p50": half, "p99": nearly_all}}
