"""The input and output of the executor-size policies: rules, windows and their peaks, a verdict with its reason."""

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

_GC_WINDOWS = 3  # windows whose collections are averaged, as many as P1 looks at
_MIN_MEASURED_SHARE = 0.5  # of the windows, with measured memory, before memory is given back
PROCESS_TREE = "spark.executor.processTreeMetrics.enabled"
POLLING = "spark.executor.metrics.pollingInterval"
STAGES = "spark.eventLog.logStageExecutorMetrics"
REQUIRED_SETTINGS: Mapping[str, str] = {PROCESS_TREE: "true", POLLING: "5s", STAGES: "true"}
"""Spark settings without which Spark does not report memory."""
SizeFault = Literal["heap", "memory", "cpu", "parallelism", "service", "leak", "idle-slots", "too-much", "none"]


@dataclass(frozen=True)
class ExecutorSizeRules:
    """The thresholds of the policies. Shares are of 1."""

    gc_most: float = 0.10  # share of the tasks' time in collections; from here on the heap is too small
    gc_little: float = 0.08  # share of collections that a larger heap aims at
    heap_full: float = 0.75  # fill from which a heap is full
    memory_full: float = 0.97  # fill from which memory outside the heap may run over
    busy_most: float = 0.75  # busy share from which slots are short
    busy_aim: float = 0.80  # busy share that fewer slots aim at
    busy_little: float = 0.50  # busy share below which slots idle
    computing: float = 0.50  # CPU share from which tasks compute
    waiting: float = 0.20  # CPU, collection and shuffle share below which tasks wait for a service
    factor: float = 1.5  # one step up
    margin: float = 1.05  # over the peak, when something is given back
    worth: float = 0.05  # minimum share to give back, for which a restart pays
    recent: int = 3  # windows that count as recent
    evidence_seconds: float = 86_400.0  # of observation, before anything is given back

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
    """The maxima over the windows with the present sizes. None: a window with tasks did not report the value.

    Memory of executors without work, or with short tasks alone, is not measured; `measured` counts the other windows.
    """

    seconds: float = 0.0
    windows: int = 0
    measured: int = 0
    busy: float | None = 0.0
    latest_gc_shares: tuple[float | None, ...] = ()
    max_gc_share: float | None = 0.0  # of the mean of as many windows in a row
    heap_touched_mb: float = 0.0
    outside_mb: float = 0.0
    memory_mb: float = 0.0
    rate: float = 0.0
    died: bool = False  # an executor or task ended for lack of memory

    @classmethod
    def of(cls, windows: Iterable[ExecutorWindow]) -> WindowPeaks:
        return reduce(cls.add, windows, cls())

    def add(self, window: ExecutorWindow, *, starting: bool = False) -> WindowPeaks:
        """Return the peaks with one more window.

        Args:
            window: the window.
            starting: the executors started in it. Slots catch up, and a growing heap is collected often; neither is
                caused by the load.
        """
        is_idle = not window.run_seconds and window.run_seconds is not None
        has_memory = None not in (window.heap_touched_mb, window.outside_mb, window.memory_mb)
        shares = self.latest_gc_shares
        if not (is_idle or starting):
            shares = (*shares, window.gc_share)[-_GC_WINDOWS:]
        is_whole = len(shares) == _GC_WINDOWS
        return WindowPeaks(
            self.seconds + window.seconds,
            self.windows + 1,
            self.measured + has_memory,
            self.busy if starting else _max_known(self.busy, window.busy),
            shares,
            _max_known(self.max_gc_share, _mean_known(shares)) if is_whole else self.max_gc_share,
            max(self.heap_touched_mb, window.heap_touched_mb or 0.0),
            max(self.outside_mb, window.outside_mb or 0.0),
            max(self.memory_mb, window.memory_mb or 0.0),
            max(self.rate, window.rate or 0.0),
            self.died or has_memory_death(window),
        )

    @property
    def gc_share(self) -> float | None:
        """The largest share of collections over several windows: a single window of a few batches varies by chance."""
        has_whole = len(self.latest_gc_shares) == _GC_WINDOWS
        return self.max_gc_share if has_whole else _mean_known(self.latest_gc_shares)

    @property
    def memory_known(self) -> bool:
        return self.measured >= max(1.0, _MIN_MEASURED_SHARE * self.windows)


@dataclass(frozen=True)
class SizeEvidence:
    """Everything that the policies look at."""

    windows: tuple[ExecutorWindow, ...]  # the latest windows with the present sizes
    peaks: WindowPeaks  # of all windows with the present sizes
    services: ServiceLatencyHistory = field(default_factory=ServiceLatencyHistory)
    raised: int = 0  # times that memory was raised at this load
    leaked: bool = False  # a leak was found in recent windows
    elastic: bool = False  # executors come and go with the load, so slots are not judged
    before: tuple[ExecutorWindow, ...] = ()  # windows with the previous sizes

    @property
    def last(self) -> ExecutorWindow:
        return self.windows[-1]

    @property
    def sizes(self) -> ExecutorSizes:
        return self.last.sizes


@dataclass(frozen=True)
class SizeVerdict:
    """The verdict of a policy: `wanted` of a resource, or None if nothing is to be changed, and the reason."""

    fault: SizeFault
    reason: Reason
    policy: str = ""
    resource: Resource | None = None
    wanted: int = 0

    @property
    def up(self) -> bool:
        return self.policy in ("P1", "P2", "P3", "P4")


def has_memory_death(window: ExecutorWindow) -> bool:
    """Return whether an executor or task ended for lack of memory."""
    return bool(window.out_of_heap) or any(each.reason in ("heap", "memory") for each in window.lost)


def _mean_known(shares: tuple[float | None, ...]) -> float | None:
    known = [share for share in shares if share is not None]
    return None if len(known) < len(shares) else statistics.mean(known) if known else 0.0


def _max_known(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else max(a, b)
