"""The driver's activities in a batch, from the durations that Spark reports and from jobs, stages and tasks.

    Spark's name               activity
    latestOffset, getBatch …   asking sources for offsets, and for the records between them
    walCommit                  write-ahead log: the offsets of this batch
    queryPlanning              planning
    addBatch                   the batch's jobs, see below
    commitOffsets              commit log

Spark reports durations without times. They are placed in the order in which Spark does these things, from the trigger
on, and the commit ends with the batch. The rest is unknown. It is placed before addBatch as far as the jobs show that
addBatch began later, and behind addBatch otherwise.

Within addBatch the driver waits while tasks run. It schedules from the moment when a stage could begin (its job is
submitted, its parent stages have ended) to the stage's first task, and from the last task to the stage's end. Behind
the last job the sink commits. The time before and between jobs is unknown, unless the sink is the user's own function
(`foreachBatch`), which Spark calls there: then it is the sink's time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from autotrascale.analyze.critical.activities import Activity, Kind
from autotrascale.analyze.facts import BatchFact

DRIVER = "driver"
MOMENT = 0.01  # ms: least time of a launch in the driver, because Spark's clock has whole milliseconds
FOREACH_BATCH = "ForeachBatchSink"
_BEFORE = {
    "latestOffset": Kind.offsets,
    "getOffset": Kind.offsets,
    "setOffsetRange": Kind.offsets,
    "getEndOffset": Kind.offsets,
    "walCommit": Kind.log,
    "getBatch": Kind.offsets,
    "queryPlanning": Kind.planning,
}
_ADD_BATCH = "addBatch"
_AFTER = {"commitOffsets": Kind.commit, "commitBatch": Kind.commit}

Span = tuple[float, float]


@dataclass(frozen=True)
class DriverPhase:
    """An activity of the driver."""

    kind: Kind
    begin_ms: float
    end_ms: float


@dataclass(frozen=True)
class StageSpan:
    """The times of a stage: when it could begin, its first launch, its last task's end, and its own end."""

    ready_ms: float
    first_ms: float
    last_ms: float
    over_ms: float


@dataclass(frozen=True)
class BatchOutline:
    """The durations of a batch without its tasks. `jobs` is the time of addBatch."""

    before: tuple[DriverPhase, ...]
    jobs: Span
    after: tuple[DriverPhase, ...]


def outline_batch(batch: BatchFact) -> BatchOutline:
    """Place the durations of a batch one behind the other."""
    at, end = float(batch.started_ms), batch.committed_ms
    left = end - at
    lengths: dict[str, float] = {}
    for name in (*_BEFORE, *_AFTER, _ADD_BATCH):
        lengths[name] = min(max(batch.phases.get(name, 0.0) * 1000, 0.0), left)
        left -= lengths[name]
    before = []
    for name, kind in _BEFORE.items():
        before.append(DriverPhase(kind, at, at + lengths[name]))
        at += lengths[name]
    tail = end - sum(lengths[name] for name in _AFTER)
    late = max((float(stage.completed_ms) for stage in batch.stages), default=at) - (at + lengths[_ADD_BATCH])
    late = min(max(late, 0.0), left)
    begin = at + late
    jobs = (begin, begin + lengths[_ADD_BATCH]) if left - late > 0 else (begin, tail)
    before.append(DriverPhase(Kind.unknown, at, begin))
    after = [DriverPhase(Kind.unknown, jobs[1], tail)]
    for name, kind in _AFTER.items():
        after.append(DriverPhase(kind, tail, tail + lengths[name]))
        tail += lengths[name]
    return BatchOutline(_real(before), jobs, _real(after))


def split_add_batch(batch: BatchFact, jobs: Span, stages: Sequence[StageSpan]) -> tuple[DriverPhase, ...]:
    """Return the driver's activities in addBatch, without gaps and in order."""
    begin, end = jobs
    launches = [(s.ready_ms, max(s.first_ms, s.ready_ms + MOMENT)) for s in stages]
    scheduling = _merged([*launches, *((s.last_ms, s.over_ms) for s in stages)], jobs)
    waiting = _merged([(s.first_ms, s.last_ms) for s in stages], jobs)
    spans = _merged([(s.ready_ms, max(s.over_ms, s.ready_ms + MOMENT)) for s in stages], jobs)
    last = spans[-1][1] if spans else begin
    own = batch.sink.startswith(FOREACH_BATCH)
    edges = sorted({begin, end, *(edge for part in (scheduling, waiting, spans) for span in part for edge in span)})
    found: list[DriverPhase] = []
    for low, high in pairwise(edges):
        if _holds(waiting, low) and not _holds(scheduling, low):
            kind = Kind.waiting
        elif _holds(spans, low):
            kind = Kind.scheduling
        else:
            kind = Kind.sink if own or (spans and low >= last) else Kind.unknown
        if found and found[-1].kind is kind:
            low = found.pop().begin_ms
        found.append(DriverPhase(kind, low, high))
    return tuple(found)


def make_activities(phases: Iterable[DriverPhase]) -> list[Activity]:
    """Return the phases as activities of the driver's timeline."""
    return [Activity(DRIVER, phase.begin_ms, phase.end_ms, phase.kind) for phase in phases]


def _real(phases: Iterable[DriverPhase]) -> tuple[DriverPhase, ...]:
    return tuple(phase for phase in phases if phase.end_ms > phase.begin_ms)


def _merged(spans: Iterable[Span], within: Span) -> list[Span]:
    """Return the spans cut to the bounds, with touching spans merged."""
    found: list[Span] = []
    for low, high in sorted((max(low, within[0]), min(high, within[1])) for low, high in spans):
        if high <= low:
            continue
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def _holds(spans: Sequence[Span], at: float) -> bool:
    """Tell whether `at` lies in a span. A span includes its begin and excludes its end."""
    return any(low <= at < high for low, high in spans)
