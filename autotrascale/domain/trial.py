"""One run of a job at one parallelism vector, as an engine reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from autotrascale.domain.snapshot import Snapshot

# Where the output of trials goes: counted and dropped, to files of the trial's own, or to the job's own sink.
Sink = Literal["discard", "scratch", "real"]


class Verdict(StrEnum):
    STABLE = "stable"  # the window was steady: its numbers mean what they say
    CANNOT_KEEP_UP = "cannot-keep-up"  # the backlog grows: latency has no steady value
    FAILED = "failed"  # the job or its host broke; `detail` says how


@dataclass(frozen=True)
class MachinePressure:
    """What the machine kept from the job while it was measured, as shares: `waiting`, of the tasks' time, without a
    core (None: not known); `crowded`, of the time, in which something on the machine had none; `stolen`, of the cores'
    time, given to other machines on the same host. `swapped_mb` is by the second."""

    cores: int
    waiting: float | None = None
    crowded: float = 0.0
    stolen: float = 0.0
    swapped_mb: float = 0.0


@dataclass(frozen=True)
class Trial:
    """What was asked for, the verdict, and the snapshot where one could be taken. A `shortage` says that the machine
    was starved: the numbers say more of it than of the job. A simulated job knows none."""

    parallelism: Mapping[str, int]
    verdict: Verdict
    snapshot: Snapshot | None = None
    detail: str = ""
    standstill_seconds: float = 0.0  # how long the job stood still to get to this parallelism
    shortage: MachinePressure | None = None
