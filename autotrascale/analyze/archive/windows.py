"""The batches of a query run, cut into windows as they come.

A run is cut from its first trigger on. The rest at its end joins the window before if it is shorter than half a window:

    symbol   meaning                                                                  unit
    w        length of a window                                                       ms
    t_0, e   first trigger of the run; end of its last batch                          ms
    n_i      window of batch i = min(⌊(t_i − t_0) / w⌋, max(0, round((e − t_0) / w) − 1))

A window keeps its batches without their tasks, and the tasks summed by role and instance: as many sums as instances,
however long the window is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from autotrascale.analyze.facts import BatchFact, TaskFact
from autotrascale.domain.topology import Operator, Topology

_MOST_TASKS = 100_000  # of one window, before they are summed
_Role = tuple[str, bool, bool]  # operator, entry, exit
_SUMMED = ("useful_ms", "deserialise_ms", "wait_ms", "gc_ms", "read", "sent", "written", "served_ms", "served_squares")


@dataclass
class RunWindow:
    """Consecutive batches of one run. `tasks` holds the sums of all their tasks."""

    run: str
    number: int
    batches: list[BatchFact] = field(default_factory=list)
    tasks: list[TaskFact] = field(default_factory=list)

    @property
    def started_ms(self) -> int:
        return min(batch.started_ms for batch in self.batches)

    @property
    def name(self) -> str | None:
        """The query's name, if it has one."""
        return max((batch.name for batch in self.batches if batch.name), default=None)

    def measured_batches(self) -> list[BatchFact]:
        """Return the batches in order. The first one holds all tasks: sums do not depend on their place."""
        ordered = sorted(self.batches, key=lambda batch: (batch.started_ms, batch.batch))
        return [replace(ordered[0], tasks=tuple(self.tasks)), *ordered[1:]]


class _OpenWindow:
    """A window that still grows."""

    def __init__(self) -> None:
        self.batches: list[BatchFact] = []
        self._homes: dict[_Role, int] = {}  # the stage that stands for all stages of a role
        self._tasks: dict[int, dict[int, list[TaskFact]]] = defaultdict(dict)  # by home and index
        self._count = 0

    def add(self, batch: BatchFact) -> None:
        # Marks count only where they name the operators. Offsets are not measured, and may be large.
        marks = batch.marks if batch.marked else {}
        self.batches.append(replace(batch, tasks=(), marks=marks, offsets=(), newest=()))
        home_of = {
            stage.stage: self._homes.setdefault((stage.operator, stage.entry, stage.exit), stage.stage)
            for stage in batch.stages
        }
        by_stage = {stage: self._tasks[home] for stage, home in home_of.items()}
        for task in batch.tasks:
            by_stage[task.stage].setdefault(task.index, []).append(task)
        self._count += len(batch.tasks)
        if self._count > _MOST_TASKS:
            self._sum()

    def merge(self, other: _OpenWindow) -> None:
        """Add the batches and sums of another window."""
        self.batches += other.batches
        home_of = {home: self._homes.setdefault(role, home) for role, home in other._homes.items()}
        for home, by_index in other._tasks.items():
            for index, tasks in by_index.items():
                self._tasks[home_of[home]].setdefault(index, []).extend(tasks)

    def close(self, run: str, number: int) -> RunWindow:
        self._sum()
        sums = [tasks[0] for by_index in self._tasks.values() for tasks in by_index.values()]
        return RunWindow(run, number, self.batches, sums)

    def _sum(self) -> None:
        for home, by_index in self._tasks.items():
            for index, tasks in by_index.items():
                columns = ([getattr(task, name) for task in tasks] for name in _SUMMED)
                sums = (None if None in column else sum(column) for column in columns)
                by_index[index] = [TaskFact(home, index, *sums)]
        self._count = 0


class RunWindows:
    """The windows of one run, given out as soon as no later batch can belong to them."""

    def __init__(self, run: str, seconds: float | None) -> None:
        """Cut into windows of `seconds`; None makes one window of the whole run."""
        self._run, self._width_ms = run, math.inf if seconds is None else 1000 * seconds
        self._first_ms: int | None = None
        self._ended_ms = -math.inf
        self._open: dict[int, _OpenWindow] = {}
        self._next = 0  # windows before this one were given out

    def add(self, batch: BatchFact) -> Iterator[RunWindow]:
        """Take a batch, and yield the windows that it completes."""
        if self._first_ms is None:
            self._first_ms = batch.started_ms
        number = max(self._next, math.floor((batch.started_ms - self._first_ms) / self._width_ms))
        self._ended_ms = max(self._ended_ms, batch.committed_ms)
        self._open.setdefault(number, _OpenWindow()).add(batch)
        # The run may end in this window and leave less than half of it. So the window before stays open too.
        yield from self._close([each for each in sorted(self._open) if each < number - 1])

    def finish(self) -> Iterator[RunWindow]:
        """Yield the last windows of the run."""
        if self._first_ms is None:
            return
        last = max(self._next, math.floor((self._ended_ms - self._first_ms) / self._width_ms + 0.5) - 1)
        for number in [number for number in sorted(self._open) if number > last]:
            rest = self._open.pop(number)
            self._open.setdefault(last, _OpenWindow()).merge(rest)
        yield from self._close(sorted(self._open))

    def _close(self, numbers: Iterable[int]) -> Iterator[RunWindow]:
        for number in numbers:
            self._next = number + 1
            yield self._open.pop(number).close(self._run, number)


class OperatorsSeen:
    """The operators of a run, from the stages of its batches."""

    def __init__(self) -> None:
        self._ranks: dict[str, int] = {}
        self._stateful: dict[str, bool] = {}
        self._upstream: dict[str, dict[str, None]] = {}

    def add(self, batch: BatchFact) -> None:
        for stage in batch.stages:
            name = stage.operator
            self._ranks[name] = min(stage.rank, self._ranks.get(name, stage.rank))
            self._stateful[name] = stage.stateful or self._stateful.get(name, False)
            self._upstream.setdefault(name, {}).update(dict.fromkeys(stage.upstream))

    def topology(self) -> Topology:
        """Return the operators in the order of the data. An operator that did nothing in a window is in it too."""
        names = sorted(self._ranks, key=lambda name: (self._ranks[name], name))
        return Topology({name: Operator(tuple(self._upstream[name]), self._stateful[name]) for name in names})
