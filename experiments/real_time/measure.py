"""One query on real Spark, run in real-time mode and in micro-batches: what it carries, and how late.

    topic ─▶ source (1 task) ─▶ split (p tasks) ─▶ count (p tasks) ─▶ topic

Both operators park for each record, as a blocking call would: that takes time and no CPU. A record carries the time at
which it was put into the first topic, and the second topic says when it arrived there.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.kafka_broker import SCRIPT, Broker, connector_jars

Mode = Literal["real-time", "micro-batch"]
MODES: tuple[Mode, ...] = ("real-time", "micro-batch")
PARALLELISMS = (1, 2, 3, 4, 5)
# In real-time mode all tasks run at once, and what arrived is read beside them, which needs a slot too.
SLOTS = 3 + 2 * max(PARALLELISMS)
UP_WITHIN = 120.0  # s
BATCH = "1 minute"  # of real-time mode: what is committed at a time, no time that a record waits


@dataclass(frozen=True)
class Load:
    """`stall`: of each operator for each record. Two operators of load `rate * stall` each."""

    rate: int = 400  # records/s
    stall: float = 0.004  # s
    seconds: int = 30  # of input
    window_seconds: int = 15  # the last of them, from which latencies are read

    @property
    def load(self) -> float:
        return self.rate * self.stall


def session() -> SparkSession:
    builder = SparkSession.builder.master(f"local[{SLOTS}]").appName("real-time")
    settings = {
        "spark.jars": connector_jars(), "spark.ui.enabled": "false", "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1", "spark.driver.memory": "1g",
    }  # fmt: skip
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def point(spark: SparkSession, broker: Broker, folder: Path, mode: Mode, p: int, load: Load) -> dict[str, Any]:
    """One query from its start to its end, on topics of its own. The input begins once a first record is through."""
    name = f"{mode}-{p}"
    came, went = f"{name}-in", f"{name}-out"
    for topic in (came, went):
        broker.create(topic, 1)
    writer = _query(_records(spark, broker, came), p, load).writeStream.format("kafka").outputMode("update")
    writer = writer.option("kafka.bootstrap.servers", broker.servers).option("topic", went)
    writer = writer.option("checkpointLocation", str(folder / name))
    query = (writer.trigger(realTime=BATCH) if mode == "real-time" else writer).start()
    try:
        broker.send(came, ["first"])
        until = time.monotonic() + UP_WITHIN
        while not len(_arrived(spark, broker, went)):
            if error := query.exception():
                raise error
            if time.monotonic() > until:
                raise RuntimeError(f"{name}: nothing came through within {UP_WITHIN:.0f} s")
            time.sleep(0.5)
        _produce(broker, came, load)
    finally:
        query.stop()
    return {"mode": mode, "p": p, **arrivals(_arrived(spark, broker, went)[1:], load)}


def _records(spark: SparkSession, broker: Broker, topic: str) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.servers)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()


def _query(records: DataFrame, p: int, load: Load) -> DataFrame:
    """No Python: real-time mode takes no Python workers, so the JVM parks."""
    parked = f.expr(
        f"reflect('java.util.concurrent.locks.LockSupport', 'parkNanos', cast({round(load.stall * 1e9)} as bigint))"
    )
    split = records.repartition(p).select(f.unix_millis("timestamp").alias("put"), parked.alias("split"))
    counted = split.repartition(p).select("put", "split", parked.alias("count"))
    return counted.select(f.concat_ws(",", f.col("put").cast("string"), "split", "count").alias("value"))


def _produce(broker: Broker, topic: str, load: Load) -> None:
    """At a constant rate."""
    told = ("--num-records", load.rate * load.seconds, "--throughput", load.rate, "--record-size", 20, "--topic", topic)
    command = [SCRIPT, "tool", "org.apache.kafka.tools.ProducerPerformance", *told,
               "--producer-props", f"bootstrap.servers={broker.servers}"]  # fmt: skip
    subprocess.run([str(each) for each in command], capture_output=True, check=True)


def _arrived(spark: SparkSession, broker: Broker, topic: str) -> Any:
    """(when it was put, when it arrived) of every record, in ms since 1970."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.servers)
    rows = reader.option("subscribe", topic).load().orderBy("offset")
    put = f.split(f.col("value").cast("string"), ",")[0].cast("bigint")
    return np.array(rows.select(put, f.unix_millis("timestamp")).collect(), dtype=np.int64).reshape(-1, 2)


def arrivals(times: Any, load: Load) -> dict[str, Any]:
    """`throughput`: of all that arrived while there was input. Latencies are of what arrived in the window."""
    if len(times) == 0:
        return {"throughput": 0.0, "latency": None}
    end = times[:, 0].min() + 1000 * load.seconds
    seen = times[times[:, 1] <= end]
    throughput = round(len(seen) / load.seconds, 1)
    within = seen[seen[:, 1] > end - 1000 * load.window_seconds]
    if len(within) == 0:
        return {"throughput": throughput, "latency": None}
    late = (within[:, 1] - within[:, 0]) / 1000
    half, nearly_all = (round(float(each), 4) for each in np.quantile(late, [0.5, 0.99]))
    return {"throughput": throughput, "latency": {"mean": round(float(late.mean()), 4), "p50": half, "p99": nearly_all}}
