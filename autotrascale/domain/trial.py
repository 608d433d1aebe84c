"""One run of a job at one parallelism vector, as an engine reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from autotrascale.domain.snapshot import Snapshot

# Destination of a trial's output: counted and dropped, files of the trial, or the sink of the job.
Sink = Literal["discard", "scratch", "real"]


class Verdict(StrEnum):
    """The judgement of a trial."""

    STABLE = "stable"  # the window was steady, so its numbers are valid
    CANNOT_KEEP_UP = "cannot-keep-up"  # the backlog grows, so latency has no steady value
    FAILED = "failed"  # the job or its host broke; `detail` says how


@dataclass(frozen=True)
class MachinePressure:
    """Resources that the machine denied the job during a measurement.

    Args:
        cores: cores of the machine.
        waiting: share of the tasks' time without a core; None when it is not known.
        crowded: share of the time in which any process of the machine had no core, default 0.
        stolen: share of the cores' time that the host gave to other machines, default 0.
        swapped_mb: MB swapped per second, default 0.
    """

    cores: int
    waiting: float | None = None
    crowded: float = 0.0
    stolen: float = 0.0
    swapped_mb: float = 0.0


@dataclass(frozen=True)
class Trial:
    """The result of one run.

    Args:
        parallelism: requested instances by operator.
        verdict: judgement of the run.
        snapshot: measurements; None when there are none.
        detail: explanation of a failure, default none.
        standstill_seconds: time without output while the job changed to this parallelism, default 0.
        shortage: pressure on a starved machine, whose measurements say more about the machine than about the job.
            None on a healthy machine and for a simulated job.
    """

    parallelism: Mapping[str, int]
    verdict: Verdict
    snapshot: Snapshot | None = None
    detail: str = ""
    standstill_seconds: float = 0.0
    shortage: MachinePressure | None = None
