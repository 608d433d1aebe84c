"""One gathered window → a snapshot. Pure Python, once per window.

What the figures mean, `analyze.metrics` says and nobody else: the window is handed to the functions that measure a job
that runs. Tasks come summed by role and instance; summing is what those functions do first, and in whole numbers, so
the answers are the same to the last digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from autotrascale.analyze import metrics
from autotrascale.analyze.facts import BatchFact, MarkFact, StageFact, TaskFact
from autotrascale.analyze.task_slots import ExecutorStay, count_slots
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.topology import Operator, Topology

Row = Mapping[str, Any]


def snapshot_of(row: Row, p_max: int | None = None) -> Snapshot | None:
    """The snapshot of a row of `windows.gathered`. None where nothing says what its sources offered: earlier versions
    of Spark count no records."""
    topology = Topology(
        {each["name"]: Operator(tuple(each["upstream"]), each["stateful"]) for each in row["operators"]}
    )
    batches, marked = batches_of(row), bool(row["marked"])
    widest = max(stage.tasks for batch in batches for stage in batch.stages)
    # Tasks may outnumber slots and run in waves; a log without executors says nothing of slots at all.
    most = p_max or max(row["slots"] or 1, widest)
    rates = metrics.measure_source_rates(topology, batches, marked=marked)
    if rates is None:
        return None
    try:
        snapshot = metrics.take_snapshot(row["job"], topology, most, rates, batches, marked=marked)
    except InputError as error:
        raise error.under(f"job {row['job']}, run {row['run']}: ") from None
    if metrics.is_stream(batches):
        return snapshot
    return replace(snapshot, throughput=snapshot.target_rate)  # a query is offered what it takes


def batches_of(row: Row) -> list[BatchFact]:
    """All tasks of the window stand in its first batch: their sums do not care."""
    in_order = sorted(row["batches"], key=lambda batch: (batch["started_ms"], batch["batch"]))
    tasks = tuple(TaskFact(**task) for task in row["tasks"] or ())
    stays = [ExecutorStay(**stay) for stay in row["executors"] or ()]
    cpus = _task_cpus(row)
    return [_batch(row["run"], batch, tasks if at == 0 else (), stays, cpus) for at, batch in enumerate(in_order)]


def _task_cpus(row: Row) -> int:
    return row["task_cpus"] or 1


def _batch(run: str, row: Row, tasks: tuple[TaskFact, ...], stays: Sequence[ExecutorStay], task_cpus: int) -> BatchFact:
    plain = ("batch", "started_ms", "seconds", "input_records", "offered_seconds", "behind")
    return BatchFact(
        run=run,
        **{name: row[name] for name in plain},
        marks={mark["key"]: _mark(mark["value"]) for mark in row["marks"] or ()},
        stages=tuple(StageFact(**stage) for stage in sorted(row["stages"], key=lambda stage: stage["stage"])),
        tasks=tasks,
        slots=count_slots(stays, row["started_ms"], row["started_ms"] + row["seconds"] * 1000, task_cpus),
    )


def _mark(row: Row) -> MarkFact:
    return MarkFact(row["n"], row["first"], row["mean"], row["last"])
