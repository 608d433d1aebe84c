"""Kafka topics as sources: their offsets, a copy of their newest records for trials, and the stream for running jobs.

No code here joins a consumer group. Offsets are asked by partition, a copy is read between two offsets, and a stream
has its offsets in its own checkpoint. So the offsets of other consumers never move.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType, StructType

from autotrascale.domain.errors import EngineError, InputError
from autotrascale.execute.spark.common.source_settings import NO_CONNECTOR, KafkaTopic, SourceSettings, TopicContents
from autotrascale.execute.spark.jobs.load_generator import ARRIVAL, Records
from autotrascale.execute.spark.jobs.topic_copy import OFFSET, PARTITION, STAMP, TopicCopy, write_topic_copy

_ANSWER_MS = 10_000
_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"

Ranges = Mapping[int, tuple[int, int]]
"""By partition, the first offset and the offset behind the last record."""


class KafkaSources:
    """The sources of a job that read topics. `contents` has the size of each topic, by source."""

    def __init__(
        self, spark: SparkSession, sources: Mapping[str, SourceSettings], folder: Path, *, copied: bool
    ) -> None:
        """Ask the brokers for the offsets of all topics.

        Args:
            spark: the session.
            sources: settings by source.
            folder: folder for the copies.
            copied: play copies, as a trial does, instead of reading the topics.

        Raises:
            InputError: a topic does not exist, or is empty and to be copied.
            EngineError: a broker does not answer, or Spark lacks the connector.
        """
        self._spark, self._folder, self._copied = spark, folder, copied
        self._topics = {name: source.kafka for name, source in sources.items()}
        offsets = {name: fetch_offsets(spark, topic) for name, topic in self._topics.items()}
        self._newest = {name: select_newest(ranges, self._topics[name].records) for name, ranges in offsets.items()}
        self.contents = {name: TopicContents(len(ranges), _count(ranges)) for name, ranges in self._newest.items()}
        for name, topic in self._topics.items():
            if copied and not self.contents[name].records:
                raise InputError(
                    f"sources.{name}",
                    f"{topic.label} holds no records for trials",
                    remedy="send records, or name another topic",
                )

    def feed(self, name: str, schema: str, k: int) -> DataFrame | Records | None:
        """Return the records of source `name` for a `Flow`; None if no topic is set for it."""
        topic = self._topics.get(name)
        if topic is None:
            return None
        return (
            self._copy_once(name, topic, schema) if self._copied else read_topic_stream(self._spark, topic, schema, k)
        )

    def check_fed(self, job: str, fed: list[str]) -> None:
        """Raise `InputError` unless the job took the records of each topic (`fed` has the names of these sources)."""
        for name in self._topics:
            if name not in fed:
                raise InputError(
                    f"sources.{name}",
                    f"job {job} reads this source itself and ignores the topic",
                    remedy="remove it here, or use flow.load in the job",
                )

    def close(self) -> None:
        """Remove the copies."""
        if self._copied:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _copy_once(self, name: str, topic: KafkaTopic, schema: str) -> TopicCopy:
        """Make the copy once, so that all trials have the same records."""
        path = self._folder / f"copy-{name}.arrow"
        if path.exists():
            return TopicCopy(str(path))
        ranges = self._newest[name]
        # Kafka may delete old records at any time; the remaining ones are enough.
        reader = self._spark.read.format("kafka").option("subscribe", topic.topic).option("failOnDataLoss", "false")
        reader = _add_options(reader, topic).option("startingOffsets", _offsets_json(topic, ranges, 0))
        rows = reader.option("endingOffsets", _offsets_json(topic, ranges, 1)).load()
        table = decode_records(rows, schema, {PARTITION: "partition", OFFSET: "offset", STAMP: "timestamp"}).toArrow()
        columns = [
            column
            for name, column in zip(table.column_names, table.columns, strict=True)
            if name not in (PARTITION, OFFSET, STAMP)
        ]
        if not len(table) or all(column.null_count == len(table) for column in columns):
            raise InputError(
                f"sources.{name}",
                f"{topic.label} holds no record with the columns {schema}",
                remedy="a record must be JSON, or plain text for a single text column",
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        return write_topic_copy(table, len(ranges), path)


def read_topic_stream(spark: SparkSession, topic: KafkaTopic, schema: str, k: int) -> DataFrame:
    """Return the stream of a topic. The arrival time is the timestamp of the broker or the producer."""
    reader = spark.readStream.format("kafka").option("subscribe", topic.topic).option("startingOffsets", topic.begin)
    rows = _add_options(reader, topic).option("minPartitions", k).load()
    return decode_records(rows, schema, {ARRIVAL: "timestamp"})


def decode_records(rows: DataFrame, schema: str, beside: Mapping[str, str]) -> DataFrame:
    """Return the columns of `schema` (DDL) from the values of Kafka's rows.

    A value is the text itself if the schema is a single text column, otherwise JSON. `beside` are further columns of
    Kafka by their new names.
    """
    wanted, text = cast(StructType, StructType.fromDDL(schema)), fn.col("value").cast("string")
    others = [fn.col(column).alias(name) for name, column in beside.items()]
    if len(wanted.fields) == 1 and isinstance(wanted.fields[0].dataType, StringType):
        return rows.select(text.alias(wanted.fields[0].name), *others)
    return rows.select(fn.from_json(text, wanted).alias("record"), *others).select("record.*", *beside)


def select_newest(held: Ranges, most: int) -> dict[int, tuple[int, int]]:
    """Return the newest records of a topic, the same share of each partition, and at most `most` together.

    >>> newest({0: (0, 300), 1: (50, 150)}, 40)
    {0: (270, 300), 1: (140, 150)}
    """
    count = _count(held)
    return {
        partition: (end - (end - start if count <= most else (end - start) * most // count), end)
        for partition, (start, end) in held.items()
    }


def fetch_offsets(spark: SparkSession, topic: KafkaTopic) -> dict[int, tuple[int, int]]:
    """Return the offsets of a topic by partition, asked of the broker."""
    jvm: Any = spark.sparkContext._jvm
    settings = jvm.java.util.HashMap()
    limits = {"default.api.timeout.ms": _ANSWER_MS, "request.timeout.ms": _ANSWER_MS}
    user_options = {name.removeprefix("kafka."): value for name, value in topic.options.items()}
    fixed = {"bootstrap.servers": topic.bootstrap, "key.deserializer": _BYTES, "value.deserializer": _BYTES}
    for name, value in {**limits, **user_options, **fixed, "allow.auto.create.topics": "false"}.items():
        settings.put(name, str(value))
    if not isinstance(jvm.org.apache.kafka.clients.consumer.KafkaConsumer, JavaClass):
        raise EngineError(NO_CONNECTOR)
    try:
        return _query_offsets(jvm, settings, topic)
    except Py4JJavaError as error:
        raise EngineError(f"{topic.label} cannot be read: {_root_message(error)}") from None


def _query_offsets(jvm: Any, settings: Any, topic: KafkaTopic) -> dict[int, tuple[int, int]]:
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
    try:
        partitions = consumer.partitionsFor(topic.topic)
        numbers = sorted(each.partition() for each in partitions or ())
        if not numbers:
            raise InputError(topic.label, "does not exist", remedy="create it, or name another topic")
        places = jvm.java.util.ArrayList()
        for number in numbers:
            places.add(jvm.org.apache.kafka.common.TopicPartition(topic.topic, number))
        first, last = consumer.beginningOffsets(places), consumer.endOffsets(places)
        return {number: (int(first[place]), int(last[place])) for number, place in zip(numbers, places, strict=True)}
    finally:
        consumer.close()


def _add_options(reader: Any, topic: KafkaTopic) -> Any:
    for name, value in {**topic.options, "kafka.bootstrap.servers": topic.bootstrap}.items():
        reader = reader.option(name, value)
    return reader


def _offsets_json(topic: KafkaTopic, ranges: Ranges, which: int) -> str:
    """Return the first (`which` 0) or end offsets (1) as Spark's options want them."""
    return json.dumps({topic.topic: {str(partition): each[which] for partition, each in ranges.items()}})


def _count(ranges: Ranges) -> int:
    return sum(end - start for start, end in ranges.values())


def _root_message(error: Py4JJavaError) -> str:
    """Return the first line of the innermost Java error, without the name of its class."""
    innermost = error.java_exception
    while innermost.getCause() is not None:
        innermost = innermost.getCause()
    return str(innermost.getMessage() or innermost.getClass().getSimpleName()).splitlines()[0]
