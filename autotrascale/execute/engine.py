"""The port to an engine that runs trials. The Spark engine and the simulator implement it."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

from autotrascale.domain.trial import Trial


class Engine(Protocol):
    """An engine that runs one job. Figures of a `simulated` engine must be marked as simulated wherever they appear."""

    simulated: bool

    def run(self, parallelism: Mapping[str, int], source_rates: Mapping[str, float]) -> Trial:
        """Bring the job to `parallelism`, if it runs otherwise, and measure one window at `source_rates` (records/s).

        A job that breaks or falls behind is a verdict of the trial. `EngineError` means that the engine cannot run.
        """
        ...

    def close(self) -> None:
        """Stop everything that the engine started. A second call does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
