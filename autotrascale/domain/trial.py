"""One run of a job at one parallelism vector, as an engine reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from autotrascale.domain.snapshot import Snapshot

# Where the output of trials goes: counted and dropped, to files of the trial's own, or to the job's own sink.
Sink = Literal["discard", "scratch", "real"]


class Verdict(StrEnum):
    STABLE = "stable"  # the window was steady: its numbers mean what they say
    CANNOT_KEEP_UP = "cannot-keep-up"  # the backlog grows: latency has no steady value
    FAILED = "failed"  # the job or its host broke; `detail` says how


@dataclass(frozen=True)
class Trial:
    """What was asked for, the verdict, and the snapshot where one could be taken."""

    parallelism: Mapping[str, int]
    verdict: Verdict
    snapshot: Snapshot | None = None
    detail: str = ""
    downtime_seconds: float = 0.0  # how long the job stood still to get to this parallelism
