"""Shortage of the machine during a trial: cores, stolen time, swapping.

A short machine makes the trial's numbers describe the machine instead of the job.

    symbol   meaning
    w        share of the tasks' time without a core: threads' time in the run queue / time that tasks held their slots
    c        share of the time in which any process of the machine waited for a core; used where w is unknown
    s        share of the cores' time that a hypervisor took: stolen / (worked + stolen)
    m        megabytes swapped in or out per second

A task that waits for a service takes time and no core, so slots far above the cores are no shortage by themselves. w
stays small where tasks wait for services, and nears 1 − cores/slots where all tasks compute. Spark counts time in the
run queue as useful time, so the true rate comes out too low by as much.
"""

from __future__ import annotations

from collections.abc import Iterable

from autotrascale.analyze.facts import BatchFact
from autotrascale.domain.trial import MachinePressure
from autotrascale.monitor.host_counters import HostReading

MOST_WAITING = 0.4
MOST_CROWDED = 0.9
MOST_STOLEN = 0.1
MOST_SWAPPED = 1.0


def find_shortage(
    begin: HostReading | None, end: HostReading | None, held_seconds: float | None
) -> MachinePressure | None:
    """Return the shortage between two readings of the host's counters; None where nothing was short, or it is unknown.

    `held_seconds` is the time for which tasks held their slots in between, summed over the tasks.
    """
    if begin is None or end is None or end.at <= begin.at:
        return None
    seconds = end.at - begin.at
    worked, stolen = end.worked - begin.worked, end.stolen - begin.stolen
    found = MachinePressure(
        cores=end.cores,
        waiting=_waiting(begin, end, held_seconds),
        crowded=_share(begin.crowded, end.crowded, seconds) or 0.0,
        stolen=max(0.0, stolen) / (worked + stolen) if worked + stolen > 0 else 0.0,
        swapped_mb=max(0.0, end.swapped_mb - begin.swapped_mb) / seconds,
    )
    return found if _is_short(found) else None


def sum_held_seconds(batches: Iterable[BatchFact]) -> float | None:
    """Return the slot time of the batches' tasks in seconds, None where their log does not hold it."""
    held = [task.slot_ms if task.slot_ms is not None else task.useful_ms for batch in batches for task in batch.tasks]
    return None if not held or None in held else sum(each or 0 for each in held) / 1000


def _is_short(found: MachinePressure) -> bool:
    crowded = found.crowded >= MOST_CROWDED if found.waiting is None else found.waiting >= MOST_WAITING
    return crowded or found.stolen >= MOST_STOLEN or found.swapped_mb >= MOST_SWAPPED


def _waiting(begin: HostReading, end: HostReading, held: float | None) -> float | None:
    """Return w. Threads without tasks wait too, and ended threads are not counted, so w is kept within 0 and 1."""
    return _share(begin.waited, end.waited, held)


def _share(before: float | None, after: float | None, whole: float | None) -> float | None:
    if before is None or after is None or not whole:
        return None
    return min(1.0, max(0.0, after - before) / whole)
