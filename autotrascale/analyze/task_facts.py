"""What a task did, from the numbers of its end: one definition, for columns of millions and for a batch of a live job.

    symbol   meaning                                                                        unit
    T_u      useful time = run + deserialise + result serialisation − fetch wait, ≥ 0:      ms
             Spark reads its clocks one after another
    read     records from a source or a shuffle                                             records
    served   T_u of tasks that read something; the others did nothing but begin and end     ms
    squares  Σ T_u² / read of such tasks, for the spread of service times (see `queueing`   2⁻²⁰ ms²
             in `metrics`); in whole numbers, so that sums do not depend on their order

A number that was not written (`UNKNOWN`) makes unknown whatever it is a part of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from autotrascale.analyze.facts import TaskFact
from autotrascale.analyze.task_times import read_task_times
from autotrascale.monitor.eventlog.events import UNKNOWN, FullTaskEnd, TaskMetrics

Column = NDArray[np.int64]
NUMBERS = ("run_ms", "deserialise_ms", "serialise_ms", "wait_ms", "gc_ms", "shuffled", "taken", "sent", "written")
"""What is taken of a task's end, in this order."""
_SHIFT = 20
SQUARE = 1 << _SHIFT
_LONGEST = 1 << 21  # ms; the square of more would not fit
_GREATEST = 1 << 46  # of one term; a hundred thousand of them can be added up


def measure_tasks(numbers: Mapping[str, Column]) -> dict[str, Column]:
    """Columns of `NUMBERS` → columns of a `TaskFact`, `UNKNOWN` where nobody can say."""
    run, deserialise, serialise, wait = (numbers[name] for name in NUMBERS[:4])
    read = _known(numbers["shuffled"] + numbers["taken"], numbers["shuffled"], numbers["taken"])
    useful = _known(np.maximum(0, run + deserialise + serialise - wait), run, deserialise, serialise, wait)
    return {
        "useful_ms": useful,
        "deserialise_ms": deserialise,
        "wait_ms": wait,
        "gc_ms": numbers["gc_ms"],
        "read": read,
        "sent": numbers["sent"],
        "written": numbers["written"],
        "served_ms": _known(np.where(read > 0, useful, 0), useful, read),
        "served_squares": _squares(useful, read),
    }


def make_task_facts(ends: Iterable[FullTaskEnd]) -> list[TaskFact]:
    """Of tasks that did their work."""
    done = [(end.stage, end.info, end.metrics) for end in ends if end.metrics is not None]
    table = np.array([_numbers(did) for *_, did in done], dtype=np.int64).reshape(-1, len(NUMBERS))
    columns = measure_tasks(dict(zip(NUMBERS, table.T, strict=True)))
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [
        TaskFact(
            stage,
            info.index,
            **{name: none_if_unknown(number) for name, number in zip(columns, row, strict=True)},
            slot_ms=_sum(did.run_ms, did.deserialise_ms, did.serialise_ms),
            cpu_ns=_sum(did.cpu_ns, did.deserialise_cpu_ns),
            executor=info.executor,
            times=read_task_times(info, did),
        )
        for (stage, info, did), row in zip(done, rows, strict=True)
    ]


def none_if_unknown(number: int) -> int | None:
    return None if number == UNKNOWN else number


def _numbers(did: TaskMetrics) -> tuple[int, ...]:
    return (
        did.run_ms,
        did.deserialise_ms,
        did.serialise_ms,
        did.shuffled.wait_ms,
        did.gc_ms,
        did.shuffled.records,
        did.taken.records,
        did.sent.records,
        did.written.records,
    )


def _known(column: Column, *parts: Column) -> Column:
    """Where every part of it is."""
    unknown = np.any([part == UNKNOWN for part in parts], axis=0)
    return np.where(unknown, UNKNOWN, column) if unknown.any() else column


def _squares(useful: Column, read: Column) -> Column:
    """T_u² / read; of a task that read nothing it is no part."""
    small = np.clip(useful, 0, _LONGEST)
    term = (small * small << _SHIFT) // np.maximum(read, 1)
    term = np.where(read > 0, term, 0)
    out = (useful == UNKNOWN) | (read == UNKNOWN) | ((read > 0) & ((useful > _LONGEST) | (term > _GREATEST)))
    return np.where(out, UNKNOWN, term) if out.any() else term


def _sum(*numbers: int) -> int | None:
    return None if UNKNOWN in numbers else sum(numbers)
