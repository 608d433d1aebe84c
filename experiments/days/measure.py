"""Every policy over the same simulated days, in the same loop and manager (`benchmarks/workloads/simulated_days.py`).

diurnal    a day that goes up and down: what it costs, beside one who knows the day, and how much of it is in target
steps      five rates, each for hours: how long after a change the job stands still again, within its target
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autotrascale.execute.simulator.rate_functions import DAY, Noisy, RateFunction, SteppedRate
from benchmarks.workloads.case import Case
from benchmarks.workloads.day_bounds import FEW_CHANGES, clairvoyant_shares, find_static_peak
from benchmarks.workloads.presets import PRESETS
from benchmarks.workloads.simulated_days import Witness, make_rules, make_trace, run_day, run_static_day

POLICIES = (
    "autotrascale",
    "ds2",
    "drs-true",
    "drs-observed",
    "dhalion",
    "threshold",
    "queueing",
    "queueing-path",
    "none",
)
JOBS = ("wordcount", "yahoo")
SEED = 20_261_124  # of their days, that no default was chosen on: the same hours, in proportion to each job's rate
KINDS = ("diurnal", "steps")
UNSETTLED = 600.0  # s


def cases() -> Sequence[Mapping[str, Any]]:
    return [
        {"job": name, "kind": kind, "policy": policy, "seed": SEED}
        for name in JOBS
        for kind in KINDS
        for policy in (*POLICIES, "clairvoyant")
    ]


def measure(case: Mapping[str, Any]) -> Mapping[str, Any]:
    there = PRESETS[case["job"]]
    return a_day(there, make_trace(case["kind"], case["seed"], there.rate), case["policy"], case["seed"])


def a_day(there: Case, schedule: RateFunction, policy: str, seed: int) -> Mapping[str, Any]:
    """Instance-hours over those of the static peak: the least Σk that holds the highest rate within the target."""
    peak = find_static_peak(there, schedule)
    static = run_static_day(there, schedule, peak)
    if policy == "clairvoyant":
        free, few = clairvoyant_shares(there, schedule, static, FEW_CHANGES)
        return {"of_peak": free, "of_peak_with_few_changes": few, "changes": FEW_CHANGES}
    witness = Witness(there.latency_target)
    trial = run_day(there, schedule, make_rules(there, policy, seed), seed, peak, witness=witness)
    return {
        "of_peak": trial.instance_hours / static.instance_hours,
        "in_target": trial.in_target,
        "outside_rescales": trial.outside,
        "rescales": trial.rescales,
        "settled": settled(witness.steps, changes_of(schedule)),
        "hourly": hourly(witness.steps),
    }


def changes_of(schedule: RateFunction) -> tuple[float, ...]:
    """When a day of steps changes its rate; none of other days."""
    base = schedule.base if isinstance(schedule, Noisy) else schedule
    return base.times[1:] if isinstance(base, SteppedRate) else ()


def settled(steps: Sequence[tuple[float, float, bool, int]], changes: Sequence[float]) -> list[float | None]:
    """Seconds from each change to the last moment, before the next one, in which the job was out of its target or had
    its parallelism changed. None: it still was in the last ten minutes before the next change, so it never settled."""
    found: list[float | None] = []
    ends = [*changes[1:], DAY][: len(changes)]
    times = [step[0] for step in steps]
    for start, end in zip(changes, ends, strict=True):
        first, last = bisect_right(times, start), bisect_right(times, end)
        restless = start
        for i in range(max(first, 1), last):
            if not steps[i][2] or steps[i][3] != steps[i - 1][3]:
                restless = steps[i][0]
        found.append(None if end - restless < UNSETTLED else round(restless - start, 1))
    return found


def hourly(steps: Sequence[tuple[float, float, bool, int]]) -> list[float]:
    """Mean Σk of each half hour."""
    at = np.array([step[0] - step[1] / 2 for step in steps])
    weights = np.array([step[1] for step in steps])
    taken = np.array([step[1] * step[3] for step in steps])
    slots = np.minimum((at // 1800).astype(int), 47)
    total = np.bincount(slots, weights, 48)
    return [round(float(each), 2) for each in np.bincount(slots, taken, 48) / np.maximum(total, 1e-9)]
