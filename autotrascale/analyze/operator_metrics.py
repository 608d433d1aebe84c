"""One operator in a window: the work of its instances, from its tasks and from the counts of marks.

    symbol    meaning                                                              unit
    R_in      input records of an operator: the counts of the marks upstream,      records
              or of a source's own mark
    R_out     output records: the count of its own mark                            records

Marks give the number of records, tasks give their distribution over the instances: the tasks' own counts are scaled to
the marks. The two differ where Spark combines rows before a shuffle, which depends on the batch. Without marks only the
tasks' own counts exist. An unknown number makes every result unknown that contains it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from autotrascale.analyze import queues
from autotrascale.analyze.facts import BatchFact, StageFact, TaskFact
from autotrascale.analyze.sums import divide_or_none, sum_or_none
from autotrascale.domain.snapshot import OperatorMetrics, Work
from autotrascale.domain.topology import Topology


def measure_operator(
    name: str, topology: Topology, p_max: int, batches: Sequence[BatchFact], *, marked: bool = True
) -> OperatorMetrics:
    """Return the work of an operator's instances. Without tasks its parallelism is 1 and its numbers are unknown."""
    declared = topology.operators[name]
    stages = [stage for batch in batches for stage in batch.stages if stage.operator == name]
    mine = {stage.stage: stage for stage in stages}
    tasks = [task for batch in batches for task in batch.tasks if task.stage in mine]
    counted = (count_records_in(name, topology, batches, marked), _count(name, batches)) if marked else None
    return OperatorMetrics(
        parallelism=max((stage.tasks for stage in stages), default=1),
        upstream=declared.upstream,
        stateful=declared.stateful,
        minimum=declared.minimum,
        maximum=None if declared.maximum is None else min(declared.maximum, p_max),
        instances=_instances(tasks, mine, counted),
        service_cv2=queues.measure_service_cv2(stages, tasks),
    )


def count_records_in(name: str, topology: Topology, batches: Sequence[BatchFact], marked: bool) -> int | None:
    """Return R_in: a source takes in its own output, another operator the output of its upstreams.

    Without marks, R_in counts the records that the operator's tasks read.
    """
    if marked:
        feeding = topology.operators[name].upstream or (name,)
        return sum_or_none(_count(upstream, batches) for upstream in feeding)
    mine = {stage.stage for batch in batches for stage in batch.stages if stage.operator == name}
    return sum_or_none(task.read for batch in batches for task in batch.tasks if task.stage in mine)


def _instances(
    tasks: Iterable[TaskFact], stages: Mapping[int, StageFact], counted: tuple[int | None, int | None] | None
) -> tuple[Work, ...]:
    """Return the tasks summed by index, with their counts scaled to the totals of the marks (`counted`)."""
    by_index: dict[int, list[TaskFact]] = defaultdict(list)
    for task in tasks:
        by_index[task.index].append(task)
    order = sorted(by_index)
    took = [sum_or_none(task.read for task in by_index[i] if stages[task.stage].entry) for i in order]
    gave = [sum_or_none(task.sent for task in by_index[i] if stages[task.stage].exit) for i in order]
    if counted is None:
        wrote = [sum_or_none(task.written for task in by_index[i]) for i in order]
        ins: list[float | None] = list(took)
        outs: list[float | None] = [sum_or_none(pair) for pair in zip(gave, wrote, strict=True)]
    else:
        ins = _scaled(took, counted[0])
        # The last stage writes to the sink and not to a shuffle: its output is spread like its input.
        outs = _scaled(took if all(count == 0 for count in gave) else gave, counted[1])
    return tuple(
        Work(
            records_in=divide_or_none(1, ins[at]),
            records_out=divide_or_none(1, outs[at]),
            useful_seconds=_seconds(task.useful_ms for task in by_index[i]),
            waiting_seconds=_seconds(task.wait_ms for task in by_index[i]),
            deserialise_seconds=_seconds(task.deserialise_ms for task in by_index[i]),
            gc_seconds=_seconds(task.gc_ms for task in by_index[i]),
        )
        for at, i in enumerate(order)
    )


def _count(name: str, batches: Sequence[BatchFact]) -> int | None:
    """Return the count of an operator's own mark."""
    marks = (batch.marks.get(name) for batch in batches)
    return sum_or_none(None if mark is None else mark.count for mark in marks)


def _scaled(counts: Sequence[int | None], total: int | None) -> list[float | None]:
    """Return `counts` scaled to the sum `total`; zero counts share it evenly."""
    own = sum_or_none(counts)
    if total is None or own is None:
        return [None] * len(counts)
    return [total * (count or 0) / own if own else total / len(counts) for count in counts]


def _seconds(milliseconds: Iterable[int | None]) -> float | None:
    return divide_or_none(1e3, sum_or_none(milliseconds))
