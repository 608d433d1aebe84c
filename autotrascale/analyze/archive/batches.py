"""Progress → the table of batches: one row for each batch that ran, with what Spark and the marks say of it.

    column                      of a batch                                            unit
    log, run, batch, job        which, and of what job: the query's name, else the application's
    started_ms, seconds         trigger, and time from trigger to commit              ms, s
    input_records               what its sources gave; null where nobody counted      records
    offered_seconds             the input time it covers, as Spark tells the rate     s
    behind                      what its sources had and did not give                 records
    marks                       what each mark counted: n, first, mean, last          records, Unix s
    marked                      its operators are those of the marks

Progress comes from the event log itself, or from files of progress records beside it. Spark reports idle time too,
under the number of a batch that did not run; such a report finds no stages and falls out.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from autotrascale.analyze.archive.columns import MARKS, Columns
from autotrascale.analyze.archive.staging import Staged

NAMES: Columns = {"log": "int", "log_name": "string"}


def batches(staged: Staged, stages: DataFrame, names: DataFrame) -> DataFrame:
    """`names` gives each log its name, for applications that do not say theirs."""
    ran = stages.groupBy("log", "run", "batch").agg(
        fn.min("submitted_ms").alias("began_ms"),
        fn.max("completed_ms").alias("ended_ms"),
        fn.max("marked").alias("marked"),
    )
    # A query that is no stream has nothing but its stages to tell its times.
    rows = (
        ran.join(_reported(staged.progress), ["run", "batch"], "left")
        .where("seconds is not null or run like 'shape-%'")
        .join(_counted(staged), ["log", "run", "batch"], "left")
    )
    return rows.join(fn.broadcast(_job_names(staged.applications, names)), "log").select(
        "log",
        "run",
        "batch",
        fn.coalesce("query", "application").alias("job"),
        fn.coalesce("started_ms", "began_ms").alias("started_ms"),
        fn.coalesce("seconds", (fn.col("ended_ms") - fn.col("began_ms")) / 1000).alias("seconds"),
        "input_records",
        "offered_seconds",
        "behind",
        fn.when(fn.col("marked"), _both("marks", "counted")).alias("marks"),
        "marked",
    )


def _reported(progress: DataFrame) -> DataFrame:
    """One row for each batch that anything reported on. Duplicate reports are merged; idle time is reported under the
    number of the batch to come, and did not execute."""
    whole, weight = fn.struct(*progress.columns[3:]), fn.struct("executed", "started_ms")
    reports = progress.groupBy("run", "batch").agg(fn.max_by(whole, weight).alias("report"))
    return reports.select("run", "batch", "report.*")


def _counted(staged: Staged) -> DataFrame:
    """What the marks of each batch counted that are filters, as `analyze.counting` has it."""
    own = fn.explode(fn.array("execution", "root")).alias("execution")
    executions = staged.jobs.where("run is not null").select("log", "run", "batch", own).distinct()
    counts = staged.counts.groupBy("log", "counter").agg(fn.max("passed").alias("passed"))
    each = executions.join(staged.counters, ["log", "execution"]).join(counts, ["log", "counter"], "left")
    marks = each.groupBy("log", "run", "batch", "mark").agg(fn.max(fn.coalesce("passed", fn.lit(0))).alias("n"))
    unknown = (fn.lit(None).cast("double").alias(name) for name in ("first", "mean", "last"))
    one = fn.struct("mark", fn.struct("n", *unknown))
    return marks.groupBy("log", "run", "batch").agg(fn.map_from_entries(fn.collect_list(one)).alias("counted"))


def _both(observed: str, counted: str) -> Column:
    """Of a name that is in both, what was observed."""
    none = fn.expr(f"cast(map() as {MARKS})")
    known = fn.coalesce(observed, none)
    more = fn.map_filter(fn.coalesce(counted, none), lambda name, _: ~fn.map_contains_key(known, name))
    return fn.map_concat(known, more)


def _job_names(applications: DataFrame, names: DataFrame) -> DataFrame:
    named = applications.groupBy("log").agg(fn.max("said").alias("said"))
    return names.join(named, "log", "left").select("log", fn.coalesce("said", "log_name").alias("application"))
