"""The size of an application's executors, and their use in one window of time.

    heap        memory of a JVM: Java objects, execution and storage memory of Spark          spark.executor.memory
    overhead    other memory of the container: Python workers, RocksDB, threads, metaspace    …memoryOverhead
    memory      heap + overhead, which the cluster charges for one executor
    cores       tasks that one executor runs at once

All executors of an application have the same size, which must suit the executor that needs most. So a number describes
the executor with the highest use, unless it is called a sum. None means not known, never zero. 1 MB is 2²⁰ bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Literal

from autotrascale.domain import checks

Resource = Literal["heap", "overhead", "cores", "executors"]
RESOURCES: tuple[Resource, ...] = ("heap", "overhead", "cores", "executors")
MEMORY: tuple[Resource, ...] = ("heap", "overhead")

LossReason = Literal["heap", "memory", "released", "unknown"]
"""The cause of an executor's end: its heap was full, the cluster or the kernel killed it for its memory, it was
released, or Spark names no cause."""


@dataclass(frozen=True)
class ExecutorSizes:
    """Memory in MB and cores of each executor, and the number of executors."""

    heap_mb: int
    overhead_mb: int
    cores: int
    executors: int

    def __post_init__(self) -> None:
        checks.count("heap_mb", self.heap_mb)
        checks.count("overhead_mb", self.overhead_mb, least=0)
        checks.count("cores", self.cores)
        checks.count("executors", self.executors)

    @property
    def memory_mb(self) -> int:
        """Memory of one executor that the cluster charges for."""
        return self.heap_mb + self.overhead_mb

    @property
    def slots(self) -> int:
        """Tasks that all executors run at once."""
        return self.cores * self.executors

    def of(self, resource: Resource) -> int:
        """Return the value of `resource`."""
        return int(getattr(self, _FIELD[resource]))

    def with_(self, resource: Resource, value: int) -> ExecutorSizes:
        """Return these sizes with another value of `resource`."""
        return replace(self, **{_FIELD[resource]: value})


_FIELD = {"heap": "heap_mb", "overhead": "overhead_mb", "cores": "cores", "executors": "executors"}


@dataclass(frozen=True)
class LostExecutor:
    """An executor that ended, the cause, and Spark's message."""

    executor: str
    reason: LossReason
    message: str = ""


@dataclass(frozen=True)
class ExecutorWindow:
    """Measurements of one window of `seconds` that started at `began`, in Unix seconds.

    Sums over the tasks that ended in the window, on all executors:

    run          time in which a task held a slot and ran
    gc           part of `run` in which the JVM collected garbage
    fetching     part of `run` in which a task waited for shuffled input
    cpu          part of `run` in which JVM threads computed; Spark does not report the CPU time of Python workers
    queued       time in which executor threads waited for a core, measured on their machines
    collections  young and full garbage collections, counted in each JVM

    Memory of the executor with the highest use:

    heap_used    used heap, the maximum of the window; `heap_least` is the minimum, about the heap after a collection
    heap_touched resident memory of the JVM without the part outside the heap: pages of the heap that were ever used
    memory       resident memory of the whole process tree; `outside` is its part outside the heap

    Of the queries: `rate` of records that arrived and `done` of records that were processed, both per second; `behind`,
    the records that waited at each batch, oldest first. `out_of_heap` counts tasks that failed for lack of heap.
    """

    application: str
    began: float
    seconds: float
    sizes: ExecutorSizes
    batches: int = 0
    tasks: int = 0
    run_seconds: float | None = None
    gc_seconds: float | None = None
    fetching_seconds: float | None = None
    cpu_seconds: float | None = None
    queued_seconds: float | None = None
    young_collections: int | None = None
    full_collections: int | None = None
    spilled_mb: float | None = None
    execution_mb: float | None = None
    heap_used_mb: float | None = None
    heap_least_mb: float | None = None
    heap_touched_mb: float | None = None
    jvm_mb: float | None = None
    python_mb: float | None = None
    memory_mb: float | None = None
    outside_mb: float | None = None
    state_mb: float | None = None
    rate: float | None = None
    done: float | None = None
    behind: tuple[float, ...] = ()
    batch_seconds: tuple[float, ...] = ()
    lost: tuple[LostExecutor, ...] = ()
    out_of_heap: int = 0

    def __post_init__(self) -> None:
        checks.positive("seconds", self.seconds)
        for name in MEASURED:
            checks.optional(checks.non_negative, name, getattr(self, name))

    @cached_property
    def busy(self) -> float | None:
        """Share of the slots' time in which a task ran; slightly above 1 when tasks started before the window."""
        return None if self.run_seconds is None else self.run_seconds / (self.seconds * self.sizes.slots)

    @cached_property
    def gc_share(self) -> float | None:
        """Share of the run time in collections. A pause stops all tasks of a JVM, and each task counts it."""
        if self.gc_seconds is None or not self.run_seconds:
            return None
        return self.gc_seconds / self.run_seconds

    @cached_property
    def cpu_share(self) -> float | None:
        """Share of the run time without collections in which tasks had a core or waited for one."""
        if self.run_seconds is None or self.gc_seconds is None or self.cpu_seconds is None:
            return None
        worked = self.run_seconds - self.gc_seconds
        return min(1.0, (self.cpu_seconds + (self.queued_seconds or 0.0)) / worked) if worked > 0 else None

    @property
    def idle_share(self) -> float | None:
        """Share of the run time without CPU, collection or shuffle: tasks waited for an external service."""
        used = (self.cpu_seconds, self.gc_seconds, self.fetching_seconds)
        if None in used or not self.run_seconds:
            return None
        return max(0.0, 1 - (sum(each or 0.0 for each in used) + (self.queued_seconds or 0.0)) / self.run_seconds)

    @property
    def python(self) -> bool:
        """True when Python workers do part of the work; their CPU time is not known."""
        return bool(self.python_mb)


MEASURED = tuple(each.name for each in fields(ExecutorWindow) if each.default is None)
