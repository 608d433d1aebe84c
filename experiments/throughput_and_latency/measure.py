"""What parallelism does to throughput and latency (AuTraScale §II, Figs. 1 and 2), on the simulated WordCount."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autotrascale.execute.simulator.fluid_job import FluidJob
from experiments.shared.driving import engine, quartiles, window
from experiments.shared.jobs import job
from experiments.shared.published import published

P = 2  # of every operator, in Fig. 1
SPAN, EVERY, STEP = 600.0, 60.0, 10.0  # s: at one rate, between looks, of the simulation
MOST = 6
SEEDS = 30


def cases() -> Sequence[Mapping[str, Any]]:
    return [{"figure": 1}, *({"figure": 2, "p": p} for p in range(1, MOST + 1))]


def measure(case: Mapping[str, Any]) -> Mapping[str, Any]:
    return _rising_rate() if case["figure"] == 1 else _at(case["p"])


def _rising_rate() -> Mapping[str, Any]:
    """Case 1: fixed parallelism while the rate goes up every ten minutes."""
    there = job("wordcount-small")
    running = FluidJob(there.job, there.topology, there.source_rates, (P,) * 4, p_max=there.p_max)
    looks = []
    for rate in published("wordcount-small/rates"):
        for _ in range(round(SPAN / EVERY)):
            steps = [running.step(STEP, rate) for _ in range(round(EVERY / STEP))]
            looks.append(
                {
                    "minute": round(running.time / 60, 2),
                    "offered": rate,
                    "throughput": float(np.mean([step.throughput for step in steps])),
                    "latency": float(np.mean([step.latency for step in steps])),
                    "lag": running.backlog,
                }
            )
    return {"looks": looks, "capacity": running.capacity}


def _at(p: int) -> Mapping[str, Any]:
    """Case 2: fixed rate, p instances of each. Latency without noise, and the spread of readings with it."""
    there = job("wordcount-small")
    state = there.compiled.steady((p,) * 4)
    latency = float(state.latency[0])
    runs = (engine(there, seed).run(there.topology.named((p,) * 4), there.source_rates) for seed in range(SEEDS))
    read = [window(trial, there) for trial in runs]
    latencies = [each.latency for each in read if each.latency is not None]
    return {
        "throughput": float(state.throughput[0]),
        "keeps_up": bool(np.isfinite(latency)),
        "latency": latency if np.isfinite(latency) else None,
        "read": quartiles(latencies) if latencies else None,
    }
