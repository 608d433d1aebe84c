"""One query on real Spark, in real-time mode or in micro-batches, from its start to its end.

    topic ─▶ source (1 task) ─▶ split (tasks) ─▶ count (tasks) ─▶ topic

Both operators park for each record, as a blocking call would: that takes time and no CPU. A record carries when it was
put into the first topic and when each operator began and ended with it; the second topic says when it arrived there.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.workloads.kafka_broker import SCRIPT, Broker, connector_jars

Mode = Literal["real-time", "micro-batch"]
MODES: tuple[Mode, ...] = ("real-time", "micro-batch")
P_MAX = 8
# In real-time mode all tasks run at once, and what arrived is read beside them, which needs a slot too.
SLOTS = 3 + 2 * P_MAX
UP_WITHIN = 120.0  # s
BATCH = "1 minute"  # of real-time mode: what is committed at a time, no time that a record waits
HELD = 0.95  # share of the rate with which it counts as carried: what is on its way at the end did not arrive yet


@dataclass(frozen=True)
class Load:
    """`split` and `count`: how long each parks for a record. Loads are `rate` times that, in instances."""

    rate: int = 400  # records/s
    split: float = 0.004  # s
    count: float = 0.004  # s
    seconds: int = 30  # of input
    window_seconds: int = 15  # the last of them, from which latencies are read


class Queries:
    """Queries on one session and one broker, one after the other, each on topics of its own."""

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path) -> None:
        self.spark, self.broker, self.folder = spark, broker, folder
        self._numbers = count(1)

    def run(self, mode: Mode, p: tuple[int, int], load: Load) -> Any:
        """The times of all records, as `_arrived` gives them. The input begins once a first record is through."""
        name = f"{mode}-{next(self._numbers)}"
        came, went = f"{name}-in", f"{name}-out"
        for topic in (came, went):
            self.broker.create(topic, 1)
        records = self._from(self.spark.readStream, came).option("startingOffsets", "earliest").load()
        writer = _query(records, p, load).writeStream.format("kafka").outputMode("update").option("topic", went)
        writer = writer.option("kafka.bootstrap.servers", self.broker.servers)
        writer = writer.option("checkpointLocation", str(self.folder / name))
        query = (writer.trigger(realTime=BATCH) if mode == "real-time" else writer).start()
        try:
            self.broker.send(came, ["first"])
            until = time.monotonic() + UP_WITHIN
            while not len(self._arrived(went)):
                if error := query.exception():
                    raise error
                if time.monotonic() > until:
                    raise RuntimeError(f"{name}: nothing came through within {UP_WITHIN:.0f} s")
                time.sleep(0.5)
            self._produce(came, load)
        finally:
            query.stop()
        return self._arrived(went)[1:]

    def _from(self, reader: Any, topic: str) -> Any:
        reader = reader.format("kafka").option("kafka.bootstrap.servers", self.broker.servers)
        return reader.option("subscribe", topic)

    def _produce(self, topic: str, load: Load) -> None:
        """At a constant rate."""
        told = (
            "--num-records",
            load.rate * load.seconds,
            "--throughput",
            load.rate,
            "--record-size",
            20,
            "--topic",
            topic,
        )
        command = [
            SCRIPT,
            "tool",
            "org.apache.kafka.tools.ProducerPerformance",
            *told,
            "--producer-props",
            f"bootstrap.servers={self.broker.servers}",
        ]
        subprocess.run([str(each) for each in command], capture_output=True, check=True)

    def _arrived(self, topic: str) -> Any:
        """(put, arrived, split began, ended, count began, ended) of every record: two in ms since 1970, four in ns of
        the JVM's clock."""
        rows = self._from(self.spark.read, topic).load().orderBy("offset")
        said = f.split(f.col("value").cast("string"), ",")
        times = [said[i].cast("bigint") for i in (0, 1, 2, 3, 5)]  # the fifth is what parking gave
        found = rows.select(times[0], f.unix_millis("timestamp"), *times[1:]).collect()
        return np.array(found, dtype=np.int64).reshape(-1, 6)


@contextmanager
def queries() -> Iterator[Queries]:
    with tempfile.TemporaryDirectory(prefix="real-time-") as folder:
        broker = Broker(Path(folder) / "kafka")
        broker.start()
        try:
            spark = _session()
            yield Queries(spark, broker, Path(folder))
            spark.stop()
        finally:
            broker.kill()


def _session() -> SparkSession:
    builder = SparkSession.builder.master(f"local[{SLOTS}]").appName("real-time")
    settings = {
        "spark.jars": connector_jars(),
        "spark.ui.enabled": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.memory": "1g",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _query(records: DataFrame, p: tuple[int, int], load: Load) -> DataFrame:
    """No Python: real-time mode takes no Python workers, so the JVM parks. Spark evaluates the columns in their order;
    a column that nobody reads would be left out, so what parking gives (the word null) goes along to the end."""
    split = records.repartition(p[0]).select(
        f.unix_millis("timestamp").cast("string").alias("put"), _now("s0"), _parked("split", load.split), _now("s1")
    )
    counted = split.repartition(p[1]).select(
        "put", "s0", "split", "s1", _now("c0"), _parked("count", load.count), _now("c1")
    )
    return counted.select(f.concat_ws(",", "put", "s0", "s1", "c0", "count", "c1", "split").alias("value"))


def _now(name: str) -> Column:
    return f.expr("reflect('java.lang.System', 'nanoTime')").alias(name)


def _parked(name: str, seconds: float) -> Column:
    nanos = f"cast({round(seconds * 1e9)} as bigint)"
    return f.expr(f"reflect('java.util.concurrent.locks.LockSupport', 'parkNanos', {nanos})").alias(name)
