"""Sinks that Spark writes to by itself, written to by us instead, batch after batch, so that a fence can stand before
them (`fence.py`).

    files    by the same sink of Spark's own, with the log beside them: it takes each number once
    kafka    as Spark writes a table to a topic; a batch that runs again is there again, as with Spark's own sink

Others stay as they are, and their query is rescaled in place: what they do with a batch, nobody else can.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.execute.spark.driver_agent.fence import BatchWriter, make_fenceable, run_without_writing
from autotrascale.execute.spark.driver_agent.file_sink_log import sink_folder, sink_has_batch
from autotrascale.execute.spark.driver_agent.sinks import FILES, sink_format, writer_field


def make_sink_fenceable(spark: SparkSession, writer: DataStreamWriter) -> None:
    """Where we can. What Spark would complain of when it starts the query, it does here."""
    written = sink_format(writer)
    if written in FILES:
        make_fenceable(writer, _files(spark, writer))
    elif written == "kafka":
        make_fenceable(writer, _topic(writer))


def _files(spark: SparkSession, writer: Any) -> BatchWriter:
    """The log has a batch already where the query died between that and its commit. It would be passed over, and its
    state would not be there."""
    sink, folder = _own_sink(spark, writer), sink_folder(writer)
    partitioned = writer_field(writer, "partitioningColumns")
    partitioned.set(writer._jwrite, spark._jvm.scala.Option.empty())  # type: ignore[union-attr] # no function has any
    begun = False

    def write(batch: DataFrame, number: int) -> None:
        nonlocal begun
        if not begun and sink_has_batch(spark, folder, number):
            run_without_writing(batch)
            return
        begun = True
        sink.addBatch(number, batch._jdf)

    return write


def _own_sink(spark: SparkSession, writer: Any) -> Any:
    """As Spark makes it of what the writer was told."""
    inner, gateway = writer._jwrite, spark.sparkContext._gateway
    assert gateway is not None
    [make] = [method for method in inner.getClass().getDeclaredMethods() if method.getName() == "createV1Sink"]
    make.setAccessible(True)
    told = gateway.new_array(gateway.jvm.Object, 1)
    told[0] = writer_field(writer, "extraOptions").get(inner)
    return make.invoke(inner, told)


def _topic(writer: Any) -> BatchWriter:
    options = writer_field(writer, "extraOptions").get(writer._jwrite)
    names = options.keys().toSeq()
    given = {str(names.apply(at)): str(options.apply(names.apply(at))) for at in range(names.size())}

    def write(batch: DataFrame, _: int) -> None:
        batch.write.format("kafka").options(**given).save()

    return write
