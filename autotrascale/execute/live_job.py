"""The port to a job that runs on its own: it can be observed and rescaled while time passes.

A trial `Engine` sets the input rate; for a `LiveJob` the world sets it. A job that breaks reports this in its
observations. `EngineError` means that nothing can be started at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

from autotrascale.domain.observation import Observation, RescaleResult
from autotrascale.domain.topology import Topology


class LiveJob(Protocol):
    """A running job. Figures of a `simulated` job must be marked as simulated wherever they appear."""

    simulated: bool

    @property
    def name(self) -> str: ...

    @property
    def topology(self) -> Topology: ...

    @property
    def p_max(self) -> int: ...

    def start(self, parallelism: Mapping[str, int]) -> Observation:
        """Start the job and return a first observation.

        A job that an earlier process left continues with its parallelism and state. Any other job starts at
        `parallelism`. A running job is not touched.
        """
        ...

    def observe(self) -> Observation:
        """Observe the job without waiting."""
        ...

    def rescale(self, parallelism: Mapping[str, int]) -> RescaleResult:
        """Rescale the job with its state. Return when it runs again, or cannot."""
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        ...

    def close(self) -> None:
        """Stop the job so that `start` can continue it. A second call does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
