"""What a task did with the time for which it held its slot.

    D       finish − launch, by the driver's clock                                        ms
    delay   D − deserialise − run − result serialisation: sending the task and its result ms

Spark tells how long each part took and not when: the parts stand in the order that is natural to a task, each once.
Records are fetched, processed and written in turns in truth. What a task's run has beside its told parts is processing:
of the stage's operator, as one stage is one operator here. A part never takes more than is left of what it is a part
of, since Spark reads its clocks one after another and counts some parts twice (collections of garbage during a fetch).
"""

from __future__ import annotations

from autotrascale.analyze.critical.activities import Kind
from autotrascale.analyze.facts import TaskFact

Phases = list[tuple[Kind, float]]

_BEFORE = ("fetch", "state_load", "python", "gc")
_KINDS = {
    "fetch": Kind.fetch,
    "state_load": Kind.state_load,
    "python": Kind.python,
    "gc": Kind.gc,
    "state_commit": Kind.state_commit,
    "shuffle_write": Kind.shuffle_write,
}


def split_task(task: TaskFact) -> Phases:
    """In order; they sum to the time that the task held its slot. Empty where the log does not say when that was."""
    times = task.times
    if times is None:
        return []
    held = float(times.finished_ms - times.launched_ms)
    if times.run_ms is None:
        return [(Kind.unknown, held)]
    run, left = _taken(times.run_ms, held)
    deserialise, left = _taken(task.deserialise_ms, left)
    serialise, delay = _taken(times.serialise_ms, left)
    told = {
        "shuffle_write": times.shuffle_write_ms,
        "state_commit": times.state_commit_ms,
        "fetch": task.wait_ms,
        "state_load": times.state_load_ms,
        "python": times.python_ms,
        "gc": task.gc_ms,
    }
    parts: dict[str, float] = {}
    for name, asked in told.items():  # the surest first: what is left may be too little for the last
        parts[name], run = _taken(asked, run)
    found: Phases = [(Kind.scheduling, delay), (Kind.deserialising, deserialise)]
    found += [(_KINDS[name], parts[name]) for name in _BEFORE]
    found.append((Kind.processing, run))
    found += [(_KINDS[name], parts[name]) for name in ("state_commit", "shuffle_write")]
    found.append((Kind.serialising, serialise))
    return [(kind, ms) for kind, ms in found if ms > 0]


def _taken(asked: float | None, left: float) -> tuple[float, float]:
    """What of it there is, and what is left then."""
    taken = min(max(asked or 0.0, 0.0), left)
    return taken, left - taken
