"""A query without marks as a job of one operator: what its executors did in a window of batches.

    symbol    meaning                                                                        unit
    k         executors that are there, or the share of them that the query may use
    c         cores of an executor, their mean where they differ
    T_e       useful time of the tasks that executor e ran (`tasks`)                         s
    u_e       T_e / c, how long it was useful as one instance                                s
    N         records that the query's sources gave                                          records
    r_e       N · T_e / ΣT, the records that it took in
    λ         rate of the sources                                                            records/s
    load      λ · ΣT / (N · c): executors that would be busy all the time                    executors
    s_j, s    share of its work that one task of stage j does alone; of the whole query
    t_i, a_i  trigger of batch i; input time that it covers                                  s
    b_i, N_i  batch time, its records                                                        s, records
    q_i       records that the sources held back when batch i was planned                    records

The stages of a batch take turns on the same slots, so executors are what a query has more or less of. Who ran which
task is the scheduler's doing: r_e follows T_e, so that every executor has one and the same rate N · c / ΣT, and the
load does not depend on how tasks were dealt out. Where an executor ran none of them, or the query may use only a share,
there are the sums alone: they stand for all, and an idle executor adds no rate.

Undivided work. What one task of a stage took beside its even part stays when there are more executors (a hot key, a
large partition). Tasks of the same number are added up over the window first, or chance would look like a key:

    s_j = (max T / ΣT − 1/P) / (1 − 1/P)  of P tasks,    s = c · Σ s_j T_j / ΣT,  at most 1.

Rate. Where the sources say what they held back, λ = (Σ N_i + q_n − q_1) / (t_n − t_1), over all batches but the first;
else what was offered as Spark tells it, which is less than what arrives where the source limits a batch and is silent.

Backlog. In the words of the sources where they have any. Of those that are silent and are known to give each batch all
that there is (files without a limit), it is what arrived since the last batch was planned, λ · b_n. Of others nobody
knows.

Latency is estimated, as nothing says when a record arrived. Without a backlog batch i took what came in the a_i seconds
before its trigger: a record waited between 0 and a_i, half of it on average, and then for the whole batch. With one the
newest record was q_i / λ old at the trigger and the oldest (q_i + N_i) / λ. So of the records of batch i

    b_i + q_i / λ  ≤  latency  ≤  b_i + (q_i + N_i) / λ        or        b_i  ≤  latency  ≤  b_i + a_i

evenly spread. What a record waits before the source knows of it, or behind the sink, is not in it.
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
LATENCY_IS_ESTIMATED = (
    "latency is estimated: from the batches, and from half of the time between triggers that a record waits on average"
)
_CLOCK = 0.001
_HANDFUL = 5
_MOST_OVERHEAD = 0.95  # of a batch that has work to do


@dataclass(frozen=True)
class RunningExecutor:
    """One that is there, by Spark's name."""

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
    """The window of these consecutive batches of one run; None where nothing says what its sources offer. `share`: how
    many of the executors the query may use, where it is not all. `gives_all`: of its sources, who knows it. `costs`:
    what tasks cost whatever they are given, which is then no work of the executors but a part of each batch's cost."""
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
    """λ."""
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
    """Of the records of all batches, as it is estimated."""
    return metrics.mix_latencies([(low, high, batch.input_records or 0) for batch, low, high in _waits(batches, rate)])


def estimate_batch_latencies(batches: Sequence[BatchFact], rate: float) -> list[tuple[float, float]]:
    """Of each batch that had records: when it was done, in Unix seconds, and their mean latency."""
    return [(batch.committed_ms / 1000, (low + high) / 2) for batch, low, high in _waits(batches, rate)]


def estimate_trigger_seconds(batches: Sequence[BatchFact]) -> float:
    """The interval at which batches are triggered; 0 where each follows the one before. The log does not say it: it is
    the usual time between two triggers of which the first one's batch was done early."""
    pairs = [((later.started_ms - batch.started_ms) / 1000, batch.seconds) for batch, later in pairwise(batches)]
    waited = sorted(gap for gap, took in pairs if gap > 1.1 * took + 0.05)
    return round(waited[len(waited) // 2], 1) if 3 * len(waited) >= max(len(pairs), _HANDFUL) else 0.0


def find_source_kind(batches: Sequence[BatchFact]) -> Literal["kafka", "files"] | None:
    """Of a query with one source, as it describes itself."""
    described = batches[-1].sources if batches else ()
    if len(described) != 1:
        return None
    return "kafka" if described[0].startswith("Kafka") else "files" if described[0].startswith("FileStream") else None


def mean_cores(executors: Mapping[str, RunningExecutor]) -> float | None:
    """c; None where no executor said how many it has."""
    known = [each.cores for each in executors.values()]
    return sum(known) / len(known) if known else None


def tasks_by_executor(batches: Iterable[BatchFact]) -> dict[str, list[TaskFact]]:
    """The tasks of each executor. Those of which nobody said where they ran are one's of no name."""
    did: dict[str, list[TaskFact]] = defaultdict(list)
    for task in (task for batch in batches for task in batch.tasks):
        did[task.executor or ""].append(task)
    return dict(sorted(did.items()))


def measure_stages(batches: Sequence[BatchFact]) -> tuple[StageTime, ...]:
    """In the order in which a batch runs them. Stages that had nothing to do in some batches count for all."""
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
    """s; None where the tasks' times are not known."""
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
    """The part of the work that is reading topics, and how many executors their partitions keep busy; None where no
    topic is read, or the tasks' times are not known. Of several, as if they were one that lasts as long as they do."""
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
    """With the seconds that tasks took whatever they were given, as long as they were on all slots together."""
    idle, total = metrics.measure_overhead_share(batches), sum(batch.seconds for batch in batches)
    return idle if idle is None or not total else min(max(idle, _MOST_OVERHEAD), idle + beside / total)


def _backlog(rate: float, batches: Sequence[BatchFact], *, gives_all: bool) -> float | None:
    said = queues.estimate_backlog({OPERATOR: rate}, batches)
    return rate * batches[-1].seconds if said is None and gives_all else said


def _seconds(milliseconds: int | None, c: float | None) -> float | None:
    return None if c is None else divide_or_none(1e3 * c, milliseconds)


def _waits(batches: Sequence[BatchFact], rate: float) -> Iterator[tuple[BatchFact, float, float]]:
    """The least and the most that a record of each batch took."""
    for before, batch in pairwise([None, *batches]):
        if batch is None or not batch.input_records:
            continue
        if batch.behind is not None and rate > 0:
            low = batch.seconds + batch.behind / rate
            yield batch, low, low + batch.input_records / rate
        elif (covered := _covered(before, batch)) is not None:
            yield batch, batch.seconds, batch.seconds + covered


def _covered(before: BatchFact | None, batch: BatchFact) -> float | None:
    """a_i."""
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
    """To a shuffle or to files. Zero says little: Spark counts nothing that goes to most sinks, or to the driver."""
    return sum_or_none((sum_or_none(task.sent for task in tasks), sum_or_none(task.written for task in tasks)))


def _output(batches: Sequence[BatchFact]) -> int | None:
    """What the sink says that it took."""
    return sum_or_none(batch.output_records for batch in batches) or None


def _last(batches: Sequence[BatchFact]) -> str | None:
    """The stage that every batch ends with, where there is such a one."""
    ends = {max(batch.stages, key=lambda stage: stage.stage).operator for batch in batches if batch.stages}
    return ends.pop() if len(ends) == 1 else None


def _useful_ms(tasks: Iterable[TaskFact]) -> int | None:
    return sum_or_none(task.useful_ms for task in tasks)
