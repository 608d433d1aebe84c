"""Latency, duration and memory of a migration plan (Megaphone §5.3.3). **Simulated**: a model of workers that transfer
state while they process records. It reproduces the shapes of the thesis, not its milliseconds.

    symbol   meaning                                                                        unit
    a        fixed time of a step: the frontier has to reach it                             s
    v        rate at which a worker packs and sends its state, or unpacks it                bytes/s
    ρ        share of its time in which a worker processes records                          [0, 1)
    x        longest time that one worker packs or unpacks in a step, bytes / v             s
    L        longest wait of a record, beyond its wait without a migration                  s
    T        time from the begin of the first step to the end of the last                   s

A worker that packs or unpacks processes no records, so a record waits for a + x at most. The next step begins when the
records that arrived meanwhile, ρ · x, are processed in the worker's spare time: a step lasts a + x / (1 − ρ).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from experiments.state_migration.plans import MovePlan, MoveStep


@dataclass(frozen=True)
class MigratingWorkers:
    """The speed of the simulated workers.

    Args:
        step_seconds: a, default 0.002.
        bytes_per_second: v, default 1e9.
        utilisation: ρ, default 0.25.
    """

    step_seconds: float = 0.002
    bytes_per_second: float = 1e9
    utilisation: float = 0.25

    def __post_init__(self) -> None:
        checks.non_negative("step_seconds", self.step_seconds)
        checks.positive("bytes_per_second", self.bytes_per_second)
        checks.share("utilisation", self.utilisation)
        if self.utilisation == 1:
            raise InputError("utilisation", "leaves no time to move state", seen=1, remedy="give less than 1")


@dataclass(frozen=True)
class MigrationShape:
    """The cost of a migration: duration T and latency L in seconds, and the most bytes in transfer at once."""

    duration: float = 0.0
    latency: float = 0.0
    in_flight: float = 0.0


def simulate(plan: MovePlan, workers: MigratingWorkers) -> MigrationShape:
    """Return the simulated cost of `plan`."""
    packing = [max(_packing_seconds(step, workers).values()) for step in plan]
    spare = 1 - workers.utilisation
    return MigrationShape(
        duration=sum(workers.step_seconds + x / spare for x in packing),
        latency=max((workers.step_seconds + x for x in packing), default=0.0),
        in_flight=max((sum(move.size for move in step) for step in plan), default=0.0),
    )


def _packing_seconds(step: MoveStep, workers: MigratingWorkers) -> dict[int, float]:
    """Return the seconds that each worker packs or unpacks in this step; it sends and receives at the same time."""
    gives: dict[int, float] = defaultdict(float)
    takes: dict[int, float] = defaultdict(float)
    for move in step:
        gives[move.giver] += move.size / workers.bytes_per_second
        takes[move.taker] += move.size / workers.bytes_per_second
    return {worker: max(gives[worker], takes[worker]) for worker in {*gives, *takes}}
