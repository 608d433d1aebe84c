"""Observations of a running job, and the results of its rescales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotrascale.domain import checks
from autotrascale.domain.snapshot import Snapshot


@dataclass(frozen=True)
class RescaleTime:
    """The duration of a rescale in seconds, expected or measured."""

    standstill_seconds: float  # the job emits no output
    overlap_seconds: float = 0.0  # the job runs twice, until the second query takes over from the first

    def __post_init__(self) -> None:
        checks.non_negative("standstill_seconds", self.standstill_seconds)
        checks.non_negative("overlap_seconds", self.overlap_seconds)


@dataclass(frozen=True)
class Observation:
    """The state of a job at one moment. Times are seconds on the job's own clock."""

    at: float
    running: Mapping[str, int] | None  # instances by operator; None: the job does not run
    snapshot: Snapshot | None  # covers the time since the previous observation or rescale; None: too little is known
    measured_at: float | None = None  # time of the newest metric; None: unknown
    detail: str = ""  # why the snapshot is missing, or why the job does not run
    rescale: RescaleTime | None = None  # the engine's estimate for a rescale now; None: no estimate


@dataclass(frozen=True)
class RescaleResult:
    """The result of a rescale. After a failure the job runs at its old parallelism, or is down (`running` is None)."""

    at: float
    done: bool
    running: Mapping[str, int] | None
    standstill_seconds: float = 0.0
    phases: Mapping[str, float] | None = None  # seconds of each step, if known
    detail: str = ""  # why the rescale failed
    how: str = ""  # blue-green or in place, and why
    overlap_seconds: float = 0.0
