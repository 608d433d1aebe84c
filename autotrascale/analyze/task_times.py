"""Times of a task and the parts of its time, from its metrics and from the counters of the plan's nodes in its line.

    counter of a node                                                         part
    time to run Python workers − time to execute Python code                  Python: starting workers, moving records
    RocksDB: load - time taken to load the store                              loading state
    time to commit changes                                                    committing state

A reused worker counts the time since it was first made as `time to initialize Python workers`, which says nothing about
the task. `time to run` contains the start and the initialisation of a new worker. So the rest of it beside the user's
own code is the cost of workers. Versions without a counter for the user's code give the start alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from autotrascale.analyze.facts import TaskTimes
from autotrascale.analyze.sums import none_if_unknown
from autotrascale.monitor.eventlog.events import UNKNOWN, FullTaskInfo, FullTaskMetrics, TaskCounter

PYTHON_RUN, PYTHON_START = "time to run Python workers", "time to start Python workers"
PYTHON_CODE = "time to execute Python code"
STATE_LOAD, STATE_COMMIT = "RocksDB: load - time taken to load the store", "time to commit changes"
_READ = frozenset((PYTHON_RUN, PYTHON_START, PYTHON_CODE, STATE_LOAD, STATE_COMMIT))
_LONGEST = 12  # digits


def read_task_times(info: FullTaskInfo, did: FullTaskMetrics) -> TaskTimes | None:
    """Return the times of a task, None where the log does not hold its begin and end."""
    if UNKNOWN in (info.launched, info.finished) or info.finished < info.launched:
        return None
    counted = _counted(info.counters)
    write = did.sent.ns
    return TaskTimes(
        info.launched,
        info.finished,
        none_if_unknown(did.run_ms),
        none_if_unknown(did.serialise_ms),
        None if write == UNKNOWN else write / 1e6,
        _python(counted),
        counted.get(STATE_LOAD),
        counted.get(STATE_COMMIT),
        none_if_unknown(did.shuffled.remote_bytes),
        none_if_unknown(did.shuffled.local_bytes),
    )


def _python(counted: dict[str, int]) -> int | None:
    run, code = counted.get(PYTHON_RUN), counted.get(PYTHON_CODE)
    if run is None:
        return None
    return max(0, run - code) if code is not None else min(run, counted.get(PYTHON_START, 0))


def _counted(counters: Iterable[TaskCounter]) -> dict[str, int]:
    """Return the values of the known counters. Nodes of one stage that count the same thing are summed."""
    found: dict[str, int] = {}
    for each in counters:
        if each.name in _READ:
            added = bytes(each.added).strip(b'"')
            if added.isdigit() and len(added) <= _LONGEST:
                found[each.name] = found.get(each.name, 0) + int(added)
    return found
