"""One rarer event → one row of its staged table. Pure Python, some tens of times for each batch.

    table          one row for each      columns
    completed      stage that succeeded  log, stage, tasks, submitted_ms, completed_ms
    jobs           job                   log, job, run and batch (of a stream), root and own execution, pattern of its
                                         stages, and the numbers it counts from
    plans          execution             log, execution, plan (its pattern), plan_shuffle (it counts from)
    counters       counter of a mark     log, execution, counter (its number), mark
    counts         counter of a stage    log, stage, counter, passed (the rows that it has come to)
    patterns       pattern               pattern (its name), text
    progress       report on a batch     see `batches`
    applications   application           log, said (its name)
    executors      coming or going       log, at, executor, cores
    settings       application           log, task_cpus (cores that a task takes)

Batches of one query differ by little but their numbers, and Spark counts on. A pattern is what is left when numbers are
taken from the first of their kind: a month of batches has a handful, and what stages do is asked once for each.
"""

from __future__ import annotations

from typing import Any

from autotrascale.analyze.archive.columns import MARKS, Columns
from autotrascale.analyze.mark_counts import find_counters as counters_of
from autotrascale.analyze.mark_counts import read_passed_rows
from autotrascale.analyze.naming import shorten_plan
from autotrascale.analyze.plan_tree import Stage, find_shuffle
from autotrascale.analyze.progress_records import find_batch, read_report
from autotrascale.analyze.task_slots import read_task_cpus
from autotrascale.monitor.eventlog.events import (
    ApplicationStart,
    Environment,
    ExecutionStart,
    ExecutorChange,
    JobStart,
    Node,
    ProgressRecord,
    StageCompleted,
)

Row = tuple[Any, ...]

COMPLETED: Columns = {"log": "int", "stage": "int", "tasks": "int", "submitted_ms": "bigint", "completed_ms": "bigint"}
JOBS: Columns = {
    "log": "int",
    "job": "int",
    "run": "string",
    "batch": "bigint",
    "root": "bigint",
    "execution": "bigint",
    "pattern": "string",
    "first_stage": "int",
    "first_rdd": "int",
    "first_shuffle": "int",
}
PLANS: Columns = {"log": "int", "execution": "bigint", "plan": "string", "plan_shuffle": "int"}
COUNTERS: Columns = {"log": "int", "execution": "bigint", "counter": "bigint", "mark": "string"}
COUNTS: Columns = {"log": "int", "stage": "int", "counter": "bigint", "passed": "bigint"}
PATTERNS: Columns = {"pattern": "string", "text": "string"}
PROGRESS: Columns = {
    "run": "string",
    "batch": "bigint",
    "executed": "boolean",
    "query": "string",
    "started_ms": "bigint",
    "seconds": "double",
    "input_records": "bigint",
    "offered_seconds": "double",
    "behind": "bigint",
    "marks": MARKS,
}
APPLICATIONS: Columns = {"log": "int", "said": "string"}
EXECUTORS: Columns = {"log": "int", "at": "bigint", "executor": "string", "cores": "int"}
SETTINGS: Columns = {"log": "int", "task_cpus": "int"}


def characters(row: Row) -> int:
    """That a row holds as text, of marks their names."""
    return sum(
        len(value) if isinstance(value, str) else sum(len(name) + 50 for name, _ in value)
        for value in row
        if isinstance(value, str | list)
    )


def completed(log: int, event: StageCompleted) -> Row:
    info = event.info
    return log, info.stage, info.tasks, info.submitted, info.completed


def counters(log: int, event: ExecutionStart) -> list[Row]:
    """Before its plan is cut down to a pattern."""
    return [(log, event.execution, number, name) for number, name in counters_of(event.plan).items()]


def counts(log: int, event: StageCompleted) -> list[Row]:
    return [(log, event.info.stage, number, count) for number, count in read_passed_rows(event.info.accumulables)]


def executor(log: int, event: ExecutorChange) -> Row:
    return log, event.at, event.executor, event.info.cores if event.info else None


def settings(log: int, event: Environment) -> Row:
    return log, read_task_cpus(event.properties)


def application(log: int, event: ApplicationStart) -> Row:
    return log, event.name


def job(log: int, event: JobStart, pattern: str, first: tuple[int, int, int | None]) -> Row:
    known = event.properties
    run, batch = find_batch(known) or (None, None)
    if known is None:
        return log, event.job, run, batch, None, None, pattern, *first
    root = known.execution if known.root is None else known.root
    return log, event.job, run, batch, root, known.execution, pattern, *first


def progress(record: ProgressRecord) -> Row:
    batch = read_report(record)
    return (
        batch.run,
        batch.batch,
        batch.executed,
        batch.query,
        batch.started_ms,
        batch.seconds,
        batch.input_records,
        batch.offered_seconds,
        batch.behind,
        [(name, (mark.count, mark.first, mark.mean, mark.last)) for name, mark in batch.marks.items()],
    )


def stages_pattern(event: JobStart) -> tuple[list[Any], tuple[int, int, int | None]]:
    """Its stages, with [number, name, parents, RDDs], each of these with [number, name, node, shuffle]; and the first
    stage, RDD and shuffle, from which the numbers count."""
    stages = [Stage.listed(stage) for stage in event.stages]
    rdds = [rdd for stage in stages for rdd in stage.rdds]
    first_stage = min((stage.number for stage in stages), default=0)
    first_rdd = min((rdd.number for rdd in rdds), default=0)
    first_shuffle = min((rdd.shuffle for rdd in rdds if rdd.shuffle is not None), default=None)
    base = first_shuffle or 0
    pattern = [
        [
            stage.number - first_stage,
            stage.name,
            None if stage.parents is None else [parent - first_stage for parent in stage.parents],
            [
                [rdd.number - first_rdd, rdd.name, rdd.node, None if rdd.shuffle is None else rdd.shuffle - base]
                for rdd in stage.rdds
            ],
        ]
        for stage in stages
    ]
    return pattern, (first_stage, first_rdd, first_shuffle)


def plan_pattern(event: ExecutionStart) -> tuple[Node, int]:
    """The event's own tree, of which only what says who nodes are is left: names, words, marks and numbers of shuffles;
    and the first of these."""
    shorten_plan(event.plan)
    shuffles: list[tuple[Node, int]] = []
    _numbered(event.plan, shuffles)
    first = min((at for _, at in shuffles), default=0)
    for node, at in shuffles:
        node.simpleString = f"[plan_id={at - first}]"
    return event.plan, first


def _numbered(node: Node, shuffles: list[tuple[Node, int]]) -> None:
    """`shuffles` gets those that have a number."""
    if (at := find_shuffle(node)) is not None:
        shuffles.append((node, at))
    for child in node.children:
        _numbered(child, shuffles)
