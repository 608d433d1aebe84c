"""Records the logs in `logs/` from a real Spark: `python tests/analyze/record.py`. Half a minute; any size of machine.

    marked/eventlog_v2_…    a stream of six batches whose operators are observed: numbers → pairs → count → sink
    filters/eventlog_v2_…   the same, counted by filters
    plain/….zstd            a stream that knows nothing of marks
    queries/….zstd          no stream at all: a query with a shuffle, under adaptive execution, and a job of RDDs

What they count is known exactly; the tests have the same numbers.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.jobs.flow import Flow
from autotrascale.execute.spark.jobs.marking import observe_records

LOGS = Path(__file__).parent / "logs"
BATCHES, ROWS, KEYS = 6, 600, 50
PARALLELISM = {"numbers": 2, "pairs": 3, "count": 4, "sink": 2}
TOPOLOGY = Topology(
    {
        "numbers": Operator(),
        "pairs": Operator(("numbers",)),
        "count": Operator(("pairs",), stateful=True),
        "sink": Operator(("count",)),
    }
)


class Observing(Flow):
    """A flow whose operators are marked by observations instead of filters."""

    def _mark(self, name: str, df: DataFrame, arrival: str = "") -> DataFrame:
        return super()._mark(name, df, arrival) if arrival else observe_records(df, name)


def marked(spark: SparkSession, folder: str) -> None:
    counting(Observing(spark, TOPOLOGY, PARALLELISM, ""), "counting", folder)


def filtered(spark: SparkSession, folder: str) -> None:
    counting(Flow(spark, TOPOLOGY, PARALLELISM, ""), "filtered", folder)


def counting(flow: Flow, name: str, folder: str) -> None:
    spark = flow.spark
    numbers = flow.source("numbers", numbers_of(spark), arrival="timestamp")
    pairs = flow.operator("pairs", numbers, do=twice)
    count = flow.operator("count", pairs, do=lambda df: df.groupBy("key").count(), by=["key"])
    run(flow.operator("sink", count, do=lambda df: df.where("count > 0")), name, folder)


def plain(spark: SparkSession, folder: str) -> None:
    run(numbers_of(spark).groupBy((fn.col("value") % KEYS).alias("key")).count(), "plain", folder)


def query(spark: SparkSession, folder: str) -> None:
    keys = spark.range(1000, numPartitions=3).groupBy((fn.col("id") % 7).alias("key")).count()
    keys.write.parquet(f"{folder}/keys")


def rdds(spark: SparkSession, _: str) -> None:
    spark.sparkContext.parallelize(range(100), 3).map(lambda n: (n % 5, 1)).reduceByKey(int.__add__, 2).collect()


def numbers_of(spark: SparkSession) -> DataFrame:
    """Return a stream with the same rows in every batch, which arrive now."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 2)
    return source.option("startTimestamp", int(time.time() * 1000) - 1000).option("advanceMillisPerBatch", 500).load()


def twice(df: DataFrame) -> DataFrame:
    key = fn.col("value") % KEYS
    return df.select(fn.explode(fn.array(key, key)).alias("key"))


def run(df: DataFrame, name: str, folder: str) -> None:
    """Until the last of the batches is done. A noop sink takes all and keeps nothing."""
    writer = df.writeStream.format("noop").outputMode("update").queryName(name)
    query = writer.option("checkpointLocation", f"{folder}/{name}").start()
    while (query.lastProgress or {"batchId": -1})["batchId"] < BATCHES - 1:
        time.sleep(0.05)
    query.stop()


def record(name: str, rolling: bool, *works: Any) -> None:
    target = LOGS / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    builder: Any = SparkSession.builder.master("local[4]").appName(name)
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.adaptive.enabled": "false" if rolling else "true",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "true",
        "spark.eventLog.dir": target.as_uri(),
        "spark.eventLog.rolling.enabled": str(rolling).lower(),
    }
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        for work in works:
            work(spark, folder)
    spark.stop()
    for file in target.rglob("*local-*.zstd"):
        shear(file)


def shear(file: Path) -> None:
    """Remove details of the recording machine."""
    with pa.input_stream(str(file), compression="zstd") as stream:
        text = stream.read().decode()
    for place, name in ((str(LOGS.parents[2]), "/home/user"), ('"User":"root"', '"User":"user"')):
        text = text.replace(place, name)
    lines = [line for line in text.splitlines(keepends=True) if "SparkListenerEnvironmentUpdate" not in line]
    with pa.CompressedOutputStream(pa.OSFile(str(file), "wb"), "zstd") as stream:
        stream.write("".join(lines).encode())


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    record("marked", True, marked)
    record("filters", True, filtered)
    record("plain", False, plain)
    record("queries", False, query, rdds)
