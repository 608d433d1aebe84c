"""The number of tasks that could run at once while a batch ran.

Each core of an executor runs one task, or fewer where a task takes several cores (`spark.task.cpus`). The number is
known where the log has its beginning and the executors were the same from trigger to commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from msgspec import Struct

from autotrascale.monitor.eventlog import events

_MOST = 10_000  # executors that are remembered: the oldest are dropped first
_TASK_CPUS = "spark.task.cpus"


@dataclass(frozen=True, slots=True)
class ExecutorStay:
    """The cores of one executor, and the times when it registered and was removed, in Unix milliseconds."""

    cores: int
    came_ms: int
    gone_ms: int | None = None


class ExecutorStays:
    """The stays of an application's executors, collected event by event."""

    def __init__(self) -> None:
        self._by_name: dict[str, ExecutorStay] = {}
        self._has_beginning = False
        self._task_cpus = 1

    def take(self, event: Struct) -> None:
        match event:
            case events.ApplicationStart():
                self._has_beginning = True
            case events.Environment():
                self._task_cpus = read_task_cpus(event.properties)
            case events.ExecutorChange(info=None) if event.executor in self._by_name:
                self._by_name[event.executor] = replace(self._by_name[event.executor], gone_ms=event.at)
            case events.ExecutorChange(info=events.ExecutorInfo(cores=cores)):
                self._by_name[event.executor] = ExecutorStay(cores, event.at)
                if len(self._by_name) > _MOST:
                    del self._by_name[next(iter(self._by_name))]

    def slots(self, begin_ms: float, end_ms: float) -> int | None:
        """Return the tasks that could run at once in this span, None where that is unknown."""
        if not self._has_beginning:
            return None
        return count_slots(self._by_name.values(), begin_ms, end_ms, self._task_cpus)

    def most_slots(self) -> int | None:
        """Return the most tasks that could run at once at any time, None where no executor is known."""
        changes: list[tuple[int, int]] = []
        for stay in self._by_name.values():
            slots = stay.cores // self._task_cpus
            changes.append((stay.came_ms, slots))
            if stay.gone_ms is not None:
                changes.append((stay.gone_ms, -slots))
        running = most = 0
        for _, change in sorted(changes):
            running += change
            most = max(most, running)
        return most or None


def read_task_cpus(properties: Mapping[str, str]) -> int:
    """Return the cores that a task takes; 1 where the setting is missing or impossible."""
    cpus = properties.get(_TASK_CPUS, "1")
    return int(cpus) if re.fullmatch("[1-9][0-9]{0,3}", cpus) else 1


def count_slots(stays: Iterable[ExecutorStay], begin_ms: float, end_ms: float, task_cpus: int = 1) -> int | None:
    """Return the tasks that could run at once; None where an executor came or went in between, or none was there."""
    count = 0
    for stay in stays:
        gone = end_ms if stay.gone_ms is None else stay.gone_ms
        if stay.came_ms >= end_ms or gone <= begin_ms:
            continue
        if stay.came_ms > begin_ms or gone < end_ms:
            return None
        count += stay.cores // task_cpus
    return count or None
