"""Facts → metrics: the one definition of true rates, latency and overhead. Pure, and without Spark.

    symbol    meaning                                                              unit
    b         batch time, trigger to commit                                        s
    R_in      records an operator took in: what the marks upstream counted,        records
              or a source's own mark
    R_out     records it gave: what its own mark counted                           records
    T_u       its useful time, over all its stages                                 s
    v         true rate = R_in / T_u                                               records/s
    x         a record's latency = commit of its batch − its arrival               s

Marks say how many records there were, tasks how they spread over the instances: the tasks' own counts are scaled to
the marks. They differ where Spark combines rows before a shuffle, which depends on the batch and is nobody's rate.

Within a batch, arrivals are taken to be even between the first and the last one; the mean of x is exact all the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotrascale.analyze.facts import BatchFact, StageFact, TaskFact
from autotrascale.domain.snapshot import Latency, OperatorMetrics, Snapshot, Work
from autotrascale.domain.topology import Topology

Floats = NDArray[np.float64]
_CLOCK = 0.001  # seconds: Spark tells the time in milliseconds
QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class WindowFacts:
    """What a snapshot has no room for: the cost of the window and where its batches spent their time."""

    batches: int
    seconds: float
    batch_seconds: float  # mean b
    records: int
    core_seconds: float  # CPU time of the executors' JVMs; Python workers' own is not in it
    slot_seconds: float  # how long tasks held slots
    gc_share: float  # of slot_seconds
    idle_share: float  # h: the part of batch time in which no stage ran
    phases: Mapping[str, float]  # mean seconds for each of Spark's names
    state_keys: int


def window_facts(batches: Sequence[BatchFact]) -> WindowFacts:
    tasks = [task for batch in batches for task in batch.tasks]
    slot = sum(task.slot_seconds for task in tasks)
    return WindowFacts(
        batches=len(batches),
        seconds=window_seconds(batches),
        batch_seconds=batch_seconds(batches) or 0.0,
        records=sum(batch.input_records for batch in batches),
        core_seconds=sum(task.cpu_seconds for task in tasks),
        slot_seconds=slot,
        gc_share=min(1.0, sum(task.gc_seconds for task in tasks) / slot) if slot else 0.0,
        idle_share=overhead_share(batches),
        phases=_mean_phases(batches),
        state_keys=sum(state.keys for state in batches[-1].states),
    )


def snapshot(
    job: str, topology: Topology, p_max: int, source_rates: Mapping[str, float], batches: Sequence[BatchFact]
) -> Snapshot:
    """The window of these consecutive batches. Parallelism is what was seen to run, not what was asked for."""
    return Snapshot(
        job=job,
        window_seconds=window_seconds(batches),
        p_max=p_max,
        source_rates=dict(source_rates),
        operators={name: operator_metrics(name, topology, p_max, batches) for name in topology},
        execution="micro-batch",
        overhead_share=overhead_share(batches),
        batch_seconds=batch_seconds(batches),
        throughput=throughput(batches),
        latency_seconds=latency(topology, batches),
        backlog_records=backlog(source_rates, batches),
    )


def window_seconds(batches: Sequence[BatchFact]) -> float:
    return (batches[-1].committed_ms - batches[0].started_ms) / 1000


def batch_seconds(batches: Sequence[BatchFact]) -> float | None:
    """Mean b. Triggers that found nothing to do are no batches, so it is zero only where nothing was timed."""
    return sum(batch.seconds for batch in batches) / len(batches) or None if batches else None


def overhead_share(batches: Sequence[BatchFact]) -> float:
    """h: planning, logs, commits and the gaps between stages, as a share of batch time. It is this window's share: the
    same fixed seconds weigh more in shorter batches."""
    total = sum(batch.seconds for batch in batches)
    busy = sum(min(_covered(batch.stages), batch.seconds) for batch in batches)
    return max(0.0, 1 - busy / total) if total else 0.0


def throughput(batches: Sequence[BatchFact]) -> float | None:
    """Records committed per second: the slope of the committed sum over time, by least squares. A quotient of the
    window's totals would err by the difference between its first and its last batch."""
    if len(batches) < 3:
        return sum(batch.input_records for batch in batches) / window_seconds(batches) if batches else None
    at = np.array([batch.committed_ms for batch in batches]) / 1000
    sums = np.cumsum([batch.input_records for batch in batches])
    at = at - at.mean()
    return max(0.0, float(at @ (sums - sums.mean()) / (at @ at)))


def backlog(source_rates: Mapping[str, float], batches: Sequence[BatchFact]) -> float | None:
    """Records that arrived and were not committed when the last batch was: rate times the age of what came last."""
    waiting = 0.0
    for source, rate in source_rates.items():
        last = next((batch.marks[source].last for batch in reversed(batches) if source in batch.marks), None)
        if last is None:
            return None
        waiting += rate * max(0.0, batches[-1].committed_ms / 1000 - last)
    return waiting


def observed_rates(sources: Iterable[str], batches: Sequence[BatchFact]) -> dict[str, float]:
    """The rates at which records really arrived, for sources whose load is not ours to make."""
    rates = {}
    for source in sources:
        marks = [batch.marks[source] for batch in batches if source in batch.marks]
        seen = [mark for mark in marks if mark.first is not None and mark.last is not None]
        span = (seen[-1].last or 0.0) - (seen[0].first or 0.0) if seen else 0.0
        rates[source] = sum(mark.count for mark in seen) / span if span > 0 else 0.0
    return rates


def latency(topology: Topology, batches: Sequence[BatchFact]) -> Latency:
    """Of all records of all sources in the window, x = commit − arrival."""
    weights, sums, spans = [], [], []
    for batch in batches:
        commit = batch.committed_ms / 1000
        for source in topology.sources:
            mark = batch.marks.get(source)
            if mark is None or not mark.count or mark.first is None or mark.mean is None or mark.last is None:
                continue
            weights.append(float(mark.count))
            sums.append(mark.count * max(0.0, commit - mark.mean))
            spans.append((max(0.0, commit - mark.last), max(0.0, commit - mark.first)))
    if not weights:
        return Latency()
    low, high = np.array(spans).T
    quantiles = {name: _quantile(q, low, high, np.array(weights)) for name, q in QUANTILES.items()}
    return Latency(mean=sum(sums) / sum(weights), **quantiles)


def operator_metrics(name: str, topology: Topology, p_max: int, batches: Sequence[BatchFact]) -> OperatorMetrics:
    """One operator's instances. None of its tasks seen: its parallelism is not known either, so 1 and no numbers."""
    declared = topology.operators[name]
    mine = {stage.stage: stage for batch in batches for stage in batch.stages if stage.operator == name}
    tasks = [task for batch in batches for task in batch.tasks if task.stage in mine]
    instances = _instances(tasks, mine, _records_in(name, topology, batches), _count(name, batches))
    return OperatorMetrics(
        parallelism=max((stage.tasks for stage in mine.values()), default=1),
        upstream=declared.upstream,
        stateful=declared.stateful,
        minimum=declared.minimum,
        maximum=None if declared.maximum is None else min(declared.maximum, p_max),
        instances=instances,
    )


def _instances(
    tasks: Iterable[TaskFact], stages: Mapping[int, StageFact], records_in: int | None, records_out: int | None
) -> tuple[Work, ...]:
    """The tasks summed by index, their counts scaled to what the marks say."""
    by_index: dict[int, list[TaskFact]] = defaultdict(list)
    for task in tasks:
        by_index[task.index].append(task)
    order = sorted(by_index)
    took = [sum(task.records_in for task in by_index[i] if stages[task.stage].entry) for i in order]
    gave = [sum(task.records_out for task in by_index[i] if stages[task.stage].exit) for i in order]
    ins = _scaled(took, records_in)
    # The last stage writes to the sink and not to a shuffle: what it gives is spread like what it took.
    outs = _scaled(gave if any(gave) else took, records_out)
    return tuple(
        Work(
            records_in=ins[at],
            records_out=outs[at],
            useful_seconds=sum(task.useful_seconds for task in by_index[i]),
            waiting_seconds=sum(task.wait_seconds for task in by_index[i]),
            deserialise_seconds=sum(task.deserialise_seconds for task in by_index[i]),
            gc_seconds=sum(task.gc_seconds for task in by_index[i]),
        )
        for at, i in enumerate(order)
    )


def _records_in(name: str, topology: Topology, batches: Sequence[BatchFact]) -> int | None:
    """R_in: a source takes in what it gives, any other operator what its upstreams gave."""
    feeding = topology.operators[name].upstream or (name,)
    counts = [_count(upstream, batches) for upstream in feeding]
    return None if any(count is None for count in counts) else sum(count or 0 for count in counts)


def _count(name: str, batches: Sequence[BatchFact]) -> int | None:
    marks = [batch.marks.get(name) for batch in batches]
    return None if any(mark is None for mark in marks) else sum(mark.count for mark in marks if mark)


def _scaled(counts: Sequence[int], total: int | None) -> list[float | None]:
    """`counts` made to sum to `total`; without any count of their own, each gets the same."""
    if total is None:
        return [None] * len(counts)
    own = sum(counts)
    return [total * count / own if own else total / len(counts) for count in counts]


def _covered(stages: Iterable[StageFact]) -> float:
    """Seconds in which at least one stage ran."""
    covered, until = 0, 0
    for begin, end in sorted((stage.submitted_ms, stage.completed_ms) for stage in stages):
        covered += max(0, end - max(begin, until))
        until = max(until, end)
    return covered / 1000


def _mean_phases(batches: Sequence[BatchFact]) -> dict[str, float]:
    names = dict.fromkeys(name for batch in batches for name in batch.phases)
    return {name: sum(batch.phases.get(name, 0.0) for batch in batches) / len(batches) for name in names}


def _quantile(q: float, low: Floats, high: Floats, weights: Floats) -> float:
    """Of a mixture of even spreads over [low, high]. Its distribution function is linear between their ends, so the
    quantile lies on one straight piece."""
    high = np.maximum(high, low + _CLOCK)  # what arrived in one instant is spread over the clock's own step
    edges = np.unique(np.concatenate([low, high]))
    shares = np.clip((edges[:, None] - low) / (high - low), 0, 1)
    below = (weights * shares).sum(axis=1) / weights.sum()
    return float(np.interp(q, below, edges))
