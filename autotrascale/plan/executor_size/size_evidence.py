"""What the policies judge by, and what they answer: rules, windows and their peaks, a verdict with its reason."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal

from autotrascale.domain import checks
from autotrascale.domain.decision import Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.executor_window import ExecutorSizes, ExecutorWindow, Resource
from autotrascale.plan.control.observations.slow_services import ServiceLatencyHistory

_IN_A_ROW = 3  # windows, as many as P1 looks at
_LOOKED = 0.5  # of the windows, at least, before memory is given back
PROCESS_TREE = "spark.executor.processTreeMetrics.enabled"
POLLING = "spark.executor.metrics.pollingInterval"
STAGES = "spark.eventLog.logStageExecutorMetrics"
REQUIRED_SETTINGS: Mapping[str, str] = {PROCESS_TREE: "true", POLLING: "5s", STAGES: "true"}
"""What must be set for Spark to tell of memory."""
SizeFault = Literal["heap", "memory", "cpu", "parallelism", "service", "leak", "idle-slots", "too-much", "none"]


@dataclass(frozen=True)
class ExecutorSizeRules:
    """When a size is wrong. `evidence_seconds` must have been seen before anything is given back."""

    gc_most: float = 0.10
    gc_little: float = 0.08
    heap_full: float = 0.75
    memory_full: float = 0.97
    busy_most: float = 0.75
    busy_aim: float = 0.80
    busy_little: float = 0.50
    computing: float = 0.50
    waiting: float = 0.20
    factor: float = 1.5
    margin: float = 1.05
    worth: float = 0.05
    recent: int = 3
    evidence_seconds: float = 86_400.0

    def __post_init__(self) -> None:
        for name in _SHARES:
            checks.share(name, getattr(self, name))
        checks.positive("evidence_seconds", self.evidence_seconds)
        checks.count("recent", self.recent, least=2)
        for name in ("factor", "margin"):
            checks.positive(name, getattr(self, name))
            if getattr(self, name) <= 1:
                raise InputError(name, "must be above 1", seen=getattr(self, name), remedy="write 1.5 for half more")


_SHARES = (
    "gc_most",
    "gc_little",
    "heap_full",
    "memory_full",
    "busy_most",
    "busy_aim",
    "busy_little",
    "computing",
    "waiting",
    "worth",
)


@dataclass(frozen=True)
class WindowPeaks:
    """The most of any of W, over `seconds`. None: a window with tasks did not know. Nobody looks at the memory of
    executors without work, or with short tasks alone: `looked` are the windows in which somebody did. `collecting`: the
    latest shares of collections, `collected` the most of the mean of as many in a row."""

    seconds: float = 0.0
    windows: int = 0
    looked: int = 0
    busy: float | None = 0.0
    collecting: tuple[float | None, ...] = ()
    collected: float | None = 0.0
    heap_touched_mb: float = 0.0
    outside_mb: float = 0.0
    memory_mb: float = 0.0
    rate: float = 0.0
    died: bool = False  # somebody, for want of memory

    @classmethod
    def of(cls, windows: Iterable[ExecutorWindow]) -> WindowPeaks:
        return reduce(cls.adding, windows, cls())

    def adding(self, window: ExecutorWindow, *, starting: bool = False) -> WindowPeaks:
        """`starting`: slots catch up, and a heap that still grows is collected often; neither is the load's doing."""
        idle = not window.run_seconds and window.run_seconds is not None
        looked = None not in (window.heap_touched_mb, window.outside_mb, window.memory_mb)
        collecting = self.collecting if idle or starting else (*self.collecting, window.gc_share)[-_IN_A_ROW:]
        whole = len(collecting) == _IN_A_ROW
        return WindowPeaks(
            self.seconds + window.seconds,
            self.windows + 1,
            self.looked + looked,
            self.busy if starting else _most(self.busy, window.busy),
            collecting,
            _most(self.collected, _mean(collecting)) if whole else self.collected,
            max(self.heap_touched_mb, window.heap_touched_mb or 0.0),
            max(self.outside_mb, window.outside_mb or 0.0),
            max(self.memory_mb, window.memory_mb or 0.0),
            max(self.rate, window.rate or 0.0),
            self.died or has_memory_death(window),
        )

    @property
    def gc_share(self) -> float | None:
        """That collections took for a while: one window of a few batches may have one more of them than the next."""
        return self.collected if len(self.collecting) == _IN_A_ROW else _mean(self.collecting)

    @property
    def memory_known(self) -> bool:
        return self.looked >= max(1.0, _LOOKED * self.windows)


@dataclass(frozen=True)
class SizeEvidence:
    """What there is to judge by: the latest of W, and the peaks of all. `raised`: how often the heap and the memory
    beside it were raised at this load. `leaked`: a leak was named in recent windows. `elastic`: executors come and go
    with the load, so slots are not judged. `before`: windows with the sizes before these."""

    windows: tuple[ExecutorWindow, ...]
    peaks: WindowPeaks
    services: ServiceLatencyHistory = field(default_factory=ServiceLatencyHistory)
    raised: int = 0
    leaked: bool = False
    elastic: bool = False
    before: tuple[ExecutorWindow, ...] = ()

    @property
    def last(self) -> ExecutorWindow:
        return self.windows[-1]

    @property
    def sizes(self) -> ExecutorSizes:
        return self.last.sizes


@dataclass(frozen=True)
class SizeVerdict:
    """`wanted` of a resource, or None where nothing is to be changed; `reason` says why, with numbers."""

    fault: SizeFault
    reason: Reason
    policy: str = ""
    resource: Resource | None = None
    wanted: int = 0

    @property
    def up(self) -> bool:
        return self.policy in ("P1", "P2", "P3", "P4")


def has_memory_death(window: ExecutorWindow) -> bool:
    """Somebody did, for want of memory."""
    return bool(window.out_of_heap) or any(each.why in ("heap", "memory") for each in window.lost)


def _mean(shares: tuple[float | None, ...]) -> float | None:
    known = [share for share in shares if share is not None]
    return None if len(known) < len(shares) else statistics.mean(known) if known else 0.0


def _most(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else max(a, b)
