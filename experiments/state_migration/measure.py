"""Migrations of the thesis' key count: bins vary, keys vary, or both (Hoffmann, Megaphone, §5.3.3, Figs. 5.15 to 5.19).

Simulated. As in the thesis, half of the workers give half of their bins to the other half.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.state_migration.bins import Move, list_moves, spread_bins
from experiments.state_migration.plans import MovePlan, plan_all_at_once, plan_batched, plan_fluid
from experiments.state_migration.simulator import MigratingWorkers, simulate

BYTES_PER_KEY = 8  # the thesis moves 8 GB of one billion keys (Fig. 5.1)
WORKERS = 4
MILLION = 10**6
PLANS: Mapping[str, Callable[[Sequence[Move]], MovePlan]] = {
    "all-at-once": plan_all_at_once,
    "batched": plan_batched,
    "fluid": plan_fluid,
}
BINS_VARY = [(2**power, 4096 * MILLION) for power in range(4, 15, 2)]  # Fig. 5.15
KEYS_VARY = [(4096, 256 * MILLION * 2**power) for power in range(8)]  # Fig. 5.16
BOTH_VARY = [(64 * 2**power, 256 * MILLION * 2**power) for power in range(8)]  # Fig. 5.17: 4 million keys in a bin
MEMORY = [(4096, 16_384 * MILLION)]  # Fig. 5.19


def cases() -> Sequence[Mapping[str, Any]]:
    """Return one case for each number of bins and keys of the thesis."""
    sizes = dict.fromkeys([*BINS_VARY, *KEYS_VARY, *BOTH_VARY, *MEMORY])
    return [{"bins": bins, "keys": keys} for bins, keys in sizes]


def measure(case: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return latency and duration in seconds, and bytes in transfer, of each plan."""
    moves = half_gives_half(case["bins"], float(case["keys"] * BYTES_PER_KEY))
    shapes = {name: simulate(plan(moves), MigratingWorkers()) for name, plan in PLANS.items()}
    return {
        name: {"latency": shape.latency, "duration": shape.duration, "in_flight": shape.in_flight}
        for name, shape in shapes.items()
    }


def half_gives_half(bins: int, state_bytes: float) -> list[Move]:
    """Return the moves of a migration in which half of the workers give half of their bins."""
    before = spread_bins(bins, WORKERS)
    half = WORKERS // 2
    after = tuple(
        owner + half if owner < half and b % (2 * WORKERS) < WORKERS else owner for b, owner in enumerate(before)
    )
    return list(list_moves(before, after, [state_bytes / bins] * bins))
