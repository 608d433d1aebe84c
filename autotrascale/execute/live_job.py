"""The port to a job that runs by itself: it can be looked at and rescaled, and time passes for it meanwhile.

`Engine` runs trials at rates of its own choice; here the world chooses the rates. A `LiveJob` may break: it says so in
what it answers, and raises `EngineError` only where nothing can be started at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Protocol, Self

from autotrascale.domain.errors import InputError
from autotrascale.domain.observation import Observation, RescaleResult
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.topology import Topology

__all__ = ["LiveJob", "Observation", "RescaleResult", "make_observation"]


def make_observation(
    at: float, running: Mapping[str, int], take: Callable[[], Snapshot], measured_at: float | None = None
) -> Observation:
    """A look with the snapshot that `take` gives. Numbers that no snapshot can hold are not measured, and that is said:
    a monitor that reports nonsense is no reason to leave a job alone for good."""
    try:
        return Observation(at, running, take(), measured_at)
    except InputError as error:
        return Observation(at, running, None, measured_at, f"what was measured cannot be: {error}")


class LiveJob(Protocol):
    """`simulated` jobs must say so wherever their figures appear."""

    simulated: bool

    @property
    def name(self) -> str: ...

    @property
    def topology(self) -> Topology: ...

    @property
    def p_max(self) -> int: ...

    def start(self, parallelism: Mapping[str, int]) -> Observation:
        """Let it run: where an earlier process left it, state and all, else anew at this parallelism. A job that runs
        already is left as it is."""
        ...

    def look(self) -> Observation:
        """At once, without waiting for anything."""
        ...

    def rescale(self, parallelism: Mapping[str, int]) -> RescaleResult:
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
