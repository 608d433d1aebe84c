"""Micro-batches, for policies whose papers know queues: stages take turns, and what is late is the whole batch.

| symbol | meaning                                                                        | unit    |
|--------|--------------------------------------------------------------------------------|---------|
| t_i    | how long the stage of operator i lasts, for each second of input               | s per s |
| o, b   | fixed cost of a batch; its length, b = o / (1 − Σ t_i)                          | s       |
| E[T]   | expected latency of a record, 1.5 b: half a batch until its own starts, then b | s       |
| R_max  | what E[T] may be                                                               | s       |

differs: neither DRS nor Elastic Pulsar has such a station. An operator of k = 5 and load 4.9 is a stable queue; its
stage takes 98 % of every second, and leaves the others 2 %. What carries over is each paper's rule of who is given the
next instance, with the latency of the batch in the place of the latency of queues. o grows with the instances, by how
much one window does not say, so the answer is a step: the next window knows better.
"""

from __future__ import annotations

import math

from autotrascale.domain.decision import Number, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.formatting import format_percent, format_seconds
from autotrascale.plan.policies.reasons import (
    explain_demand,
    explain_latency,
    explain_still_behind,
    explain_unreachable_rate,
)
from autotrascale.plan.sizing.floor import compute_batch_latency, floor_micro_batch
from autotrascale.plan.sizing.sizing import Sizing, Vector

STUCK = "the bounds leave no instance that would lower it enough"


def estimate_latency(sized: Sizing, k: Vector) -> float | None:
    """E[T] at k; infinite when batches grow without end, None when o is not known."""
    batch = sized.batch_seconds(k)
    return None if batch is None else compute_batch_latency(batch)


def find_fewest(sized: Sizing, target: Target) -> Vector:
    """DRS's rule: the next instance always to the stage that it shortens most, until E[T] ≤ R_max.

    1.5 o / (1 − Σ t_i) ≤ R_max is 1.5 o / R_max + Σ t_i ≤ 1: the floor's own inequality, over another fixed share. Of
    unknown o, the floor is all there is.
    """
    if sized.fixed_seconds is None:
        return sized.floor
    fixed = min(1.0, compute_batch_latency(sized.fixed_seconds) / target.latency_seconds)
    k = tuple(floor_micro_batch(sized.known_loads, sized.lower, sized.upper, fixed, sized.hot, sized.narrow))
    while (estimate_latency(sized, k) or 0.0) > target.latency_seconds and (
        more := _shortened_most(sized, k)
    ) is not None:
        k = _moved(k, more, 1)  # the floor's slack for roundings is more than a prediction may have
    return k


def explain_parallelism(snapshot: Snapshot, sized: Sizing, k: Vector, target: Target) -> list[Reason]:
    """Why k, stage by stage, and what it predicts."""
    expected = estimate_latency(sized, k)
    if expected is None:
        return [*explain_demand(snapshot, sized, k), explain_unpredictable(), *explain_unreachable_rate(sized)]
    return [*explain_demand(snapshot, sized, k), _length(sized, k), explain_latency(expected, target, STUCK)]


def explain_unpredictable() -> Reason:
    text = "the latency of a batch cannot be predicted: overhead_share and batch_seconds are not both known"
    return Reason("latency-unknown", text)


def move_one_instance(snapshot: Snapshot, sized: Sizing, target: Target, alpha: float) -> tuple[Vector, list[Reason]]:
    """Elastic Pulsar's rule by path (§4.2.2), where all operators are one path: above R_max the longest stage gets one
    more, below α R_max the shortest gives one back, unless that would lead above R_max."""
    k = running = tuple(snapshot.parallelism.values())
    expected = estimate_latency(sized, running)
    late = sized.busy(running) > 1 if expected is None else expected > target.latency_seconds
    if late and (step := _longest(sized, running)) is not None:
        k = _moved(running, step, 1)
    elif expected is not None and expected < alpha * target.latency_seconds:
        step = _shortest(sized, running)
        less = running if step is None else _moved(running, step, -1)
        k = less if (estimate_latency(sized, less) or 0.0) <= target.latency_seconds else running
    found = explain_unpredictable() if expected is None else _as_it_runs(expected, target)
    return k, [*explain_demand(snapshot, sized, k), found, *explain_still_behind(sized, k)]


def _shortened_most(sized: Sizing, k: Vector) -> int | None:
    return max(_shortened(sized, k), key=lambda at: _gain(sized, k, at), default=None)


def _longest(sized: Sizing, k: Vector) -> int | None:
    """Of the stages that another instance shortens."""
    stages = sized.stages(k)
    return max(_shortened(sized, k), key=lambda at: stages[at], default=None)


def _shortened(sized: Sizing, k: Vector) -> list[int]:
    room = [at for at, (own, most) in enumerate(zip(k, sized.upper, strict=True)) if own < most]
    return [at for at in room if _gain(sized, k, at) > 0]


def _gain(sized: Sizing, k: Vector, at: int) -> float:
    """t_i(k_i) − t_i(k_i + 1)."""
    if sized.narrow and sized.narrow[at] is not None:
        return sized.stages(k)[at] - sized.stages(_moved(k, at, 1))[at]
    alone = sized.hot[at] if sized.hot else 0.0
    return (sized.load[at] or 0.0) * (1.0 - alone) / (k[at] * (k[at] + 1))


def _shortest(sized: Sizing, k: Vector) -> int | None:
    stages = sized.stages(k)
    known = [at for at, load in enumerate(sized.load) if load is not None and k[at] > sized.lower[at]]
    return min(known, key=lambda at: stages[at], default=None)


def _moved(k: Vector, at: int, by: int) -> Vector:
    return (*k[:at], k[at] + by, *k[at + 1 :])


def _length(sized: Sizing, k: Vector) -> Reason:
    busy, fixed = sum(sized.stages(k)), sized.fixed_seconds or 0.0
    text = f"the stages of a batch need {format_percent(busy)} of the time, and each batch {format_seconds(fixed)} beside them"
    numbers: dict[str, Number] = {"busy": busy, "fixed_seconds": fixed}
    return Reason("batch", text, numbers)


def _as_it_runs(expected: float, target: Target) -> Reason:
    numbers: dict[str, Number] = {"target_seconds": target.latency_seconds}
    if math.isinf(expected):
        return Reason("latency", "batches grow without end as it runs", numbers)
    text = (
        f"a record takes {format_seconds(expected)} as it runs, the target is {format_seconds(target.latency_seconds)}"
    )
    return Reason("latency", text, numbers | {"predicted_seconds": expected})
