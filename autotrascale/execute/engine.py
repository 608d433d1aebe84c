"""The port that every engine stands behind, the real Spark one and the simulated one alike."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

from autotrascale.domain.trial import Trial


class Engine(Protocol):
    """Runs one job. `simulated` engines must say so wherever their figures appear."""

    simulated: bool

    def run(self, parallelism: Mapping[str, int], source_rates: Mapping[str, float]) -> Trial:
        """Bring the job to this parallelism (a no-op when it is there already) and measure one window at these rates.

        A job that breaks or falls behind is a verdict of the trial. `EngineError` is for an engine that cannot run.
        """
        ...

    def close(self) -> None:
        """Stop everything that was started; calling it twice is fine."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
