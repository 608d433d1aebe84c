"""Times of the stages of a batch: means over a window of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StageTime:
    """One stage of a query's batches. None means not known.

    Args:
        name: name of the stage.
        tasks: tasks of the stage.
        seconds: duration of the stage in a batch, from begin to end.
        work_seconds: useful time of all its tasks in a batch.
        hottest: time of the longest task over the mean of all; tasks of one number are summed over the window.
        reads_source: the stage reads no other stage, so its source determines the number of tasks.
        stateful: the stage keeps state.
        records_in: records that its tasks read in a batch, from a source or a shuffle.
        records_out: records that its tasks wrote in a batch, to a shuffle or a sink.
    """

    name: str
    tasks: int
    seconds: float
    work_seconds: float | None
    hottest: float | None
    reads_source: bool = False
    stateful: bool = False
    records_in: float | None = None
    records_out: float | None = None

    @property
    def true_rate(self) -> float | None:
        """Records per second of useful time of one slot."""
        if self.records_in is None or not self.work_seconds:
            return None
        return self.records_in / self.work_seconds


def compute_work_shares(stages: Sequence[StageTime]) -> list[float | None]:
    """Return the share of each stage in all work; None for all stages when the work of one is not known."""
    known = [stage.work_seconds for stage in stages if stage.work_seconds is not None]
    total = sum(known)
    if len(known) < len(stages) or not total:
        return [None] * len(stages)
    return [work / total for work in known]
