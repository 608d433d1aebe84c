"""Lines → one staged table, in one pass over the text and without Python: tasks typed, the rarer events as they are.

    column                            of a task                                            unit
    log, stage, index                 where it ran
    useful_ms                         run + deserialise + result serialisation − wait      ms, never below 0
    deserialise_ms, wait_ms, gc_ms    parts of its time                                    ms
    read, sent, written               records from a source or a shuffle, to the next      records
                                      shuffle, to a file

The table is Parquet in a folder of its own: reading text again for every later step would cost more than writing it
once, and keeping it in memory would grow with the archive.
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


def events(lines: DataFrame) -> DataFrame:
    """From columns `value` and `uri`. Whole lines of events that nobody reads are passed over; the others are kept."""
    line = fn.col("value")
    told = lines.withColumn("kind", _kind(line)).where("kind is not null")
    parsed = told.withColumn("event", fn.when(_is(schemas.TASK), _parsed(line)))
    # Asking for a field reads the whole line, and gives null where it is no JSON.
    whole = fn.when(_is(schemas.RECORD), fn.get_json_object(line, "$.id")).otherwise(
        fn.get_json_object(line, "$.Event")
    )
    broken = fn.when(_is(schemas.TASK), fn.col(f"event.{schemas.CORRUPT}").isNotNull() | _nothing(fn.col("event")))
    broken = broken.otherwise(_is(schemas.BAD) | whole.isNull())
    idle = _is(schemas.TASK) & ~fn.coalesce(_worked(fn.col("event")), fn.lit(False))
    judged = fn.when(broken, schemas.BAD).when(idle, schemas.IDLE).otherwise(fn.col("kind"))
    raw = fn.when(~_is(schemas.TASK) & ~broken, line)
    # No filter may stand here: Spark would move it below the parsing by parsing twice.
    return parsed.select("uri", judged.alias("kind"), *_task(fn.col("event")), raw.alias("raw"))


def bad_line_counts(staged: DataFrame, files: Iterable[LogFile]) -> list[tuple[str, int]]:
    names = {file.number: path_of(file.uri) for file in files}
    counts = staged.where(fn.col("kind") == schemas.BAD).groupBy("file").count().collect()
    return [(names[row["file"]], row["count"]) for row in counts]


def _kind(line: Column) -> Column:
    """The most frequent first. A line that is no `{…}` was cut off or is no JSON; a blank one is nothing."""
    kind = fn.when(fn.length(fn.trim(fn.substring(line, 1, 20))) == 0, fn.lit(None))
    kind = kind.when(~(line.startswith("{") & line.endswith("}")), schemas.BAD)
    for name, event in schemas.EVENTS.items():
        kind = kind.when(line.startswith(f'{schemas.ANY_EVENT}{event}"'), name)
    kind = kind.when(line.startswith(schemas.ANY_EVENT), fn.lit(None))
    kind = kind.when(line.startswith(schemas.ANY_RECORD), schemas.RECORD)
    return kind.otherwise(schemas.BAD)


def _parsed(line: Column) -> Column:
    return fn.from_json(line, schemas.TASK_EVENT, {"columnNameOfCorruptRecord": schemas.CORRUPT})


def _is(*kinds: str) -> Column:
    return fn.col("kind").isin(*kinds)


def _nothing(event: Column) -> Column:
    return event["Stage ID"].isNull()


def _worked(event: Column) -> Column:
    """Tasks that failed or were killed did nobody's work."""
    return (event["Task End Reason"]["Reason"] == "Success") & event["Task Metrics"].isNotNull()


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
