"""One gathered window → a snapshot, and the figures that a snapshot has no room for. Pure Python, once per window.

    symbol   meaning                                                              unit
    λ_p      true rate: Σ over instances of R_in / T_u                            records/s
    λ_src    rate of a source: by the arrival times of its mark, else by the      records/s
             input rate of the progress records, else by what it took in
    skew     the busiest instance's T_u over the mean of all

What a true rate is, `execute.spark.metrics` says and nobody else: the window is handed to the function that the tuning
loop measures its trials with. Tasks come summed by role and instance; summing is what that function does first, so the
answer is the same. Without marks the tasks' own counts are all there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from autotrascale.analyze import metrics
from autotrascale.analyze.facts import BatchFact, Mark, StageFact, TaskFact
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Latency, OperatorMetrics, Snapshot
from autotrascale.domain.topology import Operator, Topology

Row = Mapping[str, Any]


def snapshot_of(row: Row, p_max: int | None = None) -> Snapshot:
    """The snapshot of a row of `windows.gathered`."""
    topology = Topology(
        {each["name"]: Operator(tuple(each["upstream"]), each["stateful"]) for each in row["operators"]}
    )
    told = sorted(row["batches"], key=lambda batch: (batch["started_ms"], batch["batch"]))
    tasks = tuple(_task(task) for task in row["tasks"] or ())
    batches = [_batch(row["run"], batch, tasks if at == 0 else ()) for at, batch in enumerate(told)]
    widest = max(stage["tasks"] for batch in told for stage in batch["stages"])
    # Tasks may outnumber cores and run in waves; a log without executors says nothing of cores at all.
    most = p_max or max(row["cores"] or 1, widest)
    try:
        if not row["marked"]:
            return _unmarked(row, topology, most, told, batches)
        snapshot = metrics.snapshot(row["job"], topology, most, _rates(topology, told, batches), batches)
        return (
            snapshot
            if all(batch["input_records"] is not None for batch in told)
            else replace(snapshot, throughput=None)
        )
    except InputError as error:
        raise error.under(f"job {row['job']}, run {row['run']}: ") from None


def true_rate(operator: OperatorMetrics) -> float | None:
    """λ_p; an instance that had nothing to do adds nothing."""
    rates = [
        None if work.records_in is None else work.records_in / work.useful_seconds if work.useful_seconds else 0.0
        for work in operator.instances
    ]
    return None if not rates or None in rates else sum(rate or 0.0 for rate in rates)


def skew(operator: OperatorMetrics) -> float | None:
    """1 is even; the parallelism is all work on one instance. Instances that never ran count as idle."""
    useful = [work.useful_seconds or 0.0 for work in operator.instances]
    return max(useful) * operator.parallelism / sum(useful) if sum(useful) > 0 else None


def _unmarked(row: Row, topology: Topology, p_max: int, told: Sequence[Row], batches: Sequence[BatchFact]) -> Snapshot:
    """Every stage an operator: it took in what its tasks read, and gave what they wrote."""
    own = {(task["stage"], task["index"]): task for task in row["tasks"] or ()}
    operators = {}
    for name in topology:
        plain = metrics.operator_metrics(name, topology, p_max, batches)
        homes = {stage.stage for batch in batches for stage in batch.stages if stage.operator == name}
        mine = [task for (stage, _), task in sorted(own.items(), key=lambda item: item[0][1]) if stage in homes]
        works = tuple(
            replace(work, records_in=float(task["read"]), records_out=float(task["sent"] + task["written"]))
            for work, task in zip(plain.instances, mine, strict=True)
        )
        operators[name] = replace(plain, instances=works)
    seconds = max(metrics.window_seconds(batches), 0.001)
    took = {name: operators[name].total.records_in or 0.0 for name in topology.sources}
    counted = all(batch["input_records"] is not None for batch in told)
    return Snapshot(
        job=row["job"],
        window_seconds=seconds,
        p_max=p_max,
        source_rates=_shared(_offered(told) if counted else None, took, seconds),
        operators=operators,
        execution="micro-batch",
        overhead_share=metrics.overhead_share(batches),
        batch_seconds=metrics.batch_seconds(batches),
        throughput=metrics.throughput(batches) if counted else sum(took.values()) / seconds,
        latency_seconds=Latency(),
    )


def _rates(topology: Topology, told: Sequence[Row], batches: Sequence[BatchFact]) -> dict[str, float]:
    """λ_src of each source."""
    arrivals = metrics.observed_rates(topology.sources, batches)
    if all(rate > 0 for rate in arrivals.values()):
        return arrivals
    counts = {
        name: float(sum(batch.marks[name].count for batch in batches if name in batch.marks)) for name in arrivals
    }
    return _shared(_offered(told), counts, max(metrics.window_seconds(batches), 0.001))


def _shared(offered: float | None, counts: Mapping[str, float], seconds: float) -> dict[str, float]:
    """What all sources offered together, by their shares of the records; without it, the records themselves."""
    total = sum(counts.values())
    if offered is None or (total == 0 and len(counts) > 1):
        return {name: count / seconds for name, count in counts.items()}
    return {name: offered * count / total if total else offered for name, count in counts.items()}


def _offered(told: Sequence[Row]) -> float | None:
    """Records per second of input time: what Spark's own input rate says, and for an empty batch, which has none, the
    time since the trigger before."""
    records, seconds = 0, 0.0
    for before, batch in pairwise([None, *told]):
        assert batch is not None
        if batch["offered_seconds"] is not None:
            records, seconds = records + batch["input_records"], seconds + batch["offered_seconds"]
        elif before is not None and batch["input_records"] == 0:
            seconds += (batch["started_ms"] - before["started_ms"]) / 1000
    return records / seconds if seconds > 0 else None


def _batch(run: str, told: Row, tasks: tuple[TaskFact, ...]) -> BatchFact:
    """All tasks of the window stand in its first batch: their sums do not care."""
    return BatchFact(
        batch=told["batch"],
        run=run,
        started_ms=told["started_ms"],
        seconds=told["seconds"],
        input_records=told["input_records"] or 0,
        marks={mark["key"]: _mark(mark["value"]) for mark in told["marks"] or () if mark["value"]["n"] is not None},
        stages=tuple(StageFact(**stage) for stage in sorted(told["stages"], key=lambda stage: stage["stage"])),
        tasks=tasks,
    )


def _mark(told: Row) -> Mark:
    return Mark(told["n"], told["first"], told["mean"], told["last"])


def _task(told: Row) -> TaskFact:
    """`run_seconds` is chosen so that T_u comes out as summed: task by task it was never below zero."""
    return TaskFact(
        stage=told["stage"],
        index=told["index"],
        run_seconds=(told["useful_ms"] + told["wait_ms"] - told["deserialise_ms"]) / 1000,
        deserialise_seconds=told["deserialise_ms"] / 1000,
        wait_seconds=told["wait_ms"] / 1000,
        gc_seconds=told["gc_ms"] / 1000,
        records_in=told["read"],
        records_out=told["sent"],
    )
