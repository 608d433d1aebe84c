"""A query without marks as a job of one operator: the work of its executors in a window of batches.

    symbol    meaning                                                                        unit
    k         registered executors, or the share of them that the query may use
    c         cores of an executor, the mean where they differ
    T_e       useful time of the tasks that executor e ran (`task_facts`)                    s
    u_e       T_e / c, useful time of e as one instance                                      s
    N         records that the query's sources gave                                          records
    r_e       N · T_e / ΣT, records attributed to e                                          records
    λ         rate of the sources                                                            records/s
    load      λ · ΣT / (N · c): executors that would be busy all the time                    executors
    s_j, s    share of its work that one task of stage j does alone; of the whole query
    t_i, a_i  trigger of batch i; input time that it covers                                  s
    b_i, N_i  batch time and records of batch i                                              s, records
    q_i       records that the sources held back when batch i was planned                    records

The stages of a batch share the same slots, so executors are the resource of a query. The scheduler decides which
executor runs a task. So r_e follows T_e: every executor has the same rate N · c / ΣT, and the load does not depend on
the distribution of tasks. Where an executor ran no task, or the query may use only some executors, only the sums are
reported. They stand for all executors, and an idle executor adds no rate.

Undivided work. The time that one task of a stage takes beyond its even part stays when executors are added (a hot key,
a large partition). Tasks of the same index are summed over the window first, because chance would look like a key:

    s_j = (max T / ΣT − 1/P) / (1 − 1/P)  of P tasks,    s = c · Σ s_j T_j / ΣT,  at most 1.

Rate. Where the sources report the records they held back, λ = (Σ N_i + q_n − q_1) / (t_n − t_1), over all batches but
the first. Otherwise λ is the offered rate that Spark reports. It is too low where a source limits its batches and does
not report its backlog.

Backlog. The sources' own report counts. Sources without a report that give each batch all their records (files without
a limit) have a backlog of λ · b_n, the arrivals since the last batch was planned. The backlog of other sources is
unknown.

Latency is estimated, because the log does not hold the arrival of a record. Without a backlog, batch i takes the
records of the a_i seconds before its trigger. A record waits between 0 and a_i, half of it on average, and then for the
whole batch. With a backlog, the newest record is q_i / λ old at the trigger, and the oldest is (q_i + N_i) / λ old. So
the latencies of the records of batch i spread evenly over

    b_i + q_i / λ  ≤  latency  ≤  b_i + (q_i + N_i) / λ        or        b_i  ≤  latency  ≤  b_i + a_i

The wait before the source knows of a record, and the wait behind the sink, are not included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from autotrascale.analyze import metrics, queues, task_costs
from autotrascale.analyze.facts import BatchFact, StageFact, TaskFact
from autotrascale.analyze.sums import divide_or_none, sum_or_none
from autotrascale.analyze.task_costs import Costs
from autotrascale.domain.snapshot import Latency, NarrowWork, OperatorMetrics, Snapshot, Work
from autotrascale.domain.stages import StageTime
from autotrascale.domain.topology import Topology

OPERATOR = "executors"
TOPOLOGY = Topology.chain(OPERATOR)
LATENCY_IS_ESTIMATED = "latency is estimated from batch times and half of the trigger interval"
_CLOCK = 0.001
_HANDFUL = 5
_MOST_OVERHEAD = 0.95  # of a batch that has work to do


@dataclass(frozen=True)
class RunningExecutor:
    """An executor that is registered, by Spark's name. `since_ms` is the time of its registration."""

    executor: str
    host: str
    cores: int
    since_ms: int = 0


def take_query_snapshot(
    job: str,
    batches: Sequence[BatchFact],
    executors: Mapping[str, RunningExecutor],
    p_max: int,
    *,
    share: int | None = None,
    gives_all: bool = False,
    costs: Costs | None = None,
) -> Snapshot | None:
    """Return the snapshot of consecutive batches of one run; None where nothing says what the sources offer.

    Args:
        job: name of the query.
        batches: the batches, oldest first.
        executors: the registered executors, by name.
        p_max: bound for the executors.
        share: number of executors that the query may use; None for all.
        gives_all: the sources give each batch all records that they have.
        costs: fixed cost of a task of each stage in ms. It counts as a cost of the batch, and not as work.
    """
    rate = estimate_source_rate(batches)
    if not batches or rate is None:
        return None
    work, beside = task_costs.remove_task_costs(batches, costs or {})
    did = tasks_by_executor(work)
    k = share or len(executors) or len(did) or 1
    rates = {OPERATOR: rate}
    overhead = _overhead_share(batches, beside / (k * (mean_cores(executors) or 1.0)))
    lasted = None if overhead is None else (1 - overhead) * sum(batch.seconds for batch in batches) or None
    return Snapshot(
        job=job,
        window_seconds=max(_CLOCK, metrics.measure_window_seconds(batches)),
        p_max=max(p_max, k),
        source_rates=rates,
        operators={OPERATOR: replace(_operator(did, work, executors, k), stage_seconds=lasted)},
        execution="micro-batch",
        overhead_share=overhead,
        batch_seconds=metrics.mean_batch_seconds(batches),
        throughput=metrics.measure_throughput(batches),
        latency_seconds=estimate_latency(batches, rate),
        backlog_records=_backlog(rate, batches, gives_all=gives_all),
    )


def estimate_source_rate(batches: Sequence[BatchFact]) -> float | None:
    """Return λ in records/s, None where the log does not hold the counts."""
    seconds = (batches[-1].started_ms - batches[0].started_ms) / 1000 if batches else 0.0
    records = sum_or_none(batch.input_records for batch in batches[1:])
    first, last = (batches[0].behind, batches[-1].behind) if batches else (None, None)
    if seconds > 0 and records is not None and first is not None and last is not None:
        return max(0.0, (records + last - first) / seconds)
    offered = metrics.measure_offered_rate(batches)
    if offered is None and seconds > 0:
        return divide_or_none(seconds, records)
    return offered


def estimate_latency(batches: Sequence[BatchFact], rate: float) -> Latency:
    """Return the estimated latency of the records of all batches. `rate` is in records/s."""
    return metrics.mix_latencies([(low, high, batch.input_records or 0) for batch, low, high in _waits(batches, rate)])


def estimate_batch_latencies(batches: Sequence[BatchFact], rate: float) -> list[tuple[float, float]]:
    """Return the commit time in Unix seconds and the mean latency of each batch that had records."""
    return [(batch.committed_ms / 1000, (low + high) / 2) for batch, low, high in _waits(batches, rate)]


def estimate_trigger_seconds(batches: Sequence[BatchFact]) -> float:
    """Return the trigger interval in seconds; 0 where each batch follows the batch before.

    The log does not hold the interval. It is the usual time between two triggers where the first batch ended early.
    """
    pairs = [((later.started_ms - batch.started_ms) / 1000, batch.seconds) for batch, later in pairwise(batches)]
    waited = sorted(gap for gap, took in pairs if gap > 1.1 * took + 0.05)
    return round(waited[len(waited) // 2], 1) if 3 * len(waited) >= max(len(pairs), _HANDFUL) else 0.0


def find_source_kind(batches: Sequence[BatchFact]) -> Literal["kafka", "files"] | None:
    """Return the kind of the source of a query with one source, from the source's description."""
    described = batches[-1].sources if batches else ()
    if len(described) != 1:
        return None
    return "kafka" if described[0].startswith("Kafka") else "files" if described[0].startswith("FileStream") else None


def mean_cores(executors: Mapping[str, RunningExecutor]) -> float | None:
    """Return c, the mean cores of an executor; None without executors."""
    known = [each.cores for each in executors.values()]
    return sum(known) / len(known) if known else None


def tasks_by_executor(batches: Iterable[BatchFact]) -> dict[str, list[TaskFact]]:
    """Return the tasks of each executor. Tasks of an unknown executor stand under the empty name."""
    did: dict[str, list[TaskFact]] = defaultdict(list)
    for task in (task for batch in batches for task in batch.tasks):
        did[task.executor or ""].append(task)
    return dict(sorted(did.items()))


def measure_stages(batches: Sequence[BatchFact]) -> tuple[StageTime, ...]:
    """Return the stages in the order in which a batch runs them, as means over all batches."""
    stages: dict[str, list[StageFact]] = defaultdict(list)
    for stage in (stage for batch in batches for stage in batch.stages):
        stages[stage.operator].append(stage)
    tasks, last = _by_stage(batches), _last(batches)
    return tuple(
        StageTime(
            name=name,
            tasks=max(stage.tasks for stage in mine),
            seconds=sum(stage.completed_ms - stage.submitted_ms for stage in mine) / 1000 / len(batches),
            work_seconds=divide_or_none(1e3 * len(batches), _useful_ms(tasks[name])),
            hottest=_hottest(tasks[name]),
            reads_source=all(stage.first for stage in mine),
            stateful=any(stage.stateful for stage in mine),
            records_in=divide_or_none(len(batches), sum_or_none(task.read for task in tasks[name]) or None),
            records_out=divide_or_none(
                len(batches), _handed_on(tasks[name]) or (_output(batches) if name == last else None)
            ),
        )
        for name, mine in stages.items()
    )


def estimate_undivided(batches: Sequence[BatchFact], c: float) -> float | None:
    """Return s; None where the tasks' times are unknown."""
    alone = total = 0.0
    for tasks in _by_stage(batches).values():
        times = _by_index(tasks)
        if times is None:
            return None
        work = sum(times)
        total += work
        if len(times) > 1 and work:
            alone += work * max(0.0, (max(times) / work - 1 / len(times)) / (1 - 1 / len(times)))
    return min(1.0, c * alone / total) if total else None


def measure_narrow_source(batches: Sequence[BatchFact], c: float) -> NarrowWork | None:
    """Return the share of the work that reads Kafka topics, and the executors that their partitions keep busy.

    None where the query reads other sources, or the tasks' times are unknown. Several reading stages count as one stage
    that takes as long as all of them.
    """
    described = batches[-1].sources if batches else ()
    stages = measure_stages(batches)
    works = [stage.work_seconds for stage in stages]
    known = [work for work in works if work is not None]
    if not described or not all(each.startswith("Kafka") for each in described) or len(known) < len(works):
        return None
    reading = [(work, stage.tasks) for stage, work in zip(stages, known, strict=True) if stage.reads_source]
    read, lasts = sum(work for work, _ in reading), sum(work * c / tasks for work, tasks in reading)
    return NarrowWork(min(1.0, read / sum(known)), read / lasts) if read and lasts else None


def _operator(
    did: Mapping[str, Sequence[TaskFact]],
    batches: Sequence[BatchFact],
    executors: Mapping[str, RunningExecutor],
    k: int,
) -> OperatorMetrics:
    c = mean_cores(executors)
    records = sum_or_none(batch.input_records for batch in batches)
    total = _useful_ms([task for tasks in did.values() for task in tasks])
    one_by_one = did.keys() == executors.keys() and len(did) == k
    parts = list(did.values()) if one_by_one else [[task for tasks in did.values() for task in tasks]]
    works = tuple(_work(tasks, records, total, c) for tasks in parts)
    alone, part = (None, None) if c is None else (estimate_undivided(batches, c), measure_narrow_source(batches, c))
    if one_by_one:
        return OperatorMetrics(parallelism=k, instances=works, undivided=alone, narrow=part)
    (whole,) = works
    return OperatorMetrics(
        whole.records_in,
        None,
        whole.useful_seconds,
        whole.waiting_seconds,
        whole.deserialise_seconds,
        whole.gc_seconds,
        parallelism=k,
        undivided=alone,
        narrow=part,
    )


def _work(tasks: Sequence[TaskFact], records: int | None, total: int | None, c: float | None) -> Work:
    mine = _useful_ms(tasks)
    taken = None if records is None or mine is None or not total else records * mine / total
    return Work(
        records_in=taken,
        useful_seconds=_seconds(mine, c),
        waiting_seconds=_seconds(sum_or_none(task.wait_ms for task in tasks), c),
        deserialise_seconds=_seconds(sum_or_none(task.deserialise_ms for task in tasks), c),
        gc_seconds=_seconds(sum_or_none(task.gc_ms for task in tasks), c),
    )


def _overhead_share(batches: Sequence[BatchFact], beside: float) -> float | None:
    """Return h with the fixed costs of tasks added: `beside` is their time in seconds on all slots together."""
    idle, total = metrics.measure_overhead_share(batches), sum(batch.seconds for batch in batches)
    return idle if idle is None or not total else min(max(idle, _MOST_OVERHEAD), idle + beside / total)


def _backlog(rate: float, batches: Sequence[BatchFact], *, gives_all: bool) -> float | None:
    reported = queues.estimate_backlog({OPERATOR: rate}, batches)
    return rate * batches[-1].seconds if reported is None and gives_all else reported


def _seconds(milliseconds: int | None, c: float | None) -> float | None:
    return None if c is None else divide_or_none(1e3 * c, milliseconds)


def _waits(batches: Sequence[BatchFact], rate: float) -> Iterator[tuple[BatchFact, float, float]]:
    """Yield each batch with records, and the least and the greatest latency of its records in seconds."""
    for before, batch in pairwise([None, *batches]):
        if batch is None or not batch.input_records:
            continue
        if batch.behind is not None and rate > 0:
            low = batch.seconds + batch.behind / rate
            yield batch, low, low + batch.input_records / rate
        elif (covered := _covered(before, batch)) is not None:
            yield batch, batch.seconds, batch.seconds + covered


def _covered(before: BatchFact | None, batch: BatchFact) -> float | None:
    if batch.offered_seconds is not None:
        return batch.offered_seconds
    return None if before is None else max(0.0, (batch.started_ms - before.started_ms) / 1000)


def _by_stage(batches: Iterable[BatchFact]) -> dict[str, list[TaskFact]]:
    tasks: dict[str, list[TaskFact]] = defaultdict(list)
    for batch in batches:
        name_of = {stage.stage: stage.operator for stage in batch.stages}
        for task in batch.tasks:
            if task.stage in name_of:
                tasks[name_of[task.stage]].append(task)
    return tasks


def _by_index(tasks: Iterable[TaskFact]) -> list[int] | None:
    times: dict[int, int] = defaultdict(int)
    for task in tasks:
        if task.useful_ms is None:
            return None
        times[task.index] += task.useful_ms
    return list(times.values())


def _hottest(tasks: Sequence[TaskFact]) -> float | None:
    times = _by_index(tasks)
    total = sum(times or ())
    return max(times) * len(times) / total if times and total else None


def _handed_on(tasks: Sequence[TaskFact]) -> int | None:
    """Return the records to a shuffle or to files. A zero means little: Spark does not count most sinks."""
    return sum_or_none((sum_or_none(task.sent for task in tasks), sum_or_none(task.written for task in tasks)))


def _output(batches: Sequence[BatchFact]) -> int | None:
    return sum_or_none(batch.output_records for batch in batches) or None


def _last(batches: Sequence[BatchFact]) -> str | None:
    """Return the name of the stage that every batch ends with, None where batches end differently."""
    ends = {max(batch.stages, key=lambda stage: stage.stage).operator for batch in batches if batch.stages}
    return ends.pop() if len(ends) == 1 else None


def _useful_ms(tasks: Iterable[TaskFact]) -> int | None:
    return sum_or_none(task.useful_ms for task in tasks)
