"""One rarer event → one row of its staged table. Pure Python, some tens of times for each batch.

    table          one row for each      columns
    completed      stage that succeeded  log, stage, tasks, submitted_ms, completed_ms
    jobs           job                   log, job, run and batch (of a stream), root and own execution, pattern of its
                                         stages, and the numbers it counts from
    plans          execution             log, execution, plan (its pattern), plan_shuffle (it counts from)
    patterns       pattern               pattern (its name), text
    progress       report on a batch     see `batches`
    applications   application           log, said (its name)
    executors      coming or going       log, at, executor, cores

Batches of one query differ by little but their numbers, and Spark counts on. A pattern is what is left when numbers are
taken from the first of their kind: a month of batches has a handful, and what stages do is asked once for each.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from autotrascale.analyze.archive.columns import MARKS, Columns
from autotrascale.monitor.eventlog.events import (
    ApplicationStart,
    ExecutionStart,
    ExecutorChange,
    JobStart,
    Node,
    Observed,
    Progress,
    Scope,
    StageCompleted,
)
from autotrascale.monitor.marks import COUNT, FIRST, LAST, MARK, MEAN

Row = tuple[Any, ...]

COMPLETED: Columns = {
    "log": "int",
    "stage": "int",
    "tasks": "int",
    "submitted_ms": "bigint",
    "completed_ms": "bigint",
}
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
    "marks": MARKS,
}
APPLICATIONS: Columns = {"log": "int", "said": "string"}
EXECUTORS: Columns = {"log": "int", "at": "bigint", "executor": "string", "cores": "int"}

_PLAN_ID = re.compile(r"\[plan_id=(\d{1,9})\]")
_scope = msgspec.json.Decoder(Scope).decode


def completed(log: int, event: StageCompleted) -> Row:
    info = event.info
    return log, info.stage, info.tasks, info.submitted, info.completed


def executor(log: int, event: ExecutorChange) -> Row:
    return log, event.at, event.executor, event.info.cores if event.info else None


def application(log: int, event: ApplicationStart) -> Row:
    return log, event.name


def job(log: int, event: JobStart, pattern: str, first: tuple[int, int, int | None]) -> Row:
    known = event.properties
    if known is None:
        return log, event.job, None, None, None, None, pattern, *first
    run = None if known.batch is None else known.group
    root = known.execution if known.root is None else known.root
    return log, event.job, run, known.batch, root, known.execution, pattern, *first


def progress(told: Progress) -> Row:
    """Rates are of the busiest source. The first batch of a run covers no time that one knows of."""
    spans = [source.numInputRows / source.inputRowsPerSecond for source in told.sources if source.inputRowsPerSecond]
    took = told.durationMs.get("triggerExecution", told.batchDuration)
    when = datetime.fromisoformat(told.timestamp)
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    marks = {name[len(MARK) :]: _mark(row) for name, row in told.observedMetrics.items() if name.startswith(MARK)}
    return (
        told.runId,
        told.batchId,
        "addBatch" in told.durationMs,
        told.name,
        round(when.timestamp() * 1000),
        None if took is None else took / 1000,
        sum(source.numInputRows for source in told.sources),
        max(spans, default=None),
        list(marks.items()),
    )


def stages_pattern(event: JobStart) -> tuple[list[Any], tuple[int, int, int | None]]:
    """Its stages, with [number, name, parents, RDDs], each of these with [number, name, scope, shuffle]; and the first
    stage, RDD and shuffle, from which the numbers count. Spark lists RDDs as they come out of a set; here by number."""
    stages = [(stage, [(rdd.rdd, rdd.name, *_made_by(rdd.scope)) for rdd in stage.rdds]) for stage in event.stages]
    first_stage = min((stage.stage for stage, _ in stages), default=0)
    first_rdd = min((rdd for _, rdds in stages for rdd, *_ in rdds), default=0)
    first_shuffle = min((at for _, rdds in stages for *_, at in rdds if at is not None), default=None)
    base = first_shuffle or 0
    pattern = [
        [
            stage.stage - first_stage,
            stage.name,
            [parent - first_stage for parent in stage.parents],
            sorted([rdd - first_rdd, name, node, at if at is None else at - base] for rdd, name, node, at in rdds),
        ]
        for stage, rdds in stages
    ]
    return pattern, (first_stage, first_rdd, first_shuffle)


def plan_pattern(event: ExecutionStart) -> tuple[Node, int]:
    """The event's own tree, of which only what says who nodes are is left: names, marks and numbers of shuffles; and
    the first of these."""
    shuffles: list[tuple[Node, int]] = []
    _slim(event.plan, shuffles)
    first = min((at for _, at in shuffles), default=0)
    for node, at in shuffles:
        node.simpleString = f"[plan_id={at - first}]"
    return event.plan, first


def _slim(node: Node, shuffles: list[tuple[Node, int]]) -> None:
    """`shuffles` gets those that have a number."""
    if (at := _shuffle(node)) is not None:
        shuffles.append((node, at))
    marked = node.simpleString.startswith("CollectMetrics")
    node.simpleString = node.simpleString.partition(",")[0] if marked else ""
    for child in node.children:
        _slim(child, shuffles)


def _shuffle(node: Node) -> int | None:
    found = _PLAN_ID.search(node.simpleString) if node.nodeName == "Exchange" else None
    return int(found[1]) if found else None


def _made_by(scope: str | None) -> tuple[str, int | None]:
    """The node's name, and its number if it is a shuffle."""
    if not scope:
        return "", None
    made = _scope(scope)
    if made.name != "Exchange":
        return made.name, None
    number = int(made.id.removeprefix("spark_plan_"))
    if not 0 <= number < 1 << 31:
        raise ValueError("no number of Spark's")
    return made.name, number


def _mark(row: Observed) -> dict[str, Any]:
    values = dict(zip([each.name for each in row.schema.fields], row.values, strict=False))
    n = values.get(COUNT)
    return {
        "n": n if isinstance(n, int) and abs(n) < 1 << 48 else None,
        **{name: _seconds(values.get(name)) for name in (FIRST, MEAN, LAST)},
    }


def _seconds(micros: Any) -> float | None:
    return micros / 1e6 if isinstance(micros, int | float) else None
