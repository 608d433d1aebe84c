"""What latency ought to do, before anything is measured: the shapes that the surrogate starts from.

Both engines slow down as their operators get busy, in a way that the loads predict up to a factor. The factor, and
how far the shape is to be trusted, the surrogate learns from the runs.

    symbol   meaning                                                       unit
    load_i   instances that operator i needs at 100 % useful time (§2)     instances
    ρ_i      load_i / k_i, share of its time an instance is busy
    h        fixed overhead share of a micro-batch
    m(k)     log of the expected latency, up to a constant                 log s
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autotrascale.plan.sizing.sizing import Sizing

Floats = NDArray[np.float64]

# Queues have no finite length at ρ = 1. A job that saturates is a failed run; the shape only has to stay finite.
_BUSIEST = 0.98
# A batch whose overhead nobody measured still has some.
_LEAST_OVERHEAD = 0.05


def shapes(sizing: Sizing, ks: ArrayLike) -> Floats:
    """m(k) for every expectation that applies, a column each: one where the execution model is known, else both."""
    k = np.asarray(ks, dtype=float)
    known = np.asarray(sizing.hottest, dtype=float) if sizing.measured else None
    columns = []
    if sizing.execution != "micro-batch":
        columns.append(queueing(_or(known, pipelined_loads(sizing.floor)), k))
    if sizing.execution in (None, "micro-batch"):
        columns.append(batching(_or(known, micro_batch_loads(sizing.floor, sizing.overhead)), k))
    return np.stack(columns, axis=-1)


def queueing(loads: Floats, k: Floats) -> Floats:
    """Pipelined operators: service plus waiting, each station by Sakasegawa's M/M/k approximation, service times equal.

    W_i / s_i ≈ ρ_i^(√(2(k_i + 1)) − 1) / (k_i (1 − ρ_i))
    """
    rho = np.minimum(loads / k, _BUSIEST)
    waiting = rho ** (np.sqrt(2 * (k + 1)) - 1) / (k * (1 - rho))
    return np.asarray(np.log((1 + waiting).sum(axis=-1)))


def batching(loads: Floats, k: Floats) -> Floats:
    """Micro-batches: latency ≈ 1.5 o(k) / (1 − Σ load_i / k_i), o(k) taken as constant."""
    busy = np.minimum((loads / k).sum(axis=-1), _BUSIEST)
    return np.asarray(-np.log(1 - busy))


def pipelined_loads(floor: Sequence[int]) -> Floats:
    """k'_i = ceil(load_i), so on average the load lies half an instance below it."""
    return np.asarray(floor, dtype=float) - 0.5


def micro_batch_loads(floor: Sequence[int], overhead: float) -> Floats:
    """k'_i ∝ √load_i with h + Σ load_i/k'_i ≈ 1, solved for the loads: load_i = (1 − h) k'_i² / Σ k'."""
    k = np.asarray(floor, dtype=float)
    return np.asarray((1 - max(overhead, _LEAST_OVERHEAD)) * k**2 / k.sum())


def _or(known: Floats | None, guess: Floats) -> Floats:
    return guess if known is None else known
