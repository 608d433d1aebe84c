"""Was the machine short of something while a trial ran, so that its numbers say more of the machine than of the job?

    w   share of the tasks' time in which they had no core: threads' time in line / time that tasks held their slots
    c   share of the time in which something on the machine had no core, where w cannot be told
    s   share of the cores' time that a hypervisor gave to others: stolen / (worked + stolen)
    m   megabytes swapped in or out a second

A stall takes time and no core, so slots far above the cores are no shortage as such: w stays small where tasks wait for
services, and nears 1 − cores/slots where all of them compute. The time that a task stands in line counts as useful time
to Spark, and its true rate comes out too low by as much.
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
    """Between two readings; None where nothing was short, or nobody can tell. `held_seconds`: how long tasks held their
    slots meanwhile, all together."""
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
    """By the tasks of these batches; None where their log does not say."""
    held = [task.slot_ms if task.slot_ms is not None else task.useful_ms for batch in batches for task in batch.tasks]
    return None if not held or None in held else sum(each or 0 for each in held) / 1000


def _is_short(found: MachinePressure) -> bool:
    crowded = found.crowded >= MOST_CROWDED if found.waiting is None else found.waiting >= MOST_WAITING
    return crowded or found.stolen >= MOST_STOLEN or found.swapped_mb >= MOST_SWAPPED


def _waiting(begin: HostReading, end: HostReading, held: float | None) -> float | None:
    """Threads besides the tasks' own wait too, and threads that ended are not counted: so it is kept within 0 and 1."""
    return _share(begin.waited, end.waited, held)


def _share(before: float | None, after: float | None, whole: float | None) -> float | None:
    if before is None or after is None or not whole:
        return None
    return min(1.0, max(0.0, after - before) / whole)
