"""Waiting records of a micro-batch job, and the variability of arrivals and service, for queueing policies.

    symbol   meaning                                                                        unit
    b_i      time of batch i, trigger to commit                                             s
    t_i, a_i its trigger; a_i = t_i − t_{i−1}, the input time that it covers                s
    N_j, d_j records of a source that arrived in the interval j, and its length             records, s
    λ        ΣN_j / Σd_j                                                                    records/s
    r, u     records that a task read, and its useful time                                  records, s

Back-pressure. Within a batch no operator blocks another: stages run one after another. The input of the next batches
is held up when a batch takes longer than the input that it covers. While batches grow by a factor of c, only 1/c of
the arrivals find their batch in time. So the input is held up for the share

    P = 1 − Σa_i / Σb_i                     (= 1 − 1/c),

which is the share for which an operator of utilisation c blocks its upstream in a pipeline. P counts above the noise
of the first and the last batch. A P of zero takes five batches. A P above zero takes three, because a job far behind
does not finish five batches in a window. A job even further behind is judged by fewer batches and the batch in flight
(`stability.py`), which gives c or a lower bound of it: then P = 1 − 1/c. The operator whose stages take most of the
batch time is taken for the cause: all operators before it are held up for P, it and the others are not. Where this
operator is a source, no operator is held up. Where the source limits its batches, they do not grow: P is zero, and the
backlog shows the overload.

Backlog. At a source: records that arrived and were not committed with the last batch. Where sources report the records
held back (Kafka's offsets), the report is from the planning of the batch, and arrivals since then are added. Otherwise
the backlog is the age of the newest record times the rate. No records wait before other operators after a commit,
because a batch is processed as a whole.

Variability. c_a² = 1/(n−1) · Σ (N_j − λd_j)² / (λd_j), the index of dispersion: it derives the variability of gaps
from counts. c_s² = Σr · Σ(u²/r) / (Σu)² − 1: the variability of the time per record from task to task, a lower bound
of the variability from record to record. Both are None for fewer than five values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from autotrascale.analyze.facts import BatchFact, StageFact, TaskFact
from autotrascale.analyze.stability import NOISE
from autotrascale.analyze.sums import sum_or_none
from autotrascale.analyze.task_facts import SQUARE
from autotrascale.domain.topology import Topology

_MIN_VALUES = 5
_MIN_GROWING = 3  # batches whose growth counts, where it is above their noise


def estimate_backpressure(
    topology: Topology, batches: Sequence[BatchFact], growth: float | None = None
) -> dict[str, float] | None:
    """Return P by operator, None where it is unknown. `growth` is c, where another source knows it."""
    share, slowest = _held_up(batches), _slowest(topology, batches)
    if share is None and growth is not None and growth > 1:
        share = 1 - 1 / growth
    if share is None or slowest is None:
        return None
    before = _before(topology, slowest)
    return {name: share if name in before else 0.0 for name in topology}


def estimate_backlogs(source_rates: Mapping[str, float], batches: Sequence[BatchFact]) -> dict[str, float | None]:
    """Return the waiting records by source. `source_rates` are in records/s."""
    if len(source_rates) == 1 and (waiting := _behind(source_rates, batches)) is not None:
        return dict.fromkeys(source_rates, waiting)
    return {source: _by_age(source, rate, batches) for source, rate in source_rates.items()}


def estimate_backlog(source_rates: Mapping[str, float], batches: Sequence[BatchFact]) -> float | None:
    """Return the waiting records of all sources together, None where they are unknown."""
    if (waiting := _behind(source_rates, batches)) is not None:
        return waiting
    each = estimate_backlogs(source_rates, batches).values()
    return None if None in each else math.fsum(waiting or 0.0 for waiting in each)


def measure_arrival_cv2(source: str, topology: Topology, batches: Sequence[BatchFact]) -> float | None:
    """Return c_a² of a source, None for fewer than five intervals."""
    intervals = _arrivals(source, topology, batches)
    seconds, records = sum(d for _, d in intervals), sum(n for n, _ in intervals)
    if len(intervals) < _MIN_VALUES or not seconds or not records:
        return None
    rate = records / seconds
    spread = math.fsum((n - rate * d) ** 2 / (rate * d) for n, d in intervals)
    return spread / (len(intervals) - 1)


def measure_service_cv2(stages: Sequence[StageFact], tasks: Sequence[TaskFact]) -> float | None:
    """Return c_s² of the operator with these stages and tasks.

    None for fewer than five tasks, and where the operator runs as several stages: then the time of a record is unknown.
    """
    read, served, squares = (
        sum_or_none(getattr(task, name) for task in tasks) for name in ("read", "served_ms", "served_squares")
    )
    apart = not all(stage.entry and stage.exit for stage in stages)
    if apart or sum(stage.tasks for stage in stages) < _MIN_VALUES or not read or not served or squares is None:
        return None
    return max(0.0, read * squares / SQUARE / served**2 - 1)


def _held_up(batches: Sequence[BatchFact]) -> float | None:
    """Return P over all batches but the first, whose input time is not in the window."""
    n = len(batches) - 1
    covered = (batches[-1].started_ms - batches[0].started_ms) / 1000 if batches else 0.0
    took = math.fsum(batch.seconds for batch in batches[1:])
    if n + 1 < _MIN_GROWING or covered <= 0 or took <= 0:
        return None
    share = 1 - covered / took
    noise = 2 * math.sqrt(2) * NOISE / n  # two standard errors of b_n − b_0, which Σb − Σa comes to
    if share > noise:
        return share
    return 0.0 if n + 1 >= _MIN_VALUES else None


def _slowest(topology: Topology, batches: Sequence[BatchFact]) -> str | None:
    """Return the operator whose stages took most time; of equals the first by name."""
    took = dict.fromkeys(topology, 0)
    for stage in (stage for batch in batches for stage in batch.stages):
        if stage.operator in took:
            took[stage.operator] += stage.completed_ms - stage.submitted_ms
    return max(sorted(took), key=lambda name: took[name]) if any(took.values()) else None


def _before(topology: Topology, operator: str) -> set[str]:
    """Return all operators upstream of `operator`."""
    found: set[str] = set()
    todo = [operator]
    while todo:
        above = set(topology.operators[todo.pop()].upstream) - found
        found |= above
        todo += above
    return found


def _behind(source_rates: Mapping[str, float], batches: Sequence[BatchFact]) -> float | None:
    """Return the waiting records that the sources report, with the arrivals since."""
    last = batches[-1] if batches else None
    if last is None or last.behind is None:
        return None
    return last.behind + math.fsum(source_rates.values()) * last.seconds


def _by_age(source: str, rate: float, batches: Sequence[BatchFact]) -> float | None:
    newest = next((batch.marks[source].last for batch in reversed(batches) if source in batch.marks), None)
    return None if newest is None else rate * max(0.0, batches[-1].committed_ms / 1000 - newest)


def _arrivals(source: str, topology: Topology, batches: Sequence[BatchFact]) -> list[tuple[int, float]]:
    """Return (N_j, d_j) of a source.

    Intervals lie between the newest arrivals of batches where the source's mark has them, else between triggers.
    """
    marks = [batch.marks.get(source) for batch in batches]
    if any(mark is not None and mark.last is not None for mark in marks):
        points = [(mark.count, mark.last) for mark in marks if mark is not None and mark.last is not None]
    elif all(mark is not None for mark in marks):
        points = [(mark.count, batch.started_ms / 1000) for mark, batch in zip(marks, batches, strict=True) if mark]
    elif topology.sources == (source,):
        known = [(batch.input_records, batch.started_ms / 1000) for batch in batches]
        points = [(records, at) for records, at in known if records is not None]
    else:
        return []
    return _intervals(points)


def _intervals(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return the records and lengths between points. Records of points at the same instant are of one interval."""
    found: list[tuple[int, float]] = []
    waiting, before = 0, points[0][1] if points else 0.0
    for records, at in points[1:]:
        waiting += records
        if at > before:
            found.append((waiting, at - before))
            waiting, before = 0, at
    return found
