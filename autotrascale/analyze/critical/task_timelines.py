"""The slot of its executor that each task ran on.

Spark does not report it. A task is placed on the slot that was used last, because executors take the thread that was
used last (thesis, §3.3.2). Slots are numbered in the order of their first use.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from autotrascale.analyze.facts import TaskFact, TaskTimes


@dataclass(frozen=True, slots=True)
class PlacedTask:
    """A task on a timeline. `before_ms` is the end of the slot's task before it, None for the first task."""

    task: TaskFact
    timeline: str
    begin_ms: float
    end_ms: float
    before_ms: float | None


def place_tasks(tasks: Iterable[TaskFact], begin_ms: float, end_ms: float) -> list[PlacedTask]:
    """Return the tasks with known times, cut to these bounds, in the order of their launch."""
    timed = [(task.times, task) for task in tasks if task.times is not None]
    timed.sort(key=lambda pair: (pair[0].launched_ms, pair[0].finished_ms, pair[1].stage, pair[1].index))
    free: dict[str, dict[int, float]] = defaultdict(dict)  # by executor, when each slot was left
    found = []
    for times, task in timed:
        begin, end = _within(times, begin_ms, end_ms)
        if end <= begin:
            continue
        slots = free[task.executor or "?"]
        left = [(at, slot) for slot, at in slots.items() if at <= begin]
        before, slot = max(left, default=(None, len(slots)), key=lambda each: (each[0], -each[1]))
        slots[slot] = end
        found.append(PlacedTask(task, name_timeline(task.executor, slot), begin, end, before))
    return found


def name_timeline(executor: str | None, slot: int) -> str:
    """Return `executor 1 slot 3`. In local mode the driver's own process has the slots."""
    return f"executor {executor or '?'} slot {slot}"


def _within(times: TaskTimes, begin_ms: float, end_ms: float) -> tuple[float, float]:
    return max(float(times.launched_ms), begin_ms), min(float(times.finished_ms), end_ms)
