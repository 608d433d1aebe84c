"""The numbers of a task's end → what the task did.

    symbol   meaning                                                                        unit
    T_u      useful time = run + deserialise + result serialisation − fetch wait, ≥ 0:      ms
             Spark reads its clocks one after another
    read     records from a source or a shuffle                                             records
    served   T_u of a task that read something, else 0                                      ms
    squares  T_u² / read of such a task, for the spread of service times (see `queues`);    2⁻²⁰ ms²
             in whole numbers, so that sums do not depend on their order

A number that is not in the log (`UNKNOWN`) makes every result unknown that contains it.
"""

from __future__ import annotations

from autotrascale.analyze.facts import TaskFact
from autotrascale.analyze.sums import none_if_unknown
from autotrascale.analyze.task_times import read_task_times
from autotrascale.monitor.eventlog.events import UNKNOWN, FullTaskEnd, TaskEnd, TaskMetrics

_SHIFT = 20
SQUARE = 1 << _SHIFT
_LONGEST_MS = 1 << 21  # a square of a longer time does not fit
_GREATEST = 1 << 46  # of one term: a hundred thousand of them can be added up


def make_task_fact(end: TaskEnd, did: TaskMetrics) -> TaskFact:
    """Return the fact of a successful task with the metrics `did`."""
    run, deserialise, serialise, wait = did.run_ms, did.deserialise_ms, did.serialise_ms, did.shuffled.wait_ms
    read = _sum(did.shuffled.records, did.taken.records)
    slot = _sum(run, deserialise, serialise)
    useful = None if slot is None or wait == UNKNOWN else max(0, slot - wait)
    served = None if useful is None or read is None else useful if read > 0 else 0
    cpu = executor = times = None
    if isinstance(end, FullTaskEnd) and end.metrics is not None:
        cpu, executor = _sum(end.metrics.cpu_ns, end.metrics.deserialise_cpu_ns), end.info.executor
        times = read_task_times(end.info, end.metrics)
    return TaskFact(
        end.stage,
        end.info.index,
        useful,
        none_if_unknown(deserialise),
        none_if_unknown(wait),
        none_if_unknown(did.gc_ms),
        read,
        none_if_unknown(did.sent.records),
        none_if_unknown(did.written.records),
        served,
        _square(useful, read),
        slot,
        cpu,
        executor,
        times,
    )


def _square(useful: int | None, read: int | None) -> int | None:
    """Return T_u² / read; 0 for a task that read nothing, None where the term would be too large."""
    if useful is None or read is None:
        return None
    if read <= 0:
        return 0
    term = (useful * useful << _SHIFT) // read
    return None if useful > _LONGEST_MS or term > _GREATEST else term


def _sum(*numbers: int) -> int | None:
    return None if UNKNOWN in numbers else sum(numbers)
