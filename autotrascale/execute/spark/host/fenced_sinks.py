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

from autotrascale.execute.spark.host.fence import Write, hold, work_out
from autotrascale.execute.spark.host.file_sinks import has_taken, written_to
from autotrascale.execute.spark.host.sinks import FILES, field_of, own_format


def write_ourselves(spark: SparkSession, writer: DataStreamWriter) -> None:
    """Where we can. What Spark would complain of when it starts the query, it does here."""
    written = own_format(writer)
    if written in FILES:
        hold(writer, _files(spark, writer))
    elif written == "kafka":
        hold(writer, _topic(writer))


def _files(spark: SparkSession, writer: Any) -> Write:
    """The log has a batch already where the query died between that and its commit. It would be passed over, and its
    state would not be there."""
    sink, folder = _own_sink(spark, writer), written_to(writer)
    partitioned = field_of(writer, "partitioningColumns")
    partitioned.set(writer._jwrite, spark._jvm.scala.Option.empty())  # type: ignore[union-attr] # no function has any
    begun = False

    def write(batch: DataFrame, number: int) -> None:
        nonlocal begun
        if not begun and has_taken(spark, folder, number):
            work_out(batch)
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
    told[0] = field_of(writer, "extraOptions").get(inner)
    return make.invoke(inner, told)


def _topic(writer: Any) -> Write:
    options = field_of(writer, "extraOptions").get(writer._jwrite)
    names = options.keys().toSeq()
    given = {str(names.apply(at)): str(options.apply(names.apply(at))) for at in range(names.size())}

    def write(batch: DataFrame, _: int) -> None:
        batch.write.format("kafka").options(**given).save()

    return write
