"""How many tasks could run at once while a batch ran, on the executors that were there: one on each core, fewer where
a task takes several (`spark.task.cpus`).

It is told where these were the same from trigger to commit and the log has its beginning, where executors that were
there before are told of. Else it is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from msgspec import Struct

from autotrascale.monitor.eventlog import events

_MOST = 10_000  # executors that are kept, whatever a log says: the oldest go first
_TASK_CPUS = "spark.task.cpus"


@dataclass(frozen=True, slots=True)
class ExecutorStay:
    """Of one executor."""

    cores: int
    came_ms: int
    gone_ms: int | None = None


class ExecutorStays:
    """Of the executors of an application, as its log tells them, event by event."""

    def __init__(self) -> None:
        self._by_name: dict[str, ExecutorStay] = {}
        self._from_the_beginning = False
        self._task_cpus = 1

    def take(self, event: Struct) -> None:
        match event:
            case events.ApplicationStart():
                self._from_the_beginning = True
            case events.Environment():
                self._task_cpus = read_task_cpus(event.properties)
            case events.ExecutorChange(info=None) if event.executor in self._by_name:
                self._by_name[event.executor] = replace(self._by_name[event.executor], gone_ms=event.at)
            case events.ExecutorChange(info=events.ExecutorInfo(cores=cores)):
                self._by_name[event.executor] = ExecutorStay(cores, event.at)
                if len(self._by_name) > _MOST:
                    del self._by_name[next(iter(self._by_name))]

    def slots(self, begin_ms: float, end_ms: float) -> int | None:
        if not self._from_the_beginning:
            return None
        return count_slots(self._by_name.values(), begin_ms, end_ms, self._task_cpus)


def read_task_cpus(properties: Mapping[str, str]) -> int:
    """The cores that a task takes; one where a log says what no Spark takes."""
    said = properties.get(_TASK_CPUS, "1")
    return int(said) if re.fullmatch("[1-9][0-9]{0,3}", said) else 1


def count_slots(stays: Iterable[ExecutorStay], begin_ms: float, end_ms: float, task_cpus: int = 1) -> int | None:
    """None where somebody came or went in between, or nobody was there."""
    found = 0
    for stay in stays:
        gone = end_ms if stay.gone_ms is None else stay.gone_ms
        if stay.came_ms >= end_ms or gone <= begin_ms:
            continue
        if stay.came_ms > begin_ms or gone < end_ms:
            return None
        found += stay.cores // task_cpus
    return found or None
