"""The phases of a task while it holds its slot.

    D       finish − launch, by the driver's clock                                        ms
    delay   D − deserialise − run − result serialisation: sending the task and its result ms

Spark reports the length of each part and not its time. The parts stand once each, in the natural order of a task. In
truth records are fetched, processed and written in turns. The rest of a task's run time beside the reported parts is
processing by the stage's operator, as one stage is one operator here. A part never takes more than the rest of its
whole, because Spark reads its clocks one after another and counts some parts twice (garbage collection in a fetch).
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
    """Return the phases in order. They sum to the slot time. Empty where the log does not hold the task's times."""
    times = task.times
    if times is None:
        return []
    held = float(times.finished_ms - times.launched_ms)
    if times.run_ms is None:
        return [(Kind.unknown, held)]
    run, left = _split_off(times.run_ms, held)
    deserialise, left = _split_off(task.deserialise_ms, left)
    serialise, delay = _split_off(times.serialise_ms, left)
    reported = {
        "shuffle_write": times.shuffle_write_ms,
        "state_commit": times.state_commit_ms,
        "fetch": task.wait_ms,
        "state_load": times.state_load_ms,
        "python": times.python_ms,
        "gc": task.gc_ms,
    }
    parts: dict[str, float] = {}
    for name, asked in reported.items():  # the most certain first: the rest may be too short for the last
        parts[name], run = _split_off(asked, run)
    found: Phases = [(Kind.scheduling, delay), (Kind.deserialising, deserialise)]
    found += [(_KINDS[name], parts[name]) for name in _BEFORE]
    found.append((Kind.processing, run))
    found += [(_KINDS[name], parts[name]) for name in ("state_commit", "shuffle_write")]
    found.append((Kind.serialising, serialise))
    return [(kind, ms) for kind, ms in found if ms > 0]


def _split_off(asked: float | None, left: float) -> tuple[float, float]:
    """Split `left` into the part `asked` and the rest."""
    taken = min(max(asked or 0.0, 0.0), left)
    return taken, left - taken
