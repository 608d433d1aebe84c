"""How soon DS2 stands still (DS2 §5.4, Table 4), and its word count beside Dhalion (§5.2, Figs. 1 and 6)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from autotrascale.domain.target import Target
from autotrascale.execute.simulator.fluid_job import FluidJob
from autotrascale.plan.policies.base import Policy
from autotrascale.plan.policies.registry import create
from benchmarks.workloads.case import Case
from experiments.shared.driving import engine
from experiments.shared.jobs import QUERIES, job

INITIAL = (8, 12, 16, 20, 24, 28)
SEEDS = 5
WINDOWS = 5  # decisions looked at before one is acted on, as in the paper
MOST_STEPS = 10
# The word count on Heron.
INTERVAL, STEP = 60.0, 10.0  # s
QUIET = 15  # intervals without a change: it stands still
MOST_INTERVALS = 120


def cases() -> Sequence[Mapping[str, Any]]:
    grid = [
        {"query": query, "growth": growth, "initial": initial, "seed": seed}
        for query in QUERIES
        for growth in ("even", "steep")
        for initial in INITIAL
        for seed in range(SEEDS)
    ]
    return [*grid, *({"policy": policy} for policy in ("ds2", "dhalion"))]


def measure(case: Mapping[str, Any]) -> Mapping[str, Any]:
    if "policy" in case:
        return word_count(create(case["policy"], Target(1.0)), job("dhalion-wordcount"))
    there = job(f"ds2-{case['query']}{'-steep' * (case['growth'] == 'steep')}")
    running, policy = engine(there, case["seed"]), create("ds2")
    k, way = case["initial"], []
    for _ in range(MOST_STEPS):
        wanted = []
        for _ in range(WINDOWS):
            snapshot = running.run({"source": 1, "main": k}, there.source_rates).snapshot
            assert snapshot is not None
            wanted.append(policy.decide(snapshot).parallelism["main"])
        chosen = round(statistics.median(wanted))
        if chosen == k:
            break
        way.append(chosen)
        k = chosen
    return {"way": way}


def word_count(policy: Policy, there: Case) -> Mapping[str, Any]:
    """A policy in charge of the running job, from one instance of each operator, until it stands still."""
    running = FluidJob(there.job, there.topology, there.source_rates, (1, 1, 1), p_max=there.p_max)
    changes: list[dict[str, Any]] = [{"at": 0.0, "k": [1, 1]}]
    quiet = 0
    throughput: list[tuple[float, float]] = []
    for _ in range(MOST_INTERVALS):
        for _ in range(round(INTERVAL / STEP)):
            step = running.step(STEP, there.rate)
            throughput.append((running.time, step.throughput * 60))
        wanted = there.topology.vector(policy.decide(running.snapshot()).parallelism)
        quiet = quiet + 1 if wanted == running.parallelism else 0
        if quiet == QUIET:
            break
        if wanted != running.parallelism:
            running.rescale(wanted)
            changes.append({"at": running.time, "k": list(wanted[1:])})
    return {
        "changes": changes,
        "end": list(running.parallelism[1:]),
        "steps": len(changes) - 1,
        "settled_at": changes[-1]["at"],
        "throughput": [[at, round(each)] for at, each in throughput],
        "backlog": running.backlog,
    }
