"""Progress → the table of batches: one row for each batch that ran, with what Spark and the marks say of it.

    column                      of a batch                                            unit
    log, run, batch, job        which, and of what job: the query's name, else the application's
    started_ms, seconds         trigger, and time from trigger to commit              ms, s
    input_records               what its sources gave; null where nobody counted      records
    offered_seconds             the input time it covers, as Spark tells the rate     s
    marks                       what each mark counted: n, first, mean, last          records, Unix s
    marked                      its operators are those of the marks

Progress comes from the event log itself, or from files of progress records beside it. Spark reports idle time too,
under the number of a batch that did not run; such a report finds no stages and falls out.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from autotrascale.analyze.schemas import ApplicationStart, QueryProgress
from autotrascale.analyze.staging import of_kind
from autotrascale.execute.spark.protocol import COUNT, FIRST, LAST, MARK, MEAN


def batches(events: DataFrame, stages: DataFrame, names: DataFrame) -> DataFrame:
    """`names` gives each log its name, for applications that do not say theirs."""
    ran = stages.groupBy("log", "run", "batch").agg(
        fn.min("submitted_ms").alias("began_ms"),
        fn.max("completed_ms").alias("ended_ms"),
        fn.max("marked").alias("marked"),
        fn.first("run").startswith("shape-").alias("unstreamed"),
    )
    told = _progress(events)
    # A query that is no stream has nothing but its stages to tell its times.
    rows = ran.join(told, ["run", "batch"], "left").where("seconds is not null or unstreamed")
    return rows.join(fn.broadcast(_job_names(events, names)), "log").select(
        "log",
        "run",
        "batch",
        fn.coalesce("query", "application").alias("job"),
        fn.coalesce("started_ms", "began_ms").alias("started_ms"),
        fn.coalesce("seconds", (fn.col("ended_ms") - fn.col("began_ms")) / 1000).alias("seconds"),
        "input_records",
        "offered_seconds",
        fn.when(fn.col("marked"), fn.col("marks")).alias("marks"),
        "marked",
    )


def _progress(events: DataFrame) -> DataFrame:
    """One row for each batch that anything reported on, however often."""
    seconds = fn.coalesce(fn.col("durationMs")["triggerExecution"], "batchDuration") / 1000
    reports = of_kind(events, QueryProgress).select("progress.*")
    told = reports.select(
        fn.col("runId").alias("run"),
        fn.col("batchId").alias("batch"),
        fn.col("durationMs")["addBatch"].isNotNull().alias("executed"),
        fn.col("name").alias("query"),
        fn.unix_millis(fn.to_timestamp("timestamp")).alias("started_ms"),
        seconds.alias("seconds"),
        fn.aggregate("sources", fn.lit(0).cast("bigint"), lambda sum_, s: sum_ + s["numInputRows"]).alias(
            "input_records"
        ),
        _offered_seconds(fn.col("sources")).alias("offered_seconds"),
        _marks(fn.col("observedMetrics")).alias("marks"),
    )
    # Twice told is told once; idle time is told under the number of the batch to come, and did not execute.
    whole, weight = fn.struct(*told.columns[3:]), fn.struct("executed", "started_ms")
    return told.groupBy("run", "batch").agg(fn.max_by(whole, weight).alias("told")).select("run", "batch", "told.*")


def _offered_seconds(sources: Column) -> Column:
    """Records over records per second, of the busiest source. The first batch of a run covers nothing one knows of."""
    spans = fn.transform(sources, lambda s: fn.try_divide(s["numInputRows"], s["inputRowsPerSecond"]))
    return fn.array_max(spans)


def _marks(observed: Column) -> Column:
    """Marks by operator: {"op:count": {values, schema}} → {"count": {n, first, mean, last}}."""
    ours = fn.map_filter(observed, lambda name, _: name.startswith(MARK))
    named = fn.transform_keys(ours, lambda name, _: fn.substring(name, len(MARK) + 1, 1_000))
    return fn.transform_values(named, lambda _, row: _mark(row))


def _mark(row: Column) -> Column:
    values = fn.map_from_arrays(fn.transform(row["schema"]["fields"], lambda field: field["name"]), row["values"])
    return fn.struct(
        values[COUNT].cast("bigint").alias("n"),
        *((values[name].cast("double") / 1e6).alias(name) for name in (FIRST, MEAN, LAST)),
    )


def _job_names(events: DataFrame, names: DataFrame) -> DataFrame:
    told = of_kind(events, ApplicationStart).groupBy("log").agg(fn.max("App Name").alias("said"))
    return (
        names.select("log", "log_name")
        .distinct()
        .join(told, "log", "left")
        .select("log", fn.coalesce("said", "log_name").alias("application"))
    )
