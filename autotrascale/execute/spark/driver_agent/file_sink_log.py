"""Files that Spark writes itself have a log beside them, which must name every batch: every tenth entry repeats those
before it, and where one is missing the query fails from then on. A move of state takes a batch number and writes no
files, so its entry is made here."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.execute.spark.driver_agent.checkpoint_folder import CheckpointFolder
from autotrascale.execute.spark.driver_agent.sinks import writer_field

_VERSION = 1  # of the log's format
_MOST = 16  # entries: a log that is further behind is another job's


def complete_sink_log(spark: SparkSession, writer: DataStreamWriter, checkpoint: str, raised: int = 0) -> None:
    """Of a query that is not running. Batches that are committed and not in the log wrote no files. The log has them
    under numbers that are `raised` (`query/generation.py`)."""
    complete_sink_log_in(spark, sink_folder(writer), checkpoint, raised)


def complete_sink_log_in(spark: SparkSession, output: str, checkpoint: str, raised: int = 0) -> None:
    """The same, where it is known what is written to: empty for what is no folder."""
    if not output or not (folder := _log_folder(spark, output)):
        return
    log = _log(spark, folder)
    newest, committed = log.getLatestBatchId(), CheckpointFolder(spark, checkpoint).newest_commit()
    if newest.isEmpty() or committed is None or (last := committed + raised) - newest.get() > _MOST:
        return
    gateway: Any = spark.sparkContext._gateway
    jvm: Any = spark._jvm
    sinks = jvm.org.apache.spark.sql.execution.streaming.sinks
    for batch in range(newest.get() + 1, last + 1):
        log.add(batch, gateway.new_array(sinks.SinkFileStatus, 0))


def sink_has_batch(spark: SparkSession, output: str, batch: int) -> bool:
    """Whether the files of this batch are named. Of what is no folder with a log nobody can say; then: no."""
    if not output or not (folder := _log_folder(spark, output)):
        return False
    newest = _log(spark, folder).getLatestBatchId()
    return not newest.isEmpty() and int(newest.get()) >= batch


def sink_folder(writer: DataStreamWriter) -> str:
    """Its folder, empty where it was told none."""
    path = writer_field(writer, "extraOptions").get(writer._jwrite).get("path")
    return "" if path.isEmpty() else str(path.get())


def _log(spark: SparkSession, folder: str) -> Any:
    jvm: Any = spark._jvm
    sinks = jvm.org.apache.spark.sql.execution.streaming.sinks
    return sinks.FileStreamSinkLog(_VERSION, spark._jsparkSession, folder, jvm.scala.Option.empty())


def _log_folder(spark: SparkSession, output: str) -> str:
    """Empty where there is none yet."""
    jvm: Any = spark._jvm
    folder = jvm.org.apache.hadoop.fs.Path(output, "_spark_metadata")
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    return str(folder.toString()) if folder.getFileSystem(configuration).exists(folder) else ""
