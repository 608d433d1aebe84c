"""Sinks of Spark that are turned into a `foreachBatch`, so that a fence (`fence.py`) can stand before them.

    files    written by Spark's file sink and its log, which takes each batch number once
    kafka    written as Spark writes a table to a topic; a batch that runs again is written again, as in Spark's sink

Other sinks stay as they are, and their queries are rescaled in place.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.execute.spark.driver_agent.fence import BatchWriter, make_fenceable, run_without_writing
from autotrascale.execute.spark.driver_agent.file_sink_log import sink_folder, sink_has_batch
from autotrascale.execute.spark.driver_agent.sinks import FILES, sink_format, writer_field


def make_sink_fenceable(spark: SparkSession, writer: DataStreamWriter) -> None:
    """Make a file or Kafka sink fenceable. Raise the errors that Spark would raise at the start of the query."""
    kind = sink_format(writer)
    if kind in FILES:
        make_fenceable(writer, _make_file_writer(spark, writer))
    elif kind == "kafka":
        make_fenceable(writer, _make_topic_writer(writer))


def _make_file_writer(spark: SparkSession, writer: Any) -> BatchWriter:
    """Return a function that writes a batch with Spark's file sink.

    If the query died between the sink's log and its commit, the sink would skip the batch without computing its state.
    So a first batch that is in the log already is computed without writing.
    """
    sink, folder = _create_file_sink(spark, writer), sink_folder(writer)
    partitioned = writer_field(writer, "partitioningColumns")
    partitioned.set(writer._jwrite, spark._jvm.scala.Option.empty())  # type: ignore[union-attr] # no function has any
    has_begun = False

    def write(batch: DataFrame, number: int) -> None:
        nonlocal has_begun
        if not has_begun and sink_has_batch(spark, folder, number):
            run_without_writing(batch)
            return
        has_begun = True
        sink.addBatch(number, batch._jdf)

    return write


def _create_file_sink(spark: SparkSession, writer: Any) -> Any:
    """Return the sink that Spark would create for `writer`, by a private method of Spark."""
    inner, gateway = writer._jwrite, spark.sparkContext._gateway
    assert gateway is not None
    [make] = [method for method in inner.getClass().getDeclaredMethods() if method.getName() == "createV1Sink"]
    make.setAccessible(True)
    arguments = gateway.new_array(gateway.jvm.Object, 1)
    arguments[0] = writer_field(writer, "extraOptions").get(inner)
    return make.invoke(inner, arguments)


def _make_topic_writer(writer: Any) -> BatchWriter:
    options = writer_field(writer, "extraOptions").get(writer._jwrite)
    names = options.keys().toSeq()
    settings = {str(names.apply(at)): str(options.apply(names.apply(at))) for at in range(names.size())}

    def write(batch: DataFrame, _: int) -> None:
        batch.write.format("kafka").options(**settings).save()

    return write
