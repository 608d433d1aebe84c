"""Lower bounds of the instances that a simulated day needs, from the true simulated job.

static peak   the least Σk that holds the highest rate of the day within the target, all day
clairvoyant   knows the job and the day: the least Σk for the highest rate of each ten minutes, without a limit of
              changes or with one. No policy that holds the target can use less
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from autotrascale.execute.simulator.live_job import STEP_SECONDS
from autotrascale.execute.simulator.rate_functions import DAY, RateFunction
from autotrascale.execute.simulator.steady_state import compile_job
from benchmarks.workloads.case import Case
from benchmarks.workloads.simulated_days import DayResult

FEW_CHANGES = 10  # rescales in a day
_SPAN_SECONDS = 600.0
_RATE_STEP = 1.02  # rates are rounded up to powers of it, so that few searches are needed


def find_static_peak(case: Case, schedule: RateFunction, seconds: float = DAY) -> tuple[int, ...]:
    """Return the least parallelism for the highest rate of the trace."""
    return find_least(case, max(schedule(i * STEP_SECONDS) for i in range(int(seconds / STEP_SECONDS))))


def find_least(case: Case, rate: float) -> tuple[int, ...]:
    """Return a parallelism with the least Σk that holds `rate` within the target.

    A greedy search: from all ones it adds the instance that lowers the latency most (or the load, when saturated). Then
    it removes or exchanges instances as long as the target holds.
    """
    rates = {name: each * rate / case.rate for name, each in case.source_rates.items()}
    compiled = compile_job(case.job, case.topology, rates)

    def rank(ks: np.ndarray) -> np.ndarray:
        state = compiled.steady(ks)
        return np.where(np.isfinite(state.latency), state.latency, 1e6 / state.capacity)

    k, eye = np.ones(len(case.topology), dtype=np.int64), np.eye(len(case.topology), dtype=np.int64)
    while rank(k[None])[0] > case.latency_target and (k < case.p_max).any():
        near = np.array([k + step for step in eye if (k + step <= case.p_max).all()])
        k = near[np.argmin(rank(near))]
    return _trim(k, lambda ks: rank(ks) <= case.latency_target, case.p_max)


def count_least_instances(case: Case) -> Callable[[float], int]:
    """Return a function from a rate to the least Σk that holds it. The rate is rounded up by at most 2 %."""
    known: dict[float, int] = {}

    def instances(rate: float) -> int:
        rounded = _RATE_STEP ** math.ceil(math.log(rate) / math.log(_RATE_STEP))
        if rounded not in known:
            known[rounded] = sum(find_least(case, rounded))
        return known[rounded]

    return instances


def clairvoyant_shares(
    case: Case, schedule: RateFunction, static: DayResult, changes: int, seconds: float = DAY
) -> tuple[float, float]:
    """Return the clairvoyant's instance-hours over those of the static peak, without a limit and with `changes`."""
    instances = count_least_instances(case)
    steps = range(int(_SPAN_SECONDS / STEP_SECONDS))
    starts = range(0, int(seconds), int(_SPAN_SECONDS))
    needs = [instances(max(schedule(start + i * STEP_SECONDS) for i in steps)) for start in starts]
    spans = static.instance_hours * 3600 / _SPAN_SECONDS
    return sum(needs) / spans, cheapest_levels(needs, changes) / spans


def cheapest_levels(needs: Sequence[int], changes: int) -> float:
    """Return the least sum of a level that is never below `needs` and changes at most `changes` times."""
    n = len(needs)
    stretch = np.full((n + 1, n + 1), np.inf)  # cost of the slots from i to j at one level
    for i in range(n + 1):
        stretch[i, i:] = [0.0, *(np.maximum.accumulate(needs[i:]) * np.arange(1, n - i + 1))] if i < n else 0.0
    cost = stretch[0]  # of the first j slots, without a change
    for _ in range(changes):
        cost = (cost[:, None] + stretch).min(axis=0)
    return float(cost[n])


def _trim(k: np.ndarray, holds: Callable[[np.ndarray], np.ndarray], p_max: int) -> tuple[int, ...]:
    """Remove single instances, or exchange two to four for fewer of another operator, while `holds`."""
    n = len(k)
    moves = [-np.eye(n, dtype=np.int64)[i] for i in range(n)]
    for i in range(n):
        for j in range(n):
            for fewer in range(2, 5):
                if i != j:
                    moves.append(np.eye(n, dtype=np.int64)[i] * (fewer - 1) - np.eye(n, dtype=np.int64)[j] * fewer)
    while True:
        near = np.array([k + move for move in moves if ((k + move >= 1) & (k + move <= p_max)).all()])
        good = near[holds(near)] if len(near) else near
        if len(good) == 0:
            return tuple(int(x) for x in k)
        k = good[np.argmin(good.sum(axis=1))]
