"""Facts → metrics: the one definition of throughput, latency, overhead and source rates. Pure, and without Spark.

    symbol    meaning                                                              unit
    b         batch time, trigger to commit                                        s
    h         overhead: share of batch time in which no stage ran
    T_i       time in which stages of operator i ran: ΣT_i = (1 − h) · Σb          s
    λ_src     observed rate of a source                                            records/s
    x         latency of a record = commit of its batch − its arrival              s

The work of one operator is in `operator_metrics`, queues and variability are in `queues`.

Within a batch, arrivals are taken to be even between the first and the last arrival. The mean of x is exact all the
same.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from autotrascale.analyze import queues
from autotrascale.analyze.facts import BatchFact, StageFact
from autotrascale.analyze.operator_metrics import count_records_in, measure_operator
from autotrascale.analyze.sums import divide_or_none, sum_or_none
from autotrascale.domain.snapshot import Latency, OperatorMetrics, Snapshot
from autotrascale.domain.topology import Topology

Floats = NDArray[np.float64]
_CLOCK = 0.001  # seconds: the resolution of Spark's clock
QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class WindowFacts:
    """Facts of a window outside its snapshot: its cost, and the distribution of batch time over phases."""

    batches: int
    seconds: float
    batch_seconds: float  # mean b
    records: int | None
    core_seconds: float | None  # CPU time of the executors' JVMs; Python workers' own is not in it
    slot_seconds: float | None  # how long tasks held slots
    gc_share: float | None  # of slot_seconds
    idle_share: float | None  # h: the part of batch time in which no stage ran
    phases: Mapping[str, float]  # mean seconds for each of Spark's names
    state_keys: int | None


def measure_window(batches: Sequence[BatchFact]) -> WindowFacts:
    """Return the facts of the window of these consecutive batches."""
    tasks = [task for batch in batches for task in batch.tasks]
    slot, gc = sum_or_none(task.slot_ms for task in tasks), sum_or_none(task.gc_ms for task in tasks)
    return WindowFacts(
        batches=len(batches),
        seconds=measure_window_seconds(batches),
        batch_seconds=mean_batch_seconds(batches) or 0.0,
        records=sum_or_none(batch.input_records for batch in batches),
        core_seconds=divide_or_none(1e9, sum_or_none(task.cpu_ns for task in tasks)),
        slot_seconds=divide_or_none(1e3, slot),
        gc_share=None if slot is None or gc is None else min(1.0, gc / slot) if slot else 0.0,
        idle_share=measure_overhead_share(batches),
        phases=_mean_phases(batches),
        state_keys=sum_or_none(state.keys for state in batches[-1].states),
    )


def take_snapshot(
    job: str,
    topology: Topology,
    p_max: int,
    source_rates: Mapping[str, float],
    batches: Sequence[BatchFact],
    *,
    marked: bool = True,
    growth: float | None = None,
) -> Snapshot:
    """Return the snapshot of consecutive batches. Its parallelism is the observed one.

    Args:
        job: name of the job.
        topology: operators of the job.
        p_max: bound for the parallelism of each operator.
        source_rates: records/s of each source.
        batches: the batches, oldest first.
        marked: marks count the records; otherwise the tasks do.
        growth: factor between consecutive batch times, where more is known than these batches show.
    """
    return Snapshot(
        job=job,
        window_seconds=max(_CLOCK, measure_window_seconds(batches)),
        p_max=p_max,
        source_rates=dict(source_rates),
        operators=_operators(topology, p_max, source_rates, batches, marked, growth),
        execution="micro-batch",
        overhead_share=measure_overhead_share(batches),
        batch_seconds=mean_batch_seconds(batches),
        throughput=measure_throughput(batches),
        latency_seconds=measure_latency(topology, batches),
        backlog_records=queues.estimate_backlog(source_rates, batches) if is_stream(batches) else None,
        slots=find_slots(batches),
    )


def is_stream(batches: Sequence[BatchFact]) -> bool:
    """Tell whether each batch has a progress record. A query that is no stream has no backlog and no arrivals."""
    return all(batch.input_records is not None for batch in batches)


def measure_window_seconds(batches: Sequence[BatchFact]) -> float:
    """Return the time from the first trigger to the last commit in seconds."""
    return (batches[-1].committed_ms - batches[0].started_ms) / 1000


def mean_batch_seconds(batches: Sequence[BatchFact]) -> float | None:
    """Return mean b. Triggers without work are no batches, so a zero means that nothing was timed: None."""
    return sum(batch.seconds for batch in batches) / len(batches) or None if batches else None


def measure_overhead_share(batches: Sequence[BatchFact]) -> float | None:
    """Return h: planning, logs, commits and gaps between stages, as a share of batch time.

    It is the share of this window. The same fixed seconds have a larger share in shorter batches.
    """
    total = sum(batch.seconds for batch in batches)
    if not total or not any(batch.stages for batch in batches):
        return None
    busy = sum(min(_covered(batch.stages), batch.seconds) for batch in batches)
    return max(0.0, 1 - busy / total)


def measure_stage_seconds(batches: Sequence[BatchFact]) -> dict[str, float]:
    """Return T_i by operator. Operators that share an instant share its time evenly.

    An operator that ran for less than the resolution of the clock is left out.
    """
    lasted: dict[str, list[float]] = defaultdict(list)
    for batch in batches:
        # Stages may end after the batch, by the clocks of two events. The batch time bounds them.
        fits = min(1.0, batch.seconds / covered) if (covered := _covered(batch.stages)) else 0.0
        for milliseconds, running in _stretches(batch.stages):
            for name in running:
                lasted[name].append(fits * milliseconds / 1000 / len(running))
    sums = {name: math.fsum(parts) for name, parts in lasted.items()}
    return {name: total for name, total in sums.items() if total > 0}


def find_slots(batches: Sequence[BatchFact]) -> int | None:
    """Return the tasks that could run at once, None unless the number was the same in all batches."""
    slots = {batch.slots for batch in batches}
    return slots.pop() if len(slots) == 1 else None


def measure_throughput(batches: Sequence[BatchFact]) -> float | None:
    """Return records committed per second: the slope of the committed sum over time, by least squares.

    A quotient of the window's totals would err by the difference between its first and its last batch.
    """
    records = [batch.input_records for batch in batches if batch.input_records is not None]
    if not batches or len(records) < len(batches):
        return None
    if len(batches) < 3:
        return sum(records) / max(_CLOCK, measure_window_seconds(batches))
    at = np.array([batch.committed_ms for batch in batches]) / 1000
    sums = np.cumsum(records)
    at = at - at.mean()
    return max(0.0, float(at @ (sums - sums.mean()) / (at @ at))) if at.any() else None


def measure_source_rates(
    topology: Topology, batches: Sequence[BatchFact], *, marked: bool = True
) -> dict[str, float] | None:
    """Return λ_src of each source, None where it is unknown.

    The rate is taken from the arrival times of the source's mark. Without them, it is Spark's input rate, divided in
    proportion to the records. Without Spark's rate, it is the records over the window's length.
    """
    arrivals = {source: _arrival_rate(source, batches) for source in topology.sources}
    if all(arrivals.values()):
        return {source: rate for source, rate in arrivals.items() if rate is not None}
    counts = {source: count_records_in(source, topology, batches, marked) for source in arrivals}
    offered = measure_offered_rate(batches)
    if offered is not None and len(counts) == 1:
        return dict.fromkeys(counts, offered)
    known = {source: count for source, count in counts.items() if count is not None}
    if len(known) < len(counts):
        return None
    total = sum(known.values())
    if offered is None or not total:
        return {source: count / max(_CLOCK, measure_window_seconds(batches)) for source, count in known.items()}
    return {source: offered * count / total for source, count in known.items()}


def find_parallelism(topology: Topology, batches: Iterable[BatchFact]) -> dict[str, int]:
    """Return the observed instances by operator. An operator without a stage is left out."""
    seen: dict[str, int] = {}
    for stage in (stage for batch in batches for stage in batch.stages):
        seen[stage.operator] = max(stage.tasks, seen.get(stage.operator, 0))
    return {name: seen[name] for name in topology if name in seen}


def measure_latency(topology: Topology, batches: Sequence[BatchFact]) -> Latency:
    """Return the latency x of all records of all sources in the window."""
    spread: list[tuple[float, float, int]] = []
    means = []
    for batch in batches:
        commit = batch.committed_ms / 1000
        for mark in (batch.marks[source] for source in topology.sources if source in batch.marks):
            if not mark.count or mark.first is None or mark.mean is None or mark.last is None:
                continue
            means.append(mark.count * max(0.0, commit - mark.mean))
            spread.append((max(0.0, commit - mark.last), max(0.0, commit - mark.first), mark.count))
    return mix_latencies(spread, math.fsum(means) / sum(count for *_, count in spread) if spread else None)


def mix_latencies(spread: Sequence[tuple[float, float, int]], mean: float | None = None) -> Latency:
    """Return the latency of groups of records, each spread evenly between a least and a greatest latency.

    `spread` holds least and greatest latency in seconds and the number of records. `mean` replaces the computed mean.
    """
    if not spread:
        return Latency()
    low, high, weights = np.array(sorted(spread)).T
    quantiles = {name: _quantile(q, low, high, weights) for name, q in QUANTILES.items()}
    return Latency(mean=float(weights @ (low + high) / 2 / weights.sum()) if mean is None else mean, **quantiles)


def _operators(
    topology: Topology,
    p_max: int,
    rates: Mapping[str, float],
    batches: Sequence[BatchFact],
    marked: bool,
    growth: float | None,
) -> dict[str, OperatorMetrics]:
    lasted = measure_stage_seconds(batches)
    plain = {
        name: replace(measure_operator(name, topology, p_max, batches, marked=marked), stage_seconds=lasted.get(name))
        for name in topology
    }
    if not is_stream(batches):
        return plain
    held_up = queues.estimate_backpressure(topology, batches, growth)
    waiting = dict.fromkeys(topology, 0.0) | queues.estimate_backlogs(rates, batches)
    return {
        name: replace(
            metrics,
            backpressure=held_up[name] if held_up else None,
            backlog_records=waiting[name],
            arrival_cv2=queues.measure_arrival_cv2(name, topology, batches) if name in topology.sources else None,
        )
        for name, metrics in plain.items()
    }


def _arrival_rate(source: str, batches: Sequence[BatchFact]) -> float | None:
    """Return the records over the time from the first arrival to the last; None without arrival times."""
    marks = [batch.marks[source] for batch in batches if source in batch.marks]
    seen = [mark for mark in marks if mark.first is not None and mark.last is not None]
    span = (seen[-1].last or 0.0) - (seen[0].first or 0.0) if seen else 0.0
    return sum(mark.count for mark in seen) / span if span > 0 else None


def measure_offered_rate(batches: Sequence[BatchFact]) -> float | None:
    """Return the records per second of input time, None where it is unknown.

    Spark reports no rate for an empty batch: it covers the time since the trigger before.
    """
    records, seconds = 0, 0.0
    for before, batch in pairwise([None, *batches]):
        if batch is None or batch.input_records is None:
            return None
        if batch.offered_seconds is not None:
            records, seconds = records + batch.input_records, seconds + batch.offered_seconds
        elif before is not None and batch.input_records == 0:
            seconds += (batch.started_ms - before.started_ms) / 1000
    return records / seconds if seconds > 0 else None


def _covered(stages: Iterable[StageFact]) -> float:
    """Return the seconds in which at least one stage ran."""
    return sum(milliseconds for milliseconds, _ in _stretches(stages)) / 1000


def _stretches(stages: Iterable[StageFact]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield consecutive stretches of time in milliseconds, each with the operators whose stages ran in it."""
    timed = [stage for stage in stages if stage.completed_ms > stage.submitted_ms]
    begins = [(stage.submitted_ms, 1, stage.operator) for stage in timed]
    ends = [(stage.completed_ms, -1, stage.operator) for stage in timed]
    running: dict[str, int] = {}
    before = 0
    for at, change, name in sorted(begins + ends):
        if running and at > before:
            yield at - before, tuple(running)
        before = at
        running[name] = running.get(name, 0) + change
        if not running[name]:
            del running[name]


def _mean_phases(batches: Sequence[BatchFact]) -> dict[str, float]:
    names = dict.fromkeys(name for batch in batches for name in batch.phases)
    return {name: sum(batch.phases.get(name, 0.0) for batch in batches) / len(batches) for name in names}


def _quantile(q: float, low: Floats, high: Floats, weights: Floats) -> float:
    """Return the quantile q of a mixture of even spreads over [low, high].

    The distribution function is linear between the ends of the spreads, so the quantile lies on one straight piece.
    """
    high = np.maximum(high, low + _CLOCK)  # arrivals of one instant are spread over the clock's resolution
    edges = np.unique(np.concatenate([low, high]))
    shares = np.clip((edges[:, None] - low) / (high - low), 0, 1)
    below = (weights * shares).sum(axis=1) / weights.sum()
    return float(np.interp(q, below, edges))
