"""Lines → one staged table of typed events, in one pass over the text and without Python.

    column                            of a task                                            unit
    log, stage, index                 where it ran
    useful_ms                         run + deserialise + result serialisation − wait      ms, never below 0
    deserialise_ms, wait_ms, gc_ms    parts of its time                                    ms
    read, sent, written               records from a source or a shuffle, to the next      records
                                      shuffle, to a file

    ran, job, execution, progress, executor, application hold the rarer events, each in rows of its own `kind`.

The table is Parquet in a folder of its own. Parsing again for every later step would cost more than writing it once,
keeping it in memory would grow with the archive, and Spark would move later filters below the parsing by parsing twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from autotrascale.analyze import schemas
from autotrascale.analyze.logs import LogFile, path_of, spellings

TASK_COLUMNS = ("stage", "index", "useful_ms", "deserialise_ms", "wait_ms", "gc_ms", "read", "sent", "written")


def stage_events(spark: SparkSession, files: Iterable[LogFile], folder: str) -> DataFrame:
    """Reads all files once, writes the table to `folder`, gives it back as read from there."""
    files = list(files)
    reader = spark.read.option("ignoreCorruptFiles", "true").option("recursiveFileLookup", "true")
    lines = reader.text([file.uri for file in files]).select("value", fn.col("_metadata.file_path").alias("uri"))
    known = fn.broadcast(spellings(spark, files))
    events(lines).join(known, "uri").drop("uri").write.mode("overwrite").parquet(folder)
    return spark.read.parquet(folder)


def of_kind(staged: DataFrame, kind: str, column: str) -> DataFrame:
    """The rarer events of one kind: their log and their fields."""
    return staged.where(fn.col("kind") == kind).select("log", f"{column}.*")


def events(lines: DataFrame) -> DataFrame:
    """From columns `value` and `uri`. Whole lines of events that nobody reads are passed over; the others are kept."""
    told = lines.withColumn("kind", _kind(fn.col("value"))).where("kind is not null")
    parsed = told.select("uri", "kind", *(parse.alias(name) for name, parse in _parsed(fn.col("value")).items()))
    # No filter may stand on what was parsed: see above.
    progress = fn.coalesce("within", "beside").alias("progress")
    rare = ("ran", _job().alias("job"), "execution", progress, "executor", "application")
    return parsed.select("uri", _judged().alias("kind"), *_task(fn.col("task")), *rare)


def bad_line_counts(staged: DataFrame, files: Iterable[LogFile]) -> list[tuple[str, int]]:
    names = {file.number: path_of(file.uri) for file in files}
    counts = staged.where(fn.col("kind") == schemas.BAD).groupBy("file").count().collect()
    return [(names[row["file"]], row["count"]) for row in counts]


def _kind(line: Column) -> Column:
    """The most frequent first. A line that is no `{…}` was cut off or is no JSON; a blank one is nothing."""
    kind = fn.when(fn.length(fn.trim(fn.substring(line, 1, 20))) == 0, fn.lit(None))
    kind = kind.when(~(line.startswith("{") & line.endswith("}")), schemas.BAD)
    for event, name in schemas.EVENTS.items():
        kind = kind.when(line.startswith(f'{schemas.ANY_EVENT}{event}"'), name)
    kind = kind.when(line.startswith(schemas.ANY_EVENT), fn.lit(None))
    kind = kind.when(line.startswith(schemas.ANY_RECORD), schemas.RECORD)
    return kind.otherwise(schemas.BAD)


def _parsed(line: Column) -> dict[str, Column]:
    """Each event by its own schema, null where the line is of another kind."""
    kinds = {
        "task": (schemas.TASK, fn.from_json(line, schemas.TASK_EVENT, {"columnNameOfCorruptRecord": schemas.CORRUPT})),
        "ran": (schemas.STAGE, fn.from_json(line, schemas.STAGE_EVENT)["Stage Info"]),
        "started": (schemas.JOB, fn.from_json(line, schemas.JOB_EVENT)),
        "execution": (schemas.EXECUTION, _execution(line)),
        "within": (schemas.PROGRESS, fn.from_json(line, schemas.PROGRESS_EVENT)["progress"]),
        "beside": (schemas.RECORD, fn.from_json(line, schemas.PROGRESS_RECORD)),
        "executor": (schemas.EXECUTOR, fn.from_json(line, schemas.EXECUTOR_EVENT)),
        "application": (schemas.APPLICATION, fn.get_json_object(line, "$['App Name']")),
    }
    return {name: fn.when(fn.col("kind") == kind, parse) for name, (kind, parse) in kinds.items()}


def _execution(line: Column) -> Column:
    number, tree = (fn.get_json_object(line, f"$.{name}") for name in ("executionId", "sparkPlanInfo"))
    return fn.struct(number.cast("bigint").alias("execution"), tree.alias("plan"))


def _job() -> Column:
    """Its stages as JSON again, but only with what is read of it: a tenth."""
    event, known = fn.col("started"), fn.col("started.Properties")
    batch = known["streaming.sql.batchId"].cast("bigint")
    execution = known["spark.sql.execution.id"].cast("bigint")
    job = fn.struct(
        fn.when(batch.isNotNull(), known["spark.jobGroup.id"]).alias("run"),
        batch.alias("batch"),
        fn.coalesce(known["spark.sql.execution.root.id"].cast("bigint"), execution).alias("root"),
        event["Job ID"].alias("job"),
        execution.alias("execution"),
        fn.to_json(fn.struct(event["Stage Infos"].alias("Stage Infos"))).alias("stages"),
    )
    return fn.when(fn.col("kind") == schemas.JOB, job)


def _judged() -> Column:
    """What has not even the field by which it is known was no JSON. A task that failed or was killed did no work."""
    known_by = {
        schemas.TASK: "task.`Stage ID`",
        schemas.STAGE: "ran.`Stage ID`",
        schemas.JOB: "started.`Stage Infos`",
        schemas.EXECUTION: "execution.plan",
        schemas.PROGRESS: "within.runId",
        schemas.RECORD: "beside.runId",
        schemas.EXECUTOR: "executor.Timestamp",
        schemas.APPLICATION: "application",
    }
    kind, task = fn.col("kind"), fn.col("task")
    worked = (task["Task End Reason"]["Reason"] == "Success") & task["Task Metrics"].isNotNull()
    judged = fn.when(task[schemas.CORRUPT].isNotNull(), schemas.BAD)
    for name, field in known_by.items():
        judged = judged.when((kind == name) & fn.col(field).isNull(), schemas.BAD)
    idle = (kind == schemas.TASK) & ~fn.coalesce(worked, fn.lit(False))
    return judged.when(idle, schemas.IDLE).otherwise(kind)


def _task(event: Column) -> list[Column]:
    metrics = event["Task Metrics"]
    shuffled = metrics["Shuffle Read Metrics"]
    wait = _or_zero(shuffled["Fetch Wait Time"])
    busy = metrics["Executor Run Time"] + metrics["Executor Deserialize Time"] + metrics["Result Serialization Time"]
    columns = {
        "stage": event["Stage ID"],
        "index": event["Task Info"]["Index"],
        "useful_ms": fn.greatest(fn.lit(0), busy - wait),  # T_u; Spark reads its clocks one after another
        "deserialise_ms": metrics["Executor Deserialize Time"],
        "wait_ms": wait,
        "gc_ms": metrics["JVM GC Time"],
        "read": _or_zero(shuffled["Total Records Read"]) + _or_zero(metrics["Input Metrics"]["Records Read"]),
        "sent": _or_zero(metrics["Shuffle Write Metrics"]["Shuffle Records Written"]),
        "written": _or_zero(metrics["Output Metrics"]["Records Written"]),
    }
    return [columns[name].alias(name) for name in TASK_COLUMNS]


def _or_zero(count: Column) -> Column:
    """Old versions leave out what a task did not do at all."""
    return fn.coalesce(count, fn.lit(0))
