"""Streaming jobs whose executors have a wrong size, each with a planted fault.

heap          a state of about 260 MB in a heap of 512 MB
memory        a Python worker that grows to 500 MB, in an executor with 384 MB overhead and a fully resident heap
cpu           a third more records than a core of this machine can hash
leak          a Python worker that keeps 12 MB of each batch
too-much      a Python worker that grows to 300 MB, and a small state: half of the memory would do
service       a service that is called for each record and becomes eight times as slow after a while

Files in the job's folder pass facts on: `begun`, the time of its first batch; `rows`, the records per second that are
too many for a core.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotrascale.plan.executor_size.size_evidence import SizeFault
from autotrascale.testing.standalone_cluster import JAVA, conf

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FAST, SLOW = 0.005, 0.040  # seconds of a call
SLOW_AFTER = 60.0  # seconds from the first batch
KEYS, ROW_BYTES, SMALL_ROW_BYTES = 60_000, 4480, 448  # of the state
LEAK_MB, HELD_MB, HELD_AT_ONCE = 12, 500, 50
_TAKES = 0.3  # seconds of each batch; Spark samples the memory of executors only while tasks run
_STATE_STORES = "org.apache.spark.sql.execution.streaming.state"
SETTINGS: Mapping[str, str] = {
    "spark.cores.max": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "700m",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "true",
    # The fault `heap` needs its state on the heap.
    "spark.sql.streaming.stateStore.providerClass": f"{_STATE_STORES}.HDFSBackedStateStoreProvider",
}


@dataclass(frozen=True)
class Planted:
    """A job with a fault. `make` builds its data frame; `ready` is the time in seconds until the fault is complete."""

    fault: SizeFault
    settings: Mapping[str, str]
    make: Callable[[SparkSession, Path], DataFrame]
    ready: float = 15.0
    mode: str = "append"
    name: str = ""  # default: the fault
    every: str = ""  # trigger interval; default: as soon as there are records

    @property
    def application(self) -> str:
        return self.name or self.fault

    def writer(self, spark: SparkSession, folder: Path) -> DataStreamWriter:
        writer = self.make(spark, folder).writeStream.format("noop").outputMode(self.mode)
        writer = writer.trigger(processingTime=self.every) if self.every else writer
        return writer.option("checkpointLocation", str(folder / "checkpoint"))


def service_latency(folder: Path, at: float | None = None) -> float:
    """Return the latency of the service in seconds at a time."""
    begun = folder / "begun"
    since = (at or time.time()) - float(begun.read_text()) if begun.exists() else 0.0
    return SLOW if since >= SLOW_AFTER else FAST


def _rate(spark: SparkSession, rows: float, partitions: int = 1) -> DataFrame:
    source = spark.readStream.format("rate").option("rowsPerSecond", int(rows))
    return source.option("numPartitions", partitions).load()


def _state(spark: SparkSession, _: Path) -> DataFrame:
    """Build a job with so many rows in each batch."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", KEYS // 10).option("numPartitions", 1)
    return _counted(source.load(), ROW_BYTES)


def _counted(values: DataFrame, row_bytes: int) -> DataFrame:
    """Keep a state of a given size for each key in a map on the heap, like Spark's own provider."""
    kept = f"repeat(md5(cast(value as string)), {row_bytes // 32}) AS kept"
    return values.selectExpr(f"value % {KEYS} AS key", kept).groupBy("key").agg({"kept": "max"})


def _held_and_counted(spark: SparkSession, folder: Path) -> DataFrame:
    return _counted(_mapped(KEYS / 20, _keeps(HELD_AT_ONCE, 300))(spark, folder), SMALL_ROW_BYTES)


_TEXT = "repeat(cast(10000 + value % 90000 as string), 20000)"  # all of one length
_HASH = f"sha2(concat(sha2({_TEXT}, 512), {_TEXT}), 512) AS hashed"


def _hashed_too_much(spark: SparkSession, folder: Path) -> DataFrame:
    """Hash in two tasks, so that two cores help."""
    rows = folder / "rows"
    if not rows.exists():
        rows.write_text(f"{1.3 * _of_a_core(spark):.0f}")
    return _rate(spark, float(rows.read_text()), 2).selectExpr(_HASH)


def _of_a_core(spark: SparkSession) -> float:
    """Return the records per second that one core can hash: the best of several trials, as the machine may be busy."""
    took, some = [], 3000
    for _ in range(6):  # the first trial compiles
        began = time.monotonic()
        hashed = spark.range(some).selectExpr("id AS value").repartition(1).selectExpr(_HASH)
        hashed.write.format("noop").mode("overwrite").save()
        took.append(time.monotonic() - began)
    return some / min(took)


def _mapped(rows: float, work: Callable[[Any], None]) -> Callable[[SparkSession, Path], DataFrame]:
    def made(spark: SparkSession, _: Path) -> DataFrame:
        def through(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                work(batch)
                yield batch

        return _rate(spark, rows).selectExpr("value").mapInArrow(through, "value long")

    return made


def _keeps(megabytes: int, most: int) -> Callable[[Any], None]:
    """Keep some memory of each batch, up to a limit."""

    def keep(_: Any) -> None:
        time.sleep(_TAKES)
        kept = vars(sys).setdefault("planted", [])
        if len(kept) * megabytes < most:
            kept.append(os.urandom(1 << 20) * megabytes)

    return keep


def _asked(spark: SparkSession, folder: Path) -> DataFrame:
    def ask(batch: Any) -> None:
        time.sleep(service_latency(folder) * batch.num_rows)

    return _mapped(30, ask)(spark, folder)


RESIDENT = {"spark.executor.extraJavaOptions": f"{JAVA} -Xms512m -XX:+AlwaysPreTouch"}
PLANTED: tuple[Planted, ...] = (
    Planted("heap", conf(1, "512m"), _state, mode="update"),
    Planted("memory", {**conf(1, "512m"), **RESIDENT}, _mapped(50, _keeps(HELD_AT_ONCE, HELD_MB))),
    Planted("cpu", conf(1, "512m"), _hashed_too_much),
    Planted(
        "leak",
        {**conf(1, "512m"), **RESIDENT, "spark.executor.memoryOverhead": "1400m"},
        _mapped(50, _keeps(LEAK_MB, 1 << 20)),
    ),
    Planted(
        "too-much",
        {**conf(2, "1400m"), "spark.executor.memoryOverhead": "1000m", "spark.cores.max": "2"},
        _held_and_counted,
        mode="update",
    ),
    Planted("service", conf(1, "512m"), _asked, ready=SLOW_AFTER),
)


def find_planted(fault: str) -> Planted:
    return next(job for job in PLANTED if job.fault == fault)
