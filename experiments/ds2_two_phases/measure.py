"""A word count whose rate halves, in the hands of a policy (DS2 §5.3, Fig. 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autotrascale.domain.target import Target
from autotrascale.execute.simulator.fluid_job import FluidJob
from autotrascale.plan.policies.registry import create
from experiments.shared.jobs import at_rate, job
from experiments.shared.published import published

POLICIES = ("ds2", "dhalion")
RATES, MANAGER = published("flink-wordcount/rates"), published("flink-wordcount/manager")
INTERVAL, WARM_UP = float(MANAGER["interval"]), float(MANAGER["warm_up"])  # s


def cases() -> Sequence[Mapping[str, Any]]:
    return [{"policy": policy} for policy in POLICIES]


def measure(case: Mapping[str, Any]) -> Mapping[str, Any]:
    """Decisions after each interval, but for the warm-up that follows the start and each redeployment."""
    there, policy = job("flink-wordcount"), create(case["policy"], Target(1.0))
    start = published("flink-wordcount/up")[0]
    running = FluidJob(there.job, there.topology, there.source_rates, (1, *start), p_max=there.p_max)
    changes: list[dict[str, Any]] = []
    carried: list[tuple[float, float]] = []
    asked_from = WARM_UP
    while running.time < RATES["until"]:
        rate = float(RATES["first" if running.time < RATES["second_from"] else "second"])
        step = running.step(INTERVAL, rate)
        running.backlog = 0.0  # what the paper's generator could not put out, it does not make up for
        carried.append((running.time, step.throughput))
        seen = running.snapshot()
        if running.time <= asked_from:
            continue
        wanted = there.topology.vector(policy.decide(seen).parallelism)
        if wanted != running.parallelism:
            down = running.rescale(wanted)
            changes.append({"decided": running.time, "running": running.time + down, "k": list(wanted[1:])})
            asked_from = running.time + down + WARM_UP
    return {"changes": changes, "carried": carried, "least": _least()}


def _least() -> dict[str, list[int]]:
    """What keeps up in each phase, without noise."""
    there = job("flink-wordcount")
    return {phase: list(at_rate(there, float(RATES[phase])).floor[1:]) for phase in ("first", "second")}
