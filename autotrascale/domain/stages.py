"""Where a batch's time goes, stage by stage: means over a window of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StageTime:
    """One stage of a query's batches. `work_seconds` are its tasks' useful time for each batch, all together;
    `hottest` is what the longest task took over the mean of all, tasks of one number added up over the window.
    None: not known."""

    name: str
    tasks: int
    seconds: float  # from its begin to its end, for each batch
    work_seconds: float | None
    hottest: float | None
    reads_source: bool = False  # it reads from no other stage, so the source says how many tasks it has
    stateful: bool = False


def shares(stages: Sequence[StageTime]) -> list[float | None]:
    """Of all the work."""
    known = [stage.work_seconds for stage in stages if stage.work_seconds is not None]
    total = sum(known)
    if len(known) < len(stages) or not total:
        return [None] * len(stages)
    return [work / total for work in known]
