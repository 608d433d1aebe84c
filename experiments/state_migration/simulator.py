"""What a plan does to latency, how long it takes, and how much is under way at once (Megaphone §5.3.3). **Simulated**:
a model of workers that give and take while they work, for the shapes and not for the milliseconds.

    symbol   meaning                                                                        unit
    a        what a step takes whatever is in it: the frontier has to come to it            s
    v        how fast a worker packs and sends its state, or takes it in                    bytes/s
    ρ        share of its time that a worker works on records                               0 … 1
    x        the most seconds that one worker packs or unpacks in a step, bytes / v         s
    L        longest time that a record waits, beyond what it waits without a move          s
    T        from the begin of the first step to the end of the last                        s

A worker that packs or unpacks does nothing else, so a record waits for a + x at most. The next step is agreed on once
the records that came meanwhile, ρ · x, are worked off with what the worker has left: a step lasts a + x / (1 - ρ).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from experiments.state_migration.plans import MovePlan, MoveStep


@dataclass(frozen=True)
class MigratingWorkers:
    step_seconds: float = 0.002  # a
    bytes_per_second: float = 1e9  # v
    utilisation: float = 0.25  # ρ

    def __post_init__(self) -> None:
        checks.non_negative("step_seconds", self.step_seconds)
        checks.positive("bytes_per_second", self.bytes_per_second)
        checks.share("utilisation", self.utilisation)
        if self.utilisation == 1:
            raise InputError("utilisation", "leaves no time to move anything", seen=1, remedy="give less than 1")


@dataclass(frozen=True)
class MigrationShape:
    """What a migration looks like from outside."""

    duration: float = 0.0  # T
    latency: float = 0.0  # L
    in_flight: float = 0.0  # bytes: the most that are packed at once, beside the state itself


def simulate(plan: MovePlan, machine: MigratingWorkers) -> MigrationShape:
    packing = [max(_busy(step, machine).values()) for step in plan]
    spare = 1 - machine.utilisation
    return MigrationShape(
        duration=sum(machine.step_seconds + x / spare for x in packing),
        latency=max((machine.step_seconds + x for x in packing), default=0.0),
        in_flight=max((sum(move.size for move in step) for step in plan), default=0.0),
    )


def _busy(step: MoveStep, machine: MigratingWorkers) -> dict[int, float]:
    """Seconds of each worker that gives or takes."""
    gives: dict[int, float] = defaultdict(float)
    takes: dict[int, float] = defaultdict(float)
    for move in step:
        gives[move.giver] += move.size / machine.bytes_per_second
        takes[move.taker] += move.size / machine.bytes_per_second
    return {worker: max(gives[worker], takes[worker]) for worker in {*gives, *takes}}
