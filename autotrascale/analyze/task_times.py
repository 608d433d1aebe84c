"""When a task ran, and the parts of its time that Spark tells apart: its own metrics, and the counters of the plan's
nodes, which the line of its end has by name.

    counter of a node                                                         part
    time to run Python workers − time to execute Python code                  Python: starting workers, carrying records
    RocksDB: load - time taken to load the store                              loading state
    time to commit changes                                                    committing state

A worker that is used again counts the time since it was first made as `time to initialize Python workers`: that says
nothing of the task. `time to run` has the start and the initialisation of a new worker in it, so what is left of it
beside the user's own code is what workers cost. Before Spark tells of the user's code only the start is known.
"""

from __future__ import annotations

from collections.abc import Iterable

from autotrascale.analyze.facts import TaskTimes
from autotrascale.monitor.eventlog.events import UNKNOWN, FullTaskInfo, FullTaskMetrics, TaskCounter

PYTHON_RUN, PYTHON_START = "time to run Python workers", "time to start Python workers"
PYTHON_CODE = "time to execute Python code"
STATE_LOAD, STATE_COMMIT = "RocksDB: load - time taken to load the store", "time to commit changes"
_READ = frozenset((PYTHON_RUN, PYTHON_START, PYTHON_CODE, STATE_LOAD, STATE_COMMIT))
_LONGEST = 12  # digits


def read_task_times(info: FullTaskInfo, did: FullTaskMetrics) -> TaskTimes | None:
    """None where the log does not say when it ran."""
    if UNKNOWN in (info.launched, info.finished) or info.finished < info.launched:
        return None
    counted = _counted(info.counters)
    write = did.sent.ns
    return TaskTimes(
        info.launched,
        info.finished,
        _known(did.run_ms),
        _known(did.serialise_ms),
        None if write == UNKNOWN else write / 1e6,
        _python(counted),
        counted.get(STATE_LOAD),
        counted.get(STATE_COMMIT),
        _known(did.shuffled.remote_bytes),
        _known(did.shuffled.local_bytes),
    )


def _python(counted: dict[str, int]) -> int | None:
    run, code = counted.get(PYTHON_RUN), counted.get(PYTHON_CODE)
    if run is None:
        return None
    return max(0, run - code) if code is not None else min(run, counted.get(PYTHON_START, 0))


def _counted(counters: Iterable[TaskCounter]) -> dict[str, int]:
    """Several nodes of one stage may count the same thing: together they are the task's."""
    found: dict[str, int] = {}
    for each in counters:
        if each.name in _READ:
            added = bytes(each.added).strip(b'"')
            if added.isdigit() and len(added) <= _LONGEST:
                found[each.name] = found.get(each.name, 0) + int(added)
    return found


def _known(number: int) -> int | None:
    return None if number == UNKNOWN else number
