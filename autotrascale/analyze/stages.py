"""Staged events → the table of stages: one row for each stage that ran, with its operator and its batch.

    column                   of a stage
    log, stage               which
    run, batch               of which run of a query, of which batch; without a stream: its shape, its query
    operator, rank           who it is (see `roles`); operators in the order of the data
    entry, exit              does it take in the operator's input, does it give the operator's output
    stateful, marked         does it keep state; does a mark name it
    upstream                 operators whose output it reads
    tasks, submitted_ms, completed_ms

A unit is what is put together: a batch of a stream, or one query (all jobs of one execution), or a job of plain RDDs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from autotrascale.analyze.columns import Columns, ddl, record_batch
from autotrascale.analyze.roles import Job, roles, shape
from autotrascale.analyze.schemas import ExecutionStart, JobStart, StageCompleted
from autotrascale.analyze.staging import of_kind

if TYPE_CHECKING:
    import pyarrow as pa

_ROLES: Columns = {
    "log": "int",
    "run": "string",
    "batch": "bigint",
    "stage": "int",
    "operator": "string",
    "rank": "int",
    "entry": "boolean",
    "exit": "boolean",
    "stateful": "boolean",
    "marked": "boolean",
    "upstream": "array<string>",
}
_MOST_AT_ONCE = 100  # units handed to Python together: each carries its plan


def stages(events: DataFrame) -> DataFrame:
    """Only stages that completed. A query that is no stream counts only in a log without any stream."""
    completed = (
        of_kind(events, StageCompleted)
        .select("log", "Stage Info.*")
        .where("`Failure Reason` is null")
        .groupBy("log", fn.col("Stage ID").alias("stage"))
        .agg(
            fn.max("Number of Tasks").alias("tasks"),
            fn.min("Submission Time").alias("submitted_ms"),
            fn.max("Completion Time").alias("completed_ms"),
        )
    )
    return _roles(_units(events)).join(completed, ["log", "stage"])


def _units(events: DataFrame) -> DataFrame:
    """One row for each unit: its jobs as JSON, each with the plan it ran."""
    jobs = _jobs(events)
    streams = jobs.where("run is not null").select("log").distinct().withColumn("streaming", fn.lit(True))
    units = jobs.join(fn.broadcast(streams), "log", "left").where("run is not null or streaming is null")
    plans = of_kind(events, ExecutionStart).withColumnsRenamed({"executionId": "execution", "sparkPlanInfo": "plan"})
    # RDD jobs have no execution; their own number must not be taken for another query's.
    batch = fn.coalesce("batch", "root", -1 - fn.col("job")).cast("bigint").alias("batch")
    return (
        units.join(plans, ["log", "execution"], "left")
        .groupBy("log", "run", batch)
        .agg(fn.sort_array(fn.collect_list(fn.struct("job", "stages", "plan"))).alias("jobs"))
    )


def _jobs(events: DataFrame) -> DataFrame:
    """One row for each job: the batch it is of, or else the execution, and its stages as JSON."""
    known = fn.col("Properties")
    batch, execution, root = (
        known[name].cast("bigint")
        for name in ("streaming.sql.batchId", "spark.sql.execution.id", "spark.sql.execution.root.id")
    )
    return of_kind(events, JobStart).select(
        "log",
        fn.when(batch.isNotNull(), known["spark.jobGroup.id"]).alias("run"),
        batch.alias("batch"),
        fn.coalesce(root, execution).alias("root"),
        fn.col("Job ID").alias("job"),
        execution.alias("execution"),
        fn.to_json(fn.struct("Stage Infos")).alias("stages"),
    )


def _roles(units: DataFrame) -> DataFrame:
    units.sparkSession.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(_MOST_AT_ONCE))
    return units.mapInArrow(_roles_of, ddl(_ROLES))


def _roles_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield record_batch([row for unit in batch.to_pylist() for row in _rows(unit)], _ROLES)


def _rows(unit: dict[str, Any]) -> Iterator[dict[str, Any]]:
    found = roles([Job.of(job["stages"], job["plan"]) for job in unit["jobs"]])
    run = unit["run"] or f"{shape(found)}-{unit['log']}"
    for role in found:
        yield {"log": unit["log"], "run": run, "batch": unit["batch"], **asdict(role)}
