"""Usage of an application's executors, window by window. The same functions measure a running job and its archive.

`ExecutorUsage` collects facts from events as they come. `measure_executor_window` measures the facts of a time span.

    symbol     meaning                                                                            unit
    R, J       resident memory of a JVM; of it memory that is no heap (metaspace, code, buffers)  bytes
    touched    min(R − J, heap): pages of the heap that the JVM ever used                         MB
    n_b, n_e   collections of a JVM since it began, before the window and at its end
    N_i, q_i   records that batch i took, and that its sources held back when it was planned
    behind     N_i + q_i: records that waited when it was planned, of all queries together

Spark writes peaks of memory with each task that ends and each stage that completes, zero where it did not sample in
between. `heap_touched_mb` stands for the paper's heap-committed. differs: Spark does not report committed memory.
Committed memory that was never touched is not needed. Memory of the JVM outside the heap that it does not report
(stacks, tables of the collector) counts as heap, which errs towards a larger heap.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from msgspec import Struct

from autotrascale.analyze.executor_conf import ExecutorConf, explain_loss
from autotrascale.analyze.progress_records import read_report, read_states
from autotrascale.analyze.sums import none_if_unknown
from autotrascale.domain.executor_window import ExecutorWindow, LostExecutor
from autotrascale.monitor.eventlog import events
from autotrascale.monitor.eventlog.events import ExecutorMemory

MB = 2**20
DRIVER = "driver"
_LONGEST = 60  # times the length of a window, after which one without a batch is over all the same
_ALIKE = 0.1  # relative difference between the JVM and a process that it just started
_MOST_KEPT = 10_000
_MOST_FACTS = 1_000_000  # of one window: more facts are not counted
_NO_HEAP = re.compile(r"OutOfMemoryError|SparkOutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY")


@dataclass(frozen=True, slots=True)
class TaskUse:
    """A task that ended, successful or not. `spilled` and `execution` are bytes."""

    at_ms: int
    executor: str
    run_ms: int | None = None
    gc_ms: int | None = None
    fetching_ms: int | None = None
    cpu_ns: int | None = None
    spilled: int | None = None
    execution: int | None = None
    out_of_heap: bool = False


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The peaks of one executor's memory at a moment."""

    at_ms: int
    executor: str
    memory: ExecutorMemory


@dataclass(frozen=True, slots=True)
class BatchUse:
    """A committed batch: its time, its records, the records held back and the bytes of state."""

    at_ms: int  # when it was done
    began_ms: int
    run: str
    seconds: float
    records: int
    held_back: int | None
    state: int | None  # bytes


@dataclass(frozen=True, slots=True)
class ExecutorCount:
    """The number of executors from this moment on, and the most cores of one. `gone` is the executor that just went."""

    at_ms: int
    executors: int
    cores: int
    gone: LostExecutor | None = None


@dataclass(frozen=True, slots=True)
class QueuedUse:
    """The time for which threads of the executors have waited for a core until this moment, all together.

    Spark does not report this time. A reader of the hosts' counters does (`monitor/host_counters.py`).
    """

    at_ms: int
    seconds: float


Use = QueuedUse | TaskUse | MemoryUse | BatchUse | ExecutorCount
_Kind = TypeVar("_Kind", QueuedUse, TaskUse, MemoryUse, BatchUse, ExecutorCount)


class ExecutorUsage:
    """The executors of one application. Facts are kept for the open window, and dropped with it."""

    def __init__(self) -> None:
        self.application = ""
        self.conf = ExecutorConf()
        self.facts: list[Use] = []
        self._before: list[Use] = []  # how things stood when the window began
        self._begin: int | None = None
        self._cores: dict[str, int] = {}
        self._now = 0

    def take(self, event: Struct) -> None:
        """Add the facts of an event."""
        match event:
            case events.FullTaskEnd():
                self._task(event)
            case events.StageExecutorMetrics():
                self._memory(event.executor, event.memory)
            case events.ExecutorMetricsUpdate():
                for update in event.updates:
                    self._memory(event.executor, update.memory)
            case events.QueryProgress():
                self._batch(event.progress)
            case events.ExecutorChange():
                self._change(event)
            case events.ApplicationStart():
                self.application = event.name
            case events.Environment():
                self.conf = ExecutorConf(event.properties)

    def take_queued(self, use: QueuedUse) -> None:
        """Add a reading of the hosts' run queues."""
        self._add(use)

    def windows(self, seconds: float, *, ended: bool = False) -> Iterator[ExecutorWindow]:
        """Yield the windows that are over, each once, from the first batch or task on.

        `seconds` is the length of a window. A window is longer where a batch is longer, because a window without a
        batch says nothing about waiting records. `ended` declares the end of the facts: a last window counts if it is
        nearly whole.
        """
        if self._begin is None:
            self._begin = next((fact.at_ms for fact in self.facts if isinstance(fact, TaskUse | BatchUse)), None)
        while self._begin is not None:
            least = self._begin + round(1000 * seconds)
            if self._now < (self._begin + 900 * seconds if ended else least):
                return
            streams = any(isinstance(fact, BatchUse) for fact in (*self._before, *self.facts))
            done = [fact.at_ms for fact in self.facts if isinstance(fact, BatchUse)]
            if streams and not done and not ended and self._now < self._begin + _LONGEST * 1000 * seconds:
                return
            end = max(least, done[0] + 1) if done else max(least, self._now + 1) if streams else least
            found = measure_executor_window(self.application, [*self._before, *self.facts], self.conf, self._begin, end)
            self._begin = end
            self._let_go(end)
            if found is not None and (found.batches or not streams):
                yield found

    def _let_go(self, end_ms: int) -> None:
        """Drop the facts before `end_ms`, but for the last fact of each kind, executor and query run."""
        last: dict[object, Use] = {}
        for fact in (*self._before, *(fact for fact in self.facts if fact.at_ms < end_ms)):
            if not isinstance(fact, TaskUse):
                of = fact.executor if isinstance(fact, MemoryUse) else fact.run if isinstance(fact, BatchUse) else ""
                last[(type(fact), of)] = fact
        self._before = sorted(last.values(), key=lambda fact: fact.at_ms)[-_MOST_KEPT:]
        self.facts = [fact for fact in self.facts if fact.at_ms >= end_ms]

    def _add(self, fact: Use) -> None:
        self._now = max(self._now, fact.at_ms)
        if len(self.facts) < _MOST_FACTS:
            self.facts.append(fact)

    def _task(self, event: events.FullTaskEnd) -> None:
        self._now = max(self._now, event.info.finished)
        executor, did = event.info.executor or "", event.metrics
        failed = bool(_NO_HEAP.search(event.end.raised))
        if did is None:
            if failed:
                self._add(TaskUse(self._now, executor, out_of_heap=True))
            return
        self._add(
            TaskUse(
                self._now,
                executor,
                none_if_unknown(did.run_ms),
                none_if_unknown(did.gc_ms),
                none_if_unknown(did.shuffled.wait_ms),
                none_if_unknown(did.cpu_ns),
                none_if_unknown(did.spilled_memory),
                none_if_unknown(max(did.execution, did.on_heap)),
                failed,
            )
        )
        if event.memory is not None:
            self._memory(executor, event.memory)

    def _memory(self, executor: str, memory: ExecutorMemory) -> None:
        """Add memory peaks. Zeros mean that Spark did not sample. A driver runs tasks only in local mode."""
        if memory.heap and (executor != DRIVER or self.conf.local):
            self._add(MemoryUse(self._now, executor, memory))

    def _batch(self, progress: events.ProgressRecord) -> None:
        batch = read_report(progress)
        if batch.seconds is None or not batch.executed:
            return
        sizes = [state.bytes for state in read_states(progress)]
        self._now = max(self._now, batch.started_ms + round(batch.seconds * 1000))
        self._add(
            BatchUse(
                self._now,
                batch.started_ms,
                batch.run,
                batch.seconds,
                batch.input_records,
                batch.behind,
                sum(size or 0 for size in sizes) if sizes and None not in sizes else None,
            )
        )

    def _change(self, event: events.ExecutorChange) -> None:
        if event.executor == DRIVER and not self.conf.local:
            return
        self._now = max(self._now, event.at)
        gone = None
        if event.info is not None:
            self._cores[event.executor] = max(1, event.info.cores)
        elif self._cores.pop(event.executor, None) is not None:
            gone = explain_loss(event.executor, event.why)
        cores = max(self._cores.values(), default=0)
        self._add(ExecutorCount(self._now, len(self._cores), cores, gone))


def measure_executor_window(
    application: str, facts: Sequence[Use], conf: ExecutorConf, begin_ms: float, end_ms: float
) -> ExecutorWindow | None:
    """Return the window [begin_ms, end_ms) of the facts; None where there were no executors, or no work.

    Facts before the window give the state at its begin.
    """
    before = [fact for fact in facts if fact.at_ms < begin_ms]
    inside = [fact for fact in facts if begin_ms <= fact.at_ms < end_ms]
    present = [fact for fact in before if isinstance(fact, ExecutorCount)][-1:] + _of(inside, ExecutorCount)
    sizes = conf.sizes(
        max((fact.cores for fact in present), default=0), max((fact.executors for fact in present), default=0)
    )
    tasks, batches = _of(inside, TaskUse), _of(inside, BatchUse)
    if sizes is None or not (tasks or batches):
        return None
    seconds = (end_ms - begin_ms) / 1000
    return ExecutorWindow(
        application=application,
        began=begin_ms / 1000,
        seconds=seconds,
        sizes=sizes,
        batches=len(batches),
        tasks=len(tasks),
        run_seconds=_seconds([task.run_ms for task in tasks if not task.out_of_heap]),
        gc_seconds=_seconds([task.gc_ms for task in tasks if not task.out_of_heap]),
        fetching_seconds=_seconds([task.fetching_ms for task in tasks if not task.out_of_heap]),
        cpu_seconds=_scaled(1e9, [task.cpu_ns for task in tasks if not task.out_of_heap]),
        queued_seconds=_queued(_of(before, QueuedUse), _of(inside, QueuedUse)),
        spilled_mb=_scaled(MB, [task.spilled for task in tasks if not task.out_of_heap]),
        execution_mb=_most([task.execution for task in tasks]),
        rate=_rate(_of(before, BatchUse), batches),
        done=sum(batch.records for batch in batches) / seconds if batches else None,
        state_mb=_state_mb(batches),
        behind=_behind(batches),
        batch_seconds=tuple(batch.seconds for batch in batches),
        lost=tuple(fact.gone for fact in _of(inside, ExecutorCount) if fact.gone is not None),
        out_of_heap=sum(task.out_of_heap for task in tasks),
        **_memory(_of(before, MemoryUse), _of(inside, MemoryUse), sizes.heap_mb),
    )


def _queued(before: Sequence[QueuedUse], inside: Sequence[QueuedUse]) -> float | None:
    """Return the seconds that threads waited for a core. Threads that ended take their count with them."""
    both = [*before[-1:], *inside]
    return sum(max(0.0, b.seconds - a.seconds) for a, b in pairwise(both)) if len(both) > 1 else None


def _memory(before: Sequence[MemoryUse], inside: Sequence[MemoryUse], heap_mb: int) -> dict[str, Any]:
    if not inside:
        return {}
    seen = [fact.memory for fact in inside]
    trees = [each for each in seen if each.jvm]
    heaps = [min(max(0, each.jvm - each.not_heap - each.direct), heap_mb * MB) for each in trees]
    wholes = [each.jvm + each.python + _others(each) for each in trees]
    return {
        "heap_used_mb": _most(each.heap for each in seen),
        "heap_least_mb": _most(_least_by_executor(inside)),
        "heap_touched_mb": _most(heaps),
        "jvm_mb": _most(each.jvm for each in trees),
        "python_mb": _most(each.python for each in trees),
        "memory_mb": _most(wholes),
        "outside_mb": _most(whole - heap for whole, heap in zip(wholes, heaps, strict=True)),
        "young_collections": _collections(before, inside, "young"),
        "full_collections": _collections(before, inside, "full"),
    }


def _others(memory: ExecutorMemory) -> int:
    """Return the memory of processes that are neither JVM nor Python.

    An executor starts a process to look at its processes. For a moment this process appears as large as the JVM,
    although it shares the JVM's pages.
    """
    return max(0, memory.other - memory.jvm) if abs(memory.other - memory.jvm) <= _ALIKE * memory.jvm else memory.other


def _least_by_executor(inside: Iterable[MemoryUse]) -> list[int]:
    least: dict[str, int] = {}
    for fact in inside:
        least[fact.executor] = min(fact.memory.heap, least.get(fact.executor, fact.memory.heap))
    return list(least.values())


def _collections(before: Iterable[MemoryUse], inside: Iterable[MemoryUse], kind: str) -> int:
    """Return Σ n_e − n_b over the JVMs. The first count of a new JVM stands for its n_b."""
    begun = {fact.executor: int(getattr(fact.memory, kind)) for fact in before}
    ended: dict[str, int] = defaultdict(int)
    for fact in inside:
        count = int(getattr(fact.memory, kind))
        begun.setdefault(fact.executor, count)
        ended[fact.executor] = max(ended[fact.executor], count)
    return sum(max(0, count - begun[executor]) for executor, count in ended.items())


def _by_run(batches: Iterable[BatchUse]) -> Mapping[str, list[BatchUse]]:
    runs: dict[str, list[BatchUse]] = defaultdict(list)
    for batch in batches:
        runs[batch.run].append(batch)
    return runs


def _rate(before: Iterable[BatchUse], batches: Iterable[BatchUse]) -> float | None:
    """Return the records/s of all queries with enough batches, from the last batch before the window on."""
    last_of, rates = {batch.run: batch for batch in before}, []
    for run, inside in _by_run(batches).items():
        mine = [last_of[run], *inside] if run in last_of else inside
        first, last = mine[0], mine[-1]
        seconds = (last.began_ms - first.began_ms) / 1000
        if seconds > 0:
            more = (last.held_back or 0) - (first.held_back or 0)
            rates.append(max(0.0, sum(batch.records for batch in mine[1:]) + more) / seconds)
    return sum(rates) if rates else None


def _behind(batches: Sequence[BatchUse]) -> tuple[float, ...]:
    waits: dict[str, float] = {}
    found = []
    for batch in sorted(batches, key=lambda each: each.began_ms):
        waits[batch.run] = batch.records + (batch.held_back or 0)
        found.append(sum(waits.values()))
    return tuple(found[len(waits) - 1 :])  # from the moment when all queries have reported


def _state_mb(batches: Iterable[BatchUse]) -> float | None:
    reported = [[batch.state for batch in own if batch.state is not None] for own in _by_run(batches).values()]
    sizes = [max(own) for own in reported if own]
    return sum(sizes) / MB if sizes else None


def _of(facts: Iterable[Use], kind: type[_Kind]) -> list[_Kind]:
    return [fact for fact in facts if isinstance(fact, kind)]


def _seconds(milliseconds: Sequence[int | None]) -> float | None:
    return _scaled(1e3, milliseconds)


def _scaled(by: float, numbers: Sequence[int | None]) -> float | None:
    return None if None in numbers else max(0, sum(number or 0 for number in numbers)) / by


def _most(numbers: Iterable[int | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return max(0, max(known)) / MB if known else None
