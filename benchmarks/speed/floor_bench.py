"""The time to size a job and to make a whole decision.

python -m benchmarks.speed.floor_bench
"""

from __future__ import annotations

import json
import platform
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import get_args

from autotrascale.domain.snapshot import Execution, OperatorMetrics, Snapshot
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.control.manager.manager_state import ManagerState
from autotrascale.plan.control.manager.scaling_manager import manage
from autotrascale.plan.policies.registry import create
from autotrascale.plan.sizing.sizing import Sizing, size


def draw_snapshot(operators: int, execution: Execution, p_max: int, seed: int = 0) -> Snapshot:
    """Draw a DAG in which each operator reads from one or two of the ten before it. Loads lie between 0.5 and 8."""
    chance = random.Random(seed)
    metrics = {"op0": OperatorMetrics(1000.0, 1000.0, 6.0, parallelism=1)}
    for i in range(1, operators):
        near = [f"op{j}" for j in range(max(0, i - 10), i)]
        upstream = tuple(chance.sample(near, min(len(near), chance.choice((1, 1, 2)))))
        # Selectivities that keep the demand of each operator near that of the source, at any depth.
        load, selectivity = chance.uniform(0.5, 8.0), 1 / 1.35
        metrics[f"op{i}"] = OperatorMetrics(
            1000.0, 1000.0 * selectivity, 1000.0 * load / 1000.0, parallelism=1, upstream=upstream
        )
    return Snapshot(
        job="bench",
        window_seconds=60.0,
        p_max=p_max,
        source_rates={"op0": 1000.0},
        operators=metrics,
        execution=execution,
        overhead_share=0.1,
    )


def size_job(job: Snapshot) -> Sizing:
    sized = size(job)
    assert isinstance(sized, Sizing)
    return sized


def median_ms(work: Callable[[], object], repeats: int) -> float:
    """Return the median time of single calls in milliseconds, so that turns of other processes do not count."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return round(1000 * statistics.median(times), 4)


def figures(repeats: int = 200) -> dict[str, object]:
    """Return milliseconds for floors of 1,000 operators and for decisions on 10, by execution model."""
    floors, decisions, managed, totals = {}, {}, {}, {}
    policy = create("ds2")
    for execution in get_args(Execution):
        large = draw_snapshot(1000, execution, p_max=40 if execution == "pipelined" else 1_000_000)
        small = draw_snapshot(10, execution, p_max=400)
        floors[execution] = median_ms(partial(size_job, large), repeats)
        decisions[execution] = median_ms(partial(policy.decide, small), repeats)
        managed[execution] = median_ms(partial(manage, Knobs(), policy, ManagerState(), small, 0.0), repeats)
        totals[execution] = sum(size_job(large).floor)
    return {
        "unit": "ms, median",
        "repeats": repeats,
        "python": platform.python_version(),
        "floor_1000_operators": floors,
        "floor_1000_operators_total_instances": totals,
        "decision_10_operators": decisions,
        "managed_decision_10_operators": managed,
        "goals": {"floor_1000_operators": 10.0, "decision_10_operators": 1.0},
    }


if __name__ == "__main__":
    print(json.dumps(figures(), indent=2))
