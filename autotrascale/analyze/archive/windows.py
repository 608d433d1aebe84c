"""Batches, stages and sums of tasks → one row for each window, with all that is measured of it, in Spark SQL.

    column                     of a window
    run, window, log, job      which
    slots                      how many tasks all executors together could run at once, at most
    task_cpus                  cores that a task takes
    executors                  those that were there meanwhile: cores, came_ms, gone_ms; null where the log does not
                               have its beginning
    operators                  the run's topology as it was seen: name, rank, stateful, upstream
    batches                    its batches
    stages                     their stages, each with the number of its batch
    tasks                      its tasks, summed by role and instance: as many rows as instances, however long it is

A run is cut from its first trigger on; what is left at its end, if less than half a window, joins the one before.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from autotrascale.analyze.archive.staging import SUMMABLE

_WINDOW = ("run", "window")
_ROLE = ("operator", "entry", "exit")
_RAN = ("tasks", "submitted_ms", "completed_ms")


def cut(batches: DataFrame, seconds: float | None) -> DataFrame:
    """Gives each batch the number of its window; None makes one window of each run."""
    if seconds is None:
        return batches.withColumn("window", fn.lit(0).cast("bigint"))
    ended = fn.col("started_ms") + fn.col("seconds") * 1000
    runs = batches.groupBy("run").agg(fn.min("started_ms").alias("first"), fn.max(ended).alias("ended"))
    width = seconds * 1000
    last = fn.greatest(fn.lit(0.0), fn.round((fn.col("ended") - fn.col("first")) / width) - 1)
    window = fn.least(fn.floor((fn.col("started_ms") - fn.col("first")) / width), last).cast("bigint")
    return batches.join(fn.broadcast(runs), "run").select(*batches.columns, window.alias("window"))


def placed(stages: DataFrame, batches: DataFrame) -> DataFrame:
    """Stages with their windows. `home` stands for all stages of one role in one window, in 64 bits: that two of a
    million are alike is a chance of one in forty million."""
    windows = batches.select("log", "run", "batch", "window")
    return stages.join(windows, ["log", "run", "batch"]).withColumn("home", fn.xxhash64(*_WINDOW, *_ROLE))


def gathered(sums: DataFrame, placed: DataFrame, batches: DataFrame, executors: DataFrame) -> DataFrame:
    """One row for each window. `sums` are those of its tasks."""
    stage = fn.struct("batch", "stage", *_ROLE, *_RAN)
    ran = placed.groupBy("log", *_WINDOW).agg(fn.collect_list(stage).alias("stages"))
    batch = fn.struct(
        "started_ms",
        "batch",
        "seconds",
        "input_records",
        "offered_seconds",
        "behind",
        fn.map_entries("marks").alias("marks"),
    )
    windows = batches.groupBy("log", *_WINDOW).agg(
        fn.max("job").alias("job"), fn.max("marked").alias("marked"), fn.collect_list(batch).alias("batches")
    )
    return (
        windows.join(ran, ["log", *_WINDOW])
        .join(_tasks(sums, placed), ["log", *_WINDOW], "left")
        .join(_topologies(placed), "run")
        .join(executors, "log", "left")
        .withColumn("executors", _meanwhile())
    )


def _meanwhile() -> Column:
    """Of the executors of a log, which may be those of months, the window's."""
    begin = fn.array_min(fn.transform("batches", lambda batch: batch["started_ms"]))
    end = fn.array_max(fn.transform("batches", lambda batch: batch["started_ms"] + batch["seconds"] * 1000))
    return fn.filter(
        "executors", lambda stay: (stay["came_ms"] < end) & (stay["gone_ms"].isNull() | (stay["gone_ms"] > begin))
    )


def _tasks(sums: DataFrame, placed: DataFrame) -> DataFrame:
    """What each instance did in each window."""
    homes = placed.groupBy("log", *_WINDOW, "home").agg(fn.min("stage").alias("stage"))
    row = fn.struct("stage", "index", *SUMMABLE)
    return sums.join(homes, ["log", "home"]).groupBy("log", *_WINDOW).agg(fn.collect_list(row).alias("tasks"))


def _topologies(placed: DataFrame) -> DataFrame:
    """Operators in the order of the data. Of the whole run: one that did nothing in a window is there all the same."""
    operators = placed.groupBy("run", "operator").agg(
        fn.min("rank").alias("rank"),
        fn.max("stateful").alias("stateful"),
        fn.array_distinct(fn.flatten(fn.collect_set("upstream"))).alias("upstream"),
    )
    row = fn.struct("rank", fn.col("operator").alias("name"), "stateful", "upstream")
    return operators.groupBy("run").agg(fn.sort_array(fn.collect_list(row)).alias("operators"))


def executors(changes: DataFrame, applications: DataFrame, settings: DataFrame) -> DataFrame:
    """Of each log, from the coming and going that it tells of."""
    taken = settings.groupBy("log").agg(fn.max("task_cpus").alias("task_cpus"))
    changes = changes.join(taken, "log", "left")
    return _slots(changes).join(_stays(changes, applications), "log", "left").join(taken, "log", "left")


def _stays(changes: DataFrame, applications: DataFrame) -> DataFrame:
    came = fn.col("cores").isNotNull()
    each = changes.groupBy("log", "executor").agg(
        fn.max("cores").alias("cores"),
        fn.min(fn.when(came, fn.col("at"))).alias("came_ms"),
        fn.max(fn.when(~came, fn.col("at"))).alias("gone_ms"),
    )
    stay = fn.struct("cores", "came_ms", "gone_ms")
    of_logs = each.where("cores is not null").groupBy("log").agg(fn.collect_list(stay).alias("executors"))
    return of_logs.join(applications.select("log").distinct(), "log")


def _slots(executors: DataFrame) -> DataFrame:
    """The most tasks that the executors of each log could run at one time: none runs on cores of two."""
    own = Window.partitionBy("log", "executor")
    each = fn.floor(fn.max("cores").over(own) / fn.coalesce("task_cpus", fn.lit(1)))
    slots = fn.when(fn.col("cores").isNull(), -each).otherwise(each)
    running = Window.partitionBy("log").orderBy("at", "slots")
    return (
        executors.withColumn("slots", slots)
        .withColumn("running", fn.sum("slots").over(running))
        .groupBy("log")
        .agg(fn.max("running").alias("slots"))
    )
