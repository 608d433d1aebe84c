"""Where a batch's time goes, stage by stage: means over a window of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StageTime:
    """One stage of a query's batches. `work_seconds` are its tasks' useful time for each batch, all together;
    `hottest` is what the longest task took over the mean of all, tasks of one number added up over the window.
    Records are those of each batch that its tasks read, from a source or a shuffle, and those that they handed on, to a
    shuffle or a sink. None: not known."""

    name: str
    tasks: int
    seconds: float  # from its begin to its end, for each batch
    work_seconds: float | None
    hottest: float | None
    reads_source: bool = False  # it reads from no other stage, so the source says how many tasks it has
    stateful: bool = False
    records_in: float | None = None
    records_out: float | None = None

    @property
    def true_rate(self) -> float | None:
        """Records for each second that one slot is useful."""
        if self.records_in is None or not self.work_seconds:
            return None
        return self.records_in / self.work_seconds


def compute_work_shares(stages: Sequence[StageTime]) -> list[float | None]:
    """Of all the work."""
    known = [stage.work_seconds for stage in stages if stage.work_seconds is not None]
    total = sum(known)
    if len(known) < len(stages) or not total:
        return [None] * len(stages)
    return [work / total for work in known]
