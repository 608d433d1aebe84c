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
Units of one form differ in nothing but where their numbers start (`rows` has the patterns): what the stages of a form
are is asked once, in Python, and given to all its units by Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from autotrascale.analyze.archive.columns import Columns, ddl, record_batch
from autotrascale.analyze.archive.staging import Staged
from autotrascale.analyze.stage_to_operator import SparkJob, assign_roles, hash_shape

if TYPE_CHECKING:
    import pyarrow as pa

_ROLES: Columns = {
    "form": "string",
    "query": "string",
    "place": "int",
    "operator": "string",
    "rank": "int",
    "entry": "boolean",
    "exit": "boolean",
    "stateful": "boolean",
    "marked": "boolean",
    "upstream": "array<string>",
}
_MOST_AT_ONCE = 100  # forms handed to Python together: each carries its plan


def stages(units: DataFrame, staged: Staged) -> DataFrame:
    """Only stages that completed. A query that is no stream counts only in a log without any stream."""
    completed = staged.completed.groupBy("log", "stage").agg(
        fn.max("tasks").alias("tasks"),
        fn.min("submitted_ms").alias("submitted_ms"),
        fn.max("completed_ms").alias("completed_ms"),
    )
    roles_ = _roles(units, staged.patterns)
    ran = units.drop("jobs").join(roles_, "form").withColumn("stage", fn.col("first_stage") + fn.col("place"))
    run = fn.coalesce("run", fn.concat_ws("-", "query", "log")).alias("run")
    named = ran.select("log", "stage", run, "batch", *list(_ROLES)[3:])
    return named.join(completed, ["log", "stage"])


def units(staged: Staged) -> DataFrame:
    """One row for each unit: its jobs by pattern, and as text what makes the unit's form."""
    jobs = staged.jobs
    streams = jobs.where("run is not null").select("log").distinct().withColumn("streaming", fn.lit(True))
    wanted = jobs.join(fn.broadcast(streams), "log", "left").where("run is not null or streaming is null")
    # RDD jobs have no execution; their own number must not be taken for another query's.
    batch = fn.coalesce("batch", "root", -1 - fn.col("job")).cast("bigint").alias("batch")
    shuffles = (fn.col("first_shuffle") - fn.col("plan_shuffle")).alias("shuffles")
    one = fn.struct("job", "pattern", "plan", "first_stage", "first_rdd", shuffles)
    first_stage, first_rdd = fn.col("first_stage"), fn.col("first_rdd")
    relative = fn.transform(
        "jobs",
        lambda job: fn.struct(
            job["pattern"].alias("pattern"),
            job["plan"].alias("plan"),
            (job["first_stage"] - first_stage).alias("stages"),
            (job["first_rdd"] - first_rdd).alias("rdds"),
            job["shuffles"].alias("shuffles"),
        ),
    )
    units = (
        wanted.join(staged.plans, ["log", "execution"], "left")
        .groupBy("log", "run", batch)
        .agg(
            fn.sort_array(fn.collect_list(one)).alias("jobs"),
            fn.min("first_stage").alias("first_stage"),
            fn.min("first_rdd").alias("first_rdd"),
        )
        .select("log", "run", "batch", "first_stage", relative.alias("jobs"))
    )
    return units.withColumn("form", fn.sha1(fn.to_json("jobs")))


def _roles(units: DataFrame, patterns: DataFrame) -> DataFrame:
    """The roles of the stages of each form, once."""
    units.sparkSession.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(_MOST_AT_ONCE))
    texts = patterns.groupBy("pattern").agg(fn.first("text").alias("text"))
    jobs = (
        units.groupBy("form")
        .agg(fn.first("jobs").alias("jobs"))
        .select("form", fn.posexplode("jobs").alias("at", "job"))
        .select("form", "at", "job.*")
        .join(texts.withColumnRenamed("text", "stages_text"), "pattern")
        .join(texts.select(fn.col("pattern").alias("plan"), fn.col("text").alias("plan_text")), "plan", "left")
    )
    one = fn.struct("at", "stages_text", "plan_text", "stages", "rdds", "shuffles")
    forms = jobs.groupBy("form").agg(fn.sort_array(fn.collect_list(one)).alias("jobs"))
    return forms.mapInArrow(_roles_of, ddl(_ROLES))


def _roles_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield record_batch([row for form in batch.to_pylist() for row in _rows(form)], _ROLES)


def _rows(form: dict[str, Any]) -> Iterator[dict[str, Any]]:
    found = assign_roles([SparkJob.of(job["stages_text"], job["plan_text"], _start(job)) for job in form["jobs"]])
    query = hash_shape(found)
    for role in found:
        row = asdict(role)
        yield {"form": form["form"], "query": query, "place": row.pop("stage"), **row}


def _start(job: dict[str, Any]) -> tuple[int, int, int]:
    return job["stages"], job["rdds"], job["shuffles"] or 0
