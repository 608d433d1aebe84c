"""The rules of DRS and Elastic Pulsar for micro-batches, where stages take turns and the whole batch is late.

| symbol | meaning                                                                          | unit    |
|--------|----------------------------------------------------------------------------------|---------|
| t_i    | duration of the stage of operator i for each second of input                     | s per s |
| o, b   | fixed cost of a batch; its length, b = o / (1 − Σ t_i)                            | s       |
| E[T]   | expected latency of a record, 1.5 b: half a batch until its own starts, then b   | s       |
| R_max  | maximum of E[T]                                                                  | s       |

differs: neither paper has such a station. An operator of k = 5 and load 4.9 is a stable queue; its stage takes 98 % of
every second and leaves 2 % to the other stages. Each paper's rule for the next instance stays, with the latency of the
batch instead of the latency of queues. o grows with the instances, by how much one window does not say. Therefore the
answer is one step, and the next window corrects it.
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


def estimate_latency(sized: Sizing, k: Vector) -> float | None:
    """Return E[T] at `k` in seconds; infinite if batches grow without end, None if o is unknown."""
    batch = sized.batch_seconds(k)
    return None if batch is None else compute_batch_latency(batch)


def find_fewest(sized: Sizing, target: Target) -> Vector:
    """Apply DRS's rule: give the next instance to the stage that it shortens most, until E[T] ≤ R_max.

    1.5 o / (1 − Σ t_i) ≤ R_max is 1.5 o / R_max + Σ t_i ≤ 1, the floor's own inequality with another fixed share. If o
    is unknown, the answer is the floor.
    """
    if sized.fixed_seconds is None:
        return sized.floor
    fixed = min(1.0, compute_batch_latency(sized.fixed_seconds) / target.latency_seconds)
    k = tuple(floor_micro_batch(sized.known_loads, sized.lower, sized.upper, fixed, sized.hot, sized.narrow))
    while (estimate_latency(sized, k) or 0.0) > target.latency_seconds:  # the floor has some slack for rounding
        best = _find_most_shortened(sized, k)
        if best is None:
            break
        k = _move(k, best, 1)
    return k


def explain_parallelism(snapshot: Snapshot, sized: Sizing, k: Vector, target: Target) -> list[Reason]:
    """Explain `k`, stage by stage, and the latency that is expected of it."""
    expected = estimate_latency(sized, k)
    if expected is None:
        return [*explain_demand(snapshot, sized, k), _explain_unpredictable(), *explain_unreachable_rate(sized)]
    stuck = "the bounds leave no instance that lowers it enough"
    return [*explain_demand(snapshot, sized, k), _explain_length(sized, k), explain_latency(expected, target, stuck)]


def move_one_instance(snapshot: Snapshot, sized: Sizing, target: Target, alpha: float) -> tuple[Vector, list[Reason]]:
    """Apply Elastic Pulsar's rule by path (§4.2.2), where all operators are one path.

    Above R_max the longest stage gets one instance more. Below `alpha` · R_max the shortest stage gives one back,
    unless E[T] would then exceed R_max.
    """
    k = running = tuple(snapshot.parallelism.values())
    expected = estimate_latency(sized, running)
    is_late = sized.busy(running) > 1 if expected is None else expected > target.latency_seconds
    if is_late and (longest := _find_longest(sized, running)) is not None:
        k = _move(running, longest, 1)
    elif expected is not None and expected < alpha * target.latency_seconds:
        shortest = _find_shortest(sized, running)
        fewer = running if shortest is None else _move(running, shortest, -1)
        k = fewer if (estimate_latency(sized, fewer) or 0.0) <= target.latency_seconds else running
    latency = _explain_unpredictable() if expected is None else _explain_running(expected, target)
    return k, [*explain_demand(snapshot, sized, k), latency, *explain_still_behind(sized, k)]


def _find_most_shortened(sized: Sizing, k: Vector) -> int | None:
    return max(_find_shortened(sized, k), key=lambda at: _gain(sized, k, at), default=None)


def _find_longest(sized: Sizing, k: Vector) -> int | None:
    stages = sized.stages(k)
    return max(_find_shortened(sized, k), key=lambda at: stages[at], default=None)


def _find_shortened(sized: Sizing, k: Vector) -> list[int]:
    """Return the stages that one more instance shortens."""
    growable = [at for at, (own, most) in enumerate(zip(k, sized.upper, strict=True)) if own < most]
    return [at for at in growable if _gain(sized, k, at) > 0]


def _gain(sized: Sizing, k: Vector, at: int) -> float:
    """Return t_i(k_i) − t_i(k_i + 1)."""
    if sized.narrow and sized.narrow[at] is not None:
        return sized.stages(k)[at] - sized.stages(_move(k, at, 1))[at]
    alone = sized.hot[at] if sized.hot else 0.0
    return (sized.load[at] or 0.0) * (1.0 - alone) / (k[at] * (k[at] + 1))


def _find_shortest(sized: Sizing, k: Vector) -> int | None:
    stages = sized.stages(k)
    known = [at for at, load in enumerate(sized.load) if load is not None and k[at] > sized.lower[at]]
    return min(known, key=lambda at: stages[at], default=None)


def _move(k: Vector, at: int, by: int) -> Vector:
    return (*k[:at], k[at] + by, *k[at + 1 :])


def _explain_unpredictable() -> Reason:
    text = "The latency cannot be predicted: overhead_share and batch_seconds are not both known."
    return Reason("latency-unknown", text)


def _explain_length(sized: Sizing, k: Vector) -> Reason:
    busy, fixed = sum(sized.stages(k)), sized.fixed_seconds or 0.0
    text = f"The stages of a batch take {format_percent(busy)} of the time, its fixed cost {format_seconds(fixed)}."
    return Reason("batch", text, {"busy": busy, "fixed_seconds": fixed})


def _explain_running(expected: float, target: Target) -> Reason:
    numbers: dict[str, Number] = {"target_seconds": target.latency_seconds}
    if math.isinf(expected):
        return Reason("latency", "Batches grow without end at the running parallelism.", numbers)
    text = (
        f"Latency of the running parallelism {format_seconds(expected)} "
        f"(target {format_seconds(target.latency_seconds)})."
    )
    return Reason("latency", text, numbers | {"predicted_seconds": expected})
