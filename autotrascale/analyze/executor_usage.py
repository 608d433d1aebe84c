"""What the executors of one application used, window by window: the same pure function for a job that runs and for its
archive. `ExecutorUse` gathers facts from events as they come, `window` measures those of a span of time.

    symbol     meaning                                                                            unit
    R, J       resident memory of a JVM; of it what is no heap (metaspace, code, direct buffers)   bytes
    touched    min(R − J, heap): pages of the heap that the JVM ever used                          MB
    n_b, n_e   collections of a JVM since it began, before the window and at its end
    N_i, q_i   records that batch i took, and that its sources held back when it was planned
    behind     N_i + q_i: what waited when it was planned, of all queries together

Spark tells peaks of memory with each task that ends and each stage that completes, zero where it did not look in
between. `heap_touched_mb` stands for the paper's heap-committed. differs: Spark does not tell what is committed. What
is committed and was never touched nobody needed; what the JVM holds beside its heap and does not own up to (stacks, its
collector's own tables) is counted as heap, which errs on the side of keeping it.
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
from autotrascale.domain.executor_window import ExecutorWindow, LostExecutor
from autotrascale.monitor.eventlog import events
from autotrascale.monitor.eventlog.events import UNKNOWN, ExecutorMemory

MB = 2**20
DRIVER = "driver"
_LONGEST = 60  # times the length of a window, after which one without a batch is over all the same
_ALIKE = 0.1  # of its size: the JVM, and what it has just started
_MOST_KEPT = 10_000
_MOST_FACTS = 1_000_000  # of one window, whatever a log says: those beyond are not counted
_NO_HEAP = re.compile(r"OutOfMemoryError|SparkOutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY")


@dataclass(frozen=True, slots=True)
class TaskUse:
    """A task that ended, whether it did its work or not."""

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
    at_ms: int
    executor: str
    memory: ExecutorMemory


@dataclass(frozen=True, slots=True)
class BatchUse:
    at_ms: int  # when it was done
    began_ms: int
    run: str
    seconds: float
    records: int
    held_back: int | None
    state: int | None  # bytes


@dataclass(frozen=True, slots=True)
class ExecutorCount:
    """So many executors were there from this moment on, each with so many cores. `gone`: the one that just went."""

    at_ms: int
    executors: int
    cores: int
    gone: LostExecutor | None = None


@dataclass(frozen=True, slots=True)
class QueuedUse:
    """How long threads of the executors have stood in line for a core until this moment, all together: said by whoever
    looks at their machines (`monitor/host.py`), since Spark does not."""

    at_ms: int
    seconds: float


Use = QueuedUse | TaskUse | MemoryUse | BatchUse | ExecutorCount
_Kind = TypeVar("_Kind", QueuedUse, TaskUse, MemoryUse, BatchUse, ExecutorCount)


class ExecutorUsage:
    """Of one application. It keeps the facts of the window that is open, and lets go of them with it."""

    def __init__(self) -> None:
        self.application = ""
        self.conf = ExecutorConf()
        self.facts: list[Use] = []
        self._before: list[Use] = []  # how things stood when the window began
        self._begin: int | None = None
        self._cores: dict[str, int] = {}
        self._now = 0

    def take(self, event: Struct) -> None:
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
        self._add(use)

    def windows(self, seconds: float, *, ended: bool = False) -> Iterator[ExecutorWindow]:
        """Those that are over, one after the other, from the first batch or task on; each is told once. Where a batch
        lasts longer, a window is as long as it: one without a batch would say nothing of what waits. `ended`: no more
        facts come, and a last window that is nearly whole is one."""
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
        """All but the last of each kind, of each executor's memory and of each query's batches."""
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
                _known(did.run_ms),
                _known(did.gc_ms),
                _known(did.shuffled.wait_ms),
                _known(did.cpu_ns),
                _known(did.spilled_memory),
                _known(max(did.execution, did.on_heap)),
                failed,
            )
        )
        if event.memory is not None:
            self._memory(executor, event.memory)

    def _memory(self, executor: str, memory: ExecutorMemory) -> None:
        """Spark writes zeros where it did not look. A driver has executors' work only where there are none."""
        if memory.heap and (executor != DRIVER or self.conf.local):
            self._add(MemoryUse(self._now, executor, memory))

    def _batch(self, progress: events.ProgressRecord) -> None:
        said = read_report(progress)
        if said.seconds is None or not said.executed:
            return
        sizes = [state.bytes for state in read_states(progress)]
        self._now = max(self._now, said.started_ms + round(said.seconds * 1000))
        self._add(
            BatchUse(
                self._now,
                said.started_ms,
                said.run,
                said.seconds,
                said.input_records,
                said.behind,
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
    """The facts of [begin, end), and from those before only how things stood. None where there were no executors."""
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
    """Threads that ended took their count with them, so that it may fall."""
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
    """Processes that are neither. To look at its processes an executor starts one, and is there twice for a moment: as
    large as its JVM, of whose pages it has none of its own."""
    return max(0, memory.other - memory.jvm) if abs(memory.other - memory.jvm) <= _ALIKE * memory.jvm else memory.other


def _least_by_executor(inside: Iterable[MemoryUse]) -> list[int]:
    least: dict[str, int] = {}
    for fact in inside:
        least[fact.executor] = min(fact.memory.heap, least.get(fact.executor, fact.memory.heap))
    return list(least.values())


def _collections(before: Iterable[MemoryUse], inside: Iterable[MemoryUse], kind: str) -> int:
    """Σ n_e − n_b over the JVMs; of one that nobody saw before, from what was seen first."""
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
    """Of all queries that say enough, from the last batch before the window on; None where none does."""
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
    return tuple(found[len(waits) - 1 :])  # from when on all queries have said theirs


def _state_mb(batches: Iterable[BatchUse]) -> float | None:
    said = [[batch.state for batch in mine if batch.state is not None] for mine in _by_run(batches).values()]
    sizes = [max(mine) for mine in said if mine]
    return sum(sizes) / MB if sizes else None


def _of(facts: Iterable[Use], kind: type[_Kind]) -> list[_Kind]:
    return [fact for fact in facts if isinstance(fact, kind)]


def _known(number: int) -> int | None:
    return None if number == UNKNOWN else number


def _seconds(milliseconds: Sequence[int | None]) -> float | None:
    return _scaled(1e3, milliseconds)


def _scaled(by: float, numbers: Sequence[int | None]) -> float | None:
    return None if None in numbers else max(0, sum(number or 0 for number in numbers)) / by


def _most(numbers: Iterable[int | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return max(0, max(known)) / MB if known else None
