"""The log of Spark's file sink, which must have an entry for every batch.

Every tenth entry repeats the entries before it, and a query fails from then on if one is missing. A move of state takes
a batch number and writes no files, so its entry is added here.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.execute.spark.driver_agent.checkpoint_folder import CheckpointFolder
from autotrascale.execute.spark.driver_agent.sinks import writer_field

_LOG_VERSION = 1
_MAX_MISSING = 16  # entries; a log that misses more belongs to another job


def complete_sink_log_in(spark: SparkSession, output: str, checkpoint: str, raised: int = 0) -> None:
    """Add the missing entries of a stopped query: committed batches that are not in the log wrote no files.

    Args:
        spark: the session.
        output: folder of the sink; nothing is done if it is empty or has no log.
        checkpoint: checkpoint of the query.
        raised: difference between batch numbers in the log and in the checkpoint (see `VisibleBatches`).
    """
    if not output or not (folder := _find_log(spark, output)):
        return
    log = _open_log(spark, folder)
    newest, committed = log.getLatestBatchId(), CheckpointFolder(spark, checkpoint).newest_commit()
    if newest.isEmpty() or committed is None or (last := committed + raised) - newest.get() > _MAX_MISSING:
        return
    gateway: Any = spark.sparkContext._gateway
    jvm: Any = spark._jvm
    sinks = jvm.org.apache.spark.sql.execution.streaming.sinks
    for batch in range(newest.get() + 1, last + 1):
        log.add(batch, gateway.new_array(sinks.SinkFileStatus, 0))


def sink_has_batch(spark: SparkSession, output: str, batch: int) -> bool:
    """Return whether the log in folder `output` has this batch. False without a log."""
    if not output or not (folder := _find_log(spark, output)):
        return False
    newest = _open_log(spark, folder).getLatestBatchId()
    return not newest.isEmpty() and int(newest.get()) >= batch


def sink_folder(writer: DataStreamWriter) -> str:
    """Return the folder that `writer` writes to, or an empty string."""
    path = writer_field(writer, "extraOptions").get(writer._jwrite).get("path")
    return "" if path.isEmpty() else str(path.get())


def _open_log(spark: SparkSession, folder: str) -> Any:
    jvm: Any = spark._jvm
    sinks = jvm.org.apache.spark.sql.execution.streaming.sinks
    return sinks.FileStreamSinkLog(_LOG_VERSION, spark._jsparkSession, folder, jvm.scala.Option.empty())


def _find_log(spark: SparkSession, output: str) -> str:
    """Return the folder of the log, or an empty string if there is no log yet."""
    jvm: Any = spark._jvm
    folder = jvm.org.apache.hadoop.fs.Path(output, "_spark_metadata")
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    return str(folder.toString()) if folder.getFileSystem(configuration).exists(folder) else ""
