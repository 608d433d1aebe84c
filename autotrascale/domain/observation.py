"""What a running job shows of itself: one look at it, and how a rescale of it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotrascale.domain import checks
from autotrascale.domain.snapshot import Snapshot


@dataclass(frozen=True)
class RescaleTime:
    """What a rescale takes, in seconds: as an engine expects it, or as it was."""

    standstill_seconds: float
    overlap_seconds: float = 0.0  # in which the job runs twice, before and after, while one takes over from the other

    def __post_init__(self) -> None:
        checks.non_negative("standstill_seconds", self.standstill_seconds)
        checks.non_negative("overlap_seconds", self.overlap_seconds)


@dataclass(frozen=True)
class Observation:
    """What can be said of the job at one moment. Times are of the job's own clock, in seconds."""

    at: float
    running: Mapping[str, int] | None  # the parallelism observed; None while the job does not run
    snapshot: Snapshot | None  # of the time since the look before or the last change; None: too little is known
    measured_at: float | None = None  # when the newest of its metrics was made; None: not known
    detail: str = ""  # why there is no snapshot, or why nothing runs
    rescale: RescaleTime | None = None  # what one would take now, as the engine expects; None: it does not say


@dataclass(frozen=True)
class RescaleResult:
    """How a rescale ended. A failed one leaves the job at its old parallelism, or down (`running` None)."""

    at: float
    done: bool
    running: Mapping[str, int] | None
    standstill_seconds: float = 0.0
    phases: Mapping[str, float] | None = None  # seconds of each step, where they are known
    detail: str = ""
    how: str = ""  # overlapped or in place, and why
    overlap_seconds: float = 0.0  # in which the job ran twice
