"""The port to a job that runs by itself: it can be looked at and rescaled, and time passes for it meanwhile.

`Engine` runs trials at rates of its own choice; here the world chooses the rates. A `LiveJob` may break: it says so in
what it answers, and raises `EngineError` only where nothing can be started at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.topology import Topology


@dataclass(frozen=True)
class Look:
    """What can be said of the job at one moment. Times are of the job's own clock, in seconds."""

    at: float
    running: Mapping[str, int] | None  # the parallelism observed; None while the job does not run
    snapshot: Snapshot | None  # of the time since the look before or the last change; None: too little is known
    measured_at: float | None = None  # when the newest of its metrics was made
    detail: str = ""  # why there is no snapshot, or why nothing runs


@dataclass(frozen=True)
class Rescaled:
    """How a rescale ended. A failed one leaves the job at its old parallelism, or down (`running` None)."""

    at: float
    done: bool
    running: Mapping[str, int] | None
    downtime_seconds: float = 0.0
    phases: Mapping[str, float] | None = None  # seconds of each step, where they are known
    detail: str = ""


class LiveJob(Protocol):
    """`simulated` jobs must say so wherever their figures appear."""

    simulated: bool

    @property
    def name(self) -> str: ...

    @property
    def topology(self) -> Topology: ...

    @property
    def p_max(self) -> int: ...

    def start(self, parallelism: Mapping[str, int]) -> Look:
        """Let it run: where an earlier process left it, state and all, else anew at this parallelism. A job that runs
        already is left as it is."""
        ...

    def look(self) -> Look:
        """At once, without waiting for anything."""
        ...

    def rescale(self, parallelism: Mapping[str, int]) -> Rescaled:
        """To this parallelism with the state kept; returns when the job runs again, or cannot."""
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        ...

    def close(self) -> None:
        """Stop it in good order, so that `start` finds everything again; calling it twice is fine."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
