"""How large the executors of an application are, and what they used of it in one window of time.

    heap      of each JVM: Java objects, Spark's execution and storage memory                     spark.executor.memory
    beside    everything else in the same container: Python workers, RocksDB, threads, metaspace  …memoryOverhead
    memory    heap + beside: what the cluster charges for one executor
    cores     tasks that one executor runs at once

All numbers are of the hungriest executor, unless they say that they are sums over all: executors of one application
are of one size, and the size has to suit the one that needs most. What is not known is None and never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from autotrascale.domain import checks

Resource = Literal["heap", "beside", "cores", "executors"]
RESOURCES: tuple[Resource, ...] = ("heap", "beside", "cores", "executors")
MEMORY: tuple[Resource, ...] = ("heap", "beside")

LossReason = Literal["heap", "memory", "released", "unknown"]
"""Why an executor went: its heap was full, the cluster or the kernel killed it for its memory, it was given back, or
nobody said."""


@dataclass(frozen=True)
class ExecutorSizes:
    """Of each executor, and how many of them. Memory in MB, as Spark counts: 1 MB = 2²⁰ bytes."""

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
        return self.heap_mb + self.overhead_mb

    @property
    def slots(self) -> int:
        return self.cores * self.executors

    def of(self, resource: Resource) -> int:
        return int(getattr(self, _FIELD[resource]))

    def with_(self, resource: Resource, value: int) -> ExecutorSizes:
        return replace(self, **{_FIELD[resource]: value})


_FIELD = {"heap": "heap_mb", "beside": "overhead_mb", "cores": "cores", "executors": "executors"}


@dataclass(frozen=True)
class LostExecutor:
    """An executor that went, and what Spark said of it."""

    executor: str
    why: LossReason
    said: str = ""


@dataclass(frozen=True)
class ExecutorWindow:
    """`began` in Unix seconds. Of the tasks that ended in it, sums over all executors:

    run          time in which they held a slot and ran, of which
    gc           they stood still while their JVM collected garbage
    fetching     they waited for shuffled input
    cpu          their JVM threads computed; what Python workers compute is not in it, since Spark does not say
    queued       threads of the executors stood in line for a core, where somebody looked at their machines
    garbage      collections, young and full, counted in each JVM and added up

    Memory, each the most that was seen of one executor (`heap_least_mb` the least: about what stays after a
    collection): `heap_touched_mb` is the JVM's resident memory less what is not heap, the pages of the heap that it
    ever used; `memory_mb` is the resident memory of the whole process tree, `outside_mb` what of it is not heap. Of
    the queries: `rate` of records that came, `done` those that were processed, both in a second, `behind` those that
    wait at each batch, oldest first.
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
    out_of_heap: int = 0  # tasks that failed for want of heap

    def __post_init__(self) -> None:
        checks.positive("seconds", self.seconds)
        for name in MEASURED:
            checks.optional(checks.non_negative, name, getattr(self, name))

    @cached_property
    def busy(self) -> float | None:
        """Share of the slots' time in which a task ran. Just above 1 where tasks began before the window."""
        return None if self.run_seconds is None else self.run_seconds / (self.seconds * self.sizes.slots)

    @cached_property
    def gc_share(self) -> float | None:
        """Of the time that tasks ran: a pause stops all tasks of a JVM, and each of them counts it."""
        return self._of_run(self.gc_seconds)

    @cached_property
    def cpu_share(self) -> float | None:
        """Of the time that tasks ran and were not stopped by a collection, for which a CPU would not help: what they
        had a core for, or stood in line for one."""
        if self.run_seconds is None or self.gc_seconds is None or self.cpu_seconds is None:
            return None
        worked = self.run_seconds - self.gc_seconds
        return min(1.0, (self.cpu_seconds + (self.queued_seconds or 0.0)) / worked) if worked > 0 else None

    @property
    def idle_share(self) -> float | None:
        """… in which neither core, collection nor shuffle had them: they waited for something outside."""
        did = (self.cpu_seconds, self.gc_seconds, self.fetching_seconds)
        if None in did or not self.run_seconds:
            return None
        return max(0.0, 1 - (sum(each or 0.0 for each in did) + (self.queued_seconds or 0.0)) / self.run_seconds)

    @property
    def python(self) -> bool:
        """Part of the work is done in Python workers, of whose CPU time nothing is known."""
        return bool(self.python_mb)

    @property
    def cpu_used(self) -> float | None:
        """Cores of one executor that were at work, on average."""
        return None if self.cpu_seconds is None else self.cpu_seconds / (self.seconds * self.sizes.executors)

    def _of_run(self, seconds: float | None) -> float | None:
        return None if seconds is None or not self.run_seconds else seconds / self.run_seconds


MEASURED = (
    "run_seconds",
    "gc_seconds",
    "fetching_seconds",
    "cpu_seconds",
    "queued_seconds",
    "young_collections",
    "full_collections",
    "spilled_mb",
    "execution_mb",
    "heap_used_mb",
    "heap_least_mb",
    "heap_touched_mb",
    "jvm_mb",
    "python_mb",
    "memory_mb",
    "outside_mb",
    "state_mb",
    "rate",
    "done",
)
