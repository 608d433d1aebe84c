"""The end of executor sizes, and whether they settle. All jobs are simulated.

    python -m benchmarks.quality.sizes_bench --days 30 --jobs 40 --seed 1

Jobs with a load that follows the day (`benchmarks/workloads/executor_sizes.py`). Each begins with sizes from a third to
three times of its need. Each window goes through the state machine of `plan/executor_size`, and each request is carried
out some windows later. Half of the jobs get 40 % more load in the middle of the time.

oscillations   a size that is raised after it was given back, or given back below a size found too small, while the
               job's daily peak stayed the same
ends           executors that ran out of memory at a size that was given back
above          memory of an executor, and slots, at the end, over the least that a search over the model finds
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from autotrascale.domain.executor_window import MEMORY, ExecutorSizes
from autotrascale.plan.executor_size.clamp_to_cluster import MIN_HEAP_MB, MIN_OVERHEAD_MB, ClusterLimits
from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.plan.executor_size.size_evidence import ExecutorSizeRules
from autotrascale.plan.executor_size.size_step import ExecutorSizeState, SizeChangeQuota, judge_window
from benchmarks.workloads.executor_sizes import DAY, MemoryModel, SimulatedExecutors

BUSY = ExecutorSizeRules().busy_aim  # share of busy slots at the peak; the search over the model keeps it too
WINDOW = 600.0
MOST_DELAY = 6  # windows until a request is carried out


@dataclass(frozen=True)
class Outcome:
    seed: int
    begun: ExecutorSizes
    ended: ExecutorSizes
    best: ExecutorSizes
    actions: int
    taken_back: int
    oscillations: int
    ends_after_giving_back: int
    ends: int
    settled_days: float

    @property
    def memory_above(self) -> float:
        return self.ended.memory_mb / self.best.memory_mb - 1

    @property
    def slots_above(self) -> int:
        return self.ended.slots - self.best.slots


def draw_job(seed: int) -> tuple[MemoryModel, ExecutorSizes]:
    """Return a random job and its first sizes."""
    random = np.random.default_rng(seed)

    def between(low: float, high: float) -> float:
        return float(np.exp(random.uniform(np.log(low), np.log(high))))

    job = MemoryModel(
        rate=between(500, 5000),
        night=between(0.1, 0.8),
        seconds_a_record=between(0.0005, 0.004),
        heap_base=between(200, 800),
        heap_a_task=between(50, 300),
        state=between(50, 3000),
        garbage=between(0.01, 0.1),
        mark=between(0.0001, 0.001),
        outside_base=between(200, 300),
        python_a_task=between(20, 300),
        native=between(50, 1500),
        noise=between(0.01, 0.04),
    )
    cores = int(random.integers(1, 4))
    slots = max(1, round(job.least_slots(BUSY) * between(0.5, 2.5)))
    about = ExecutorSizes(1, 0, cores, max(1, round(slots / cores)))
    best = job.best(about)
    heap = max(MIN_HEAP_MB, round(best.heap_mb * between(0.4, 3.0)))
    return job, replace(
        about, heap_mb=heap, overhead_mb=max(MIN_OVERHEAD_MB, round(best.overhead_mb * between(0.4, 3.0)))
    )


def run_job(seed: int, days: float = 25.0, *, more: float = 1.0, rules: ExecutorSizeRules | None = None) -> Outcome:
    """Run a job for some days. `more` multiplies its load from the middle of the time on."""
    rules, limits, quota = (
        rules or ExecutorSizeRules(),
        ClusterLimits(host_memory_mb=2**17, host_cores=16),
        SizeChangeQuota(),
    )
    job, begun = draw_job(seed)
    lives, state = SimulatedExecutors(job, begun, seed, WINDOW), ExecutorSizeState()
    done: list[SizeChange] = []
    waiting: list[tuple[int, ExecutorSizes]] = []
    ends = after_giving_back = 0
    settled, changes = 0.0, days / 2 * DAY if more != 1 else math.inf
    random = np.random.default_rng(seed + 1)
    for number in range(round(days * DAY / WINDOW)):
        if number * WINDOW >= changes:
            lives.job = replace(job, rate=job.rate * more)
        window = lives.window()
        state, _, actions = judge_window(rules, limits, quota, state, window)
        done += actions
        ends += len(window.lost)
        after_giving_back += len(window.lost) if is_given_back(done, window.sizes) else 0
        for action in actions:
            if action.what == "asked":
                waiting.append((number + int(random.integers(1, MOST_DELAY)), action.after))
                settled = window.began / DAY
        for due, sizes in [each for each in waiting if each[0] <= number]:
            lives.resize(sizes)
            waiting.remove((due, sizes))
    return Outcome(
        seed,
        begun,
        lives.sizes,
        _best(lives.job, lives.sizes),
        sum(each.what == "asked" for each in done),
        sum(each.what == "taken-back" for each in done),
        count_oscillations(done, changes),
        after_giving_back,
        ends,
        settled,
    )


def figures(jobs: int, days: float, seed: int) -> dict[str, Any]:
    found = [run_job(seed * 1000 + at, days, more=1.4 if at % 2 else 1.0) for at in range(jobs)]
    above = [each.memory_above for each in found]
    return {
        "simulated": True,
        "jobs": jobs,
        "days": days,
        "oscillations": sum(each.oscillations for each in found),
        "ends_after_giving_back": sum(each.ends_after_giving_back for each in found),
        "ends_at_sizes_begun_with": sum(each.ends - each.ends_after_giving_back for each in found),
        "memory_above_best": {"median": statistics.median(above), "most": max(above), "least": min(above)},
        "slots_above_best": {
            "mean": statistics.mean(each.slots_above for each in found),
            "most": max(each.slots_above for each in found),
        },
        "actions": {
            "mean": statistics.mean(each.actions for each in found),
            "most": max(each.actions for each in found),
        },
        "taken_back": sum(each.taken_back for each in found),
        "outcomes": [asdict(each) for each in found],
    }


def _best(job: MemoryModel, sizes: ExecutorSizes) -> ExecutorSizes:
    """Return the fewest executors with these cores that keep up, and the least memory for them."""
    executors = max(1, -(-job.least_slots(BUSY) // sizes.cores))
    found = job.best(replace(sizes, executors=executors))
    memory = job.best(sizes)  # for the present executors; fewer executors would need more memory each
    return replace(
        found, heap_mb=max(MIN_HEAP_MB, memory.heap_mb), overhead_mb=max(MIN_OVERHEAD_MB, memory.overhead_mb)
    )


def is_given_back(done: list[SizeChange], sizes: ExecutorSizes) -> bool:
    """Return whether the last change of memory was a reduction to this size."""
    memory = [action for action in done if action.what == "asked" and action.resource in MEMORY]
    return bool(memory) and not memory[-1].up and memory[-1].after == sizes


def count_oscillations(done: list[SizeChange], changes: float) -> int:
    """Count oscillations of sizes.

    An oscillation is a rise after a reduction, or a reduction to a size that was raised for being too small. Both
    actions must belong to the same daily peak, before or after the load changes. Memory is compared for executors with
    the same cores and the same count. Cores and executors are compared as slots.
    """
    moves = [move for action in done if action.what == "asked" for move in _moves(action, changes)]
    count = 0
    for at, (thing, before, after) in enumerate(moves):
        earlier = [(was, then) for other, was, then in moves[:at] if other == thing]
        count += after > before and any(then < was for was, then in earlier)
        count += after < before and any(then > was and after <= was for was, then in earlier)
    return count


def _moves(action: SizeChange, changes: float) -> Iterator[tuple[tuple[object, ...], int, int]]:
    """Yield the parts of an action: the name of the size, its old and its new value."""
    for each in action.parts:
        of = (each, action.before.cores, action.before.executors) if each in MEMORY else ("slots",)
        before, after = (sizes.of(each) if each in MEMORY else sizes.slots for sizes in (action.before, action.after))
        yield (*of, action.at < changes), before, after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(json.dumps(figures(given.jobs, given.days, given.seed), indent=1))


if __name__ == "__main__":
    main()
