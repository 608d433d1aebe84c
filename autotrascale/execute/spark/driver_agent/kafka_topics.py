"""Topics of Kafka as sources: what they hold, a copy of it for trials, and the stream itself for a job that runs.

Nobody here is in a group of consumers: what a topic holds is asked by partition, a copy is read between two offsets,
and a stream has its offsets in its own checkpoint. So no offset of anybody else's ever moves.
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
from autotrascale.execute.spark.clusters.session_configuration import NO_CONNECTOR
from autotrascale.execute.spark.common.source_settings import KafkaTopic, SourceSettings, TopicContents
from autotrascale.execute.spark.jobs.load_generator import ARRIVAL, Records
from autotrascale.execute.spark.jobs.topic_copy import OFFSET, PARTITION, STAMP, TopicCopy, write_topic_copy

_ANSWER_MS = 10_000
_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"

Ranges = Mapping[int, tuple[int, int]]
"""Of each partition, the first offset and the one behind the last."""


class KafkaSources:
    """`copied`: whether sources are copies that are played, as in a trial, or the topics themselves."""

    def __init__(
        self, spark: SparkSession, sources: Mapping[str, SourceSettings], folder: Path, *, copied: bool
    ) -> None:
        self._spark, self._folder, self._copied = spark, folder, copied
        self._topics = {name: source.kafka for name, source in sources.items()}
        held = {name: fetch_offsets(spark, topic) for name, topic in self._topics.items()}
        self._newest = {name: select_newest(ranges, self._topics[name].records) for name, ranges in held.items()}
        self.holds = {name: TopicContents(len(ranges), _count(ranges)) for name, ranges in self._newest.items()}
        for name, topic in self._topics.items():
            if copied and not self.holds[name].records:
                raise InputError(
                    f"sources.{name}",
                    f"{topic.called} holds no records to tune on",
                    remedy="send some, or name another topic",
                )

    def feed(self, name: str, schema: str, k: int) -> DataFrame | Records | None:
        """`Feeds` for a flow."""
        topic = self._topics.get(name)
        if topic is None:
            return None
        return self._copy(name, topic, schema) if self._copied else read_topic_stream(self._spark, topic, schema, k)

    def check_fed(self, job: str, fed: list[str]) -> None:
        for name in self._topics:
            if name not in fed:
                raise InputError(
                    f"sources.{name}",
                    f"job {job} reads this source by itself, wherever it is told to",
                    remedy="remove it here, or make it with flow.load in the job",
                )

    def close(self) -> None:
        if self._copied:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _copy(self, name: str, topic: KafkaTopic, schema: str) -> TopicCopy:
        """Made once: every trial has the same records."""
        path = self._path(name)
        if path.exists():
            return TopicCopy(str(path))
        ranges = self._newest[name]
        rows = _reader(self._spark.read, topic, _offsets(topic, ranges, 0), _offsets(topic, ranges, 1)).load()
        table = decode_records(rows, schema, {PARTITION: "partition", OFFSET: "offset", STAMP: "timestamp"}).toArrow()
        own = [
            column
            for name, column in zip(table.column_names, table.columns, strict=True)
            if name not in (PARTITION, OFFSET, STAMP)
        ]
        if not len(table) or all(column.null_count == len(table) for column in own):
            raise InputError(
                f"sources.{name}",
                f"{topic.called} holds no record of the form {schema}",
                remedy="one column of text is the text itself, else it is JSON",
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        return write_topic_copy(table, len(ranges), path)

    def _path(self, name: str) -> Path:
        return self._folder / f"copy-{name}.arrow"


def read_topic_stream(spark: SparkSession, topic: KafkaTopic, schema: str, k: int) -> DataFrame:
    """The topic itself; a record has arrived when the broker or its producer says so."""
    reader = spark.readStream.format("kafka").option("subscribe", topic.topic).option("startingOffsets", topic.begin)
    rows = _options(reader, topic).option("minPartitions", k).load()
    return decode_records(rows, schema, {ARRIVAL: "timestamp"})


def decode_records(rows: DataFrame, schema: str, beside: Mapping[str, str]) -> DataFrame:
    """Of Kafka's rows: a value is the one column of text, or a JSON object with a field for each column. `beside` are
    columns of Kafka's own, by the names that they shall have."""
    wanted, text = cast(StructType, StructType.fromDDL(schema)), fn.col("value").cast("string")
    others = [fn.col(column).alias(name) for name, column in beside.items()]
    if len(wanted.fields) == 1 and isinstance(wanted.fields[0].dataType, StringType):
        return rows.select(text.alias(wanted.fields[0].name), *others)
    return rows.select(fn.from_json(text, wanted).alias("record"), *others).select("record.*", *beside)


def select_newest(held: Ranges, most: int) -> dict[int, tuple[int, int]]:
    """Of each partition the newest, the same share of each, so that what is uneven stays so.

    >>> newest({0: (0, 300), 1: (50, 150)}, 40)
    {0: (270, 300), 1: (140, 150)}
    """
    count = _count(held)
    return {
        partition: (end - (end - start if count <= most else (end - start) * most // count), end)
        for partition, (start, end) in held.items()
    }


def fetch_offsets(spark: SparkSession, topic: KafkaTopic) -> dict[int, tuple[int, int]]:
    """What the topic holds, asked of the broker."""
    jvm: Any = spark.sparkContext._jvm
    settings = jvm.java.util.HashMap()
    limits = {"default.api.timeout.ms": _ANSWER_MS, "request.timeout.ms": _ANSWER_MS}
    own = {name.removeprefix("kafka."): value for name, value in topic.options.items()}
    wanted = {"bootstrap.servers": topic.bootstrap, "key.deserializer": _BYTES, "value.deserializer": _BYTES}
    for name, value in {**limits, **own, **wanted, "allow.auto.create.topics": "false"}.items():
        settings.put(name, str(value))
    if not isinstance(jvm.org.apache.kafka.clients.consumer.KafkaConsumer, JavaClass):
        raise EngineError(NO_CONNECTOR)
    try:
        return _asked(jvm, settings, topic)
    except Py4JJavaError as error:
        raise EngineError(f"{topic.called} cannot be read: {_said(error)}") from None


def _asked(jvm: Any, settings: Any, topic: KafkaTopic) -> dict[int, tuple[int, int]]:
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
    try:
        found = consumer.partitionsFor(topic.topic)
        numbers = sorted(each.partition() for each in found or ())
        if not numbers:
            raise InputError(topic.called, "is not there", remedy="create it, or name another")
        places = jvm.java.util.ArrayList()
        for number in numbers:
            places.add(jvm.org.apache.kafka.common.TopicPartition(topic.topic, number))
        first, last = consumer.beginningOffsets(places), consumer.endOffsets(places)
        return {number: (int(first[place]), int(last[place])) for number, place in zip(numbers, places, strict=True)}
    finally:
        consumer.close()


def _reader(reader: Any, topic: KafkaTopic, start: str, end: str) -> Any:
    # Of what is gone by now (a topic keeps its records for a while) the rest will do.
    asked = reader.format("kafka").option("subscribe", topic.topic).option("failOnDataLoss", "false")
    return _options(asked, topic).option("startingOffsets", start).option("endingOffsets", end)


def _options(reader: Any, topic: KafkaTopic) -> Any:
    for name, value in {**topic.options, "kafka.bootstrap.servers": topic.bootstrap}.items():
        reader = reader.option(name, value)
    return reader


def _offsets(topic: KafkaTopic, ranges: Ranges, which: int) -> str:
    return json.dumps({topic.topic: {str(partition): each[which] for partition, each in ranges.items()}})


def _count(ranges: Ranges) -> int:
    return sum(end - start for start, end in ranges.values())


def _said(error: Py4JJavaError) -> str:
    """Java's own words, without the name of its class."""
    innermost = error.java_exception
    while innermost.getCause() is not None:
        innermost = innermost.getCause()
    return str(innermost.getMessage() or innermost.getClass().getSimpleName()).splitlines()[0]
