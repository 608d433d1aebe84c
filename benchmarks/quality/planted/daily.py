"""Streaming jobs with a daily load whose memory follows the load: memory given back at night is missing at noon.

orders     a state of the last half minute's records, on the heap
prices     a Python worker that holds the records of a batch, outside the heap
clicks     some of both

Records are files in the job's folder, written by `executors/day.py`. A batch has at most the records of two seconds, so
a relaunched job catches up step by step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotrascale.testing.standalone_cluster import conf
from benchmarks.quality.executors.day import Day
from benchmarks.quality.planted.sized import RESIDENT, ROW_BYTES, Planted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TIMES = 2  # records of the job for each record of a file
KEPT_SECONDS = 30
FILES_A_BATCH = 8
RECORD_MB = 0.5  # memory of a record in a Python worker
LOADS: Mapping[str, tuple[float, float]] = {"orders": (150.0, 500.0), "prices": (120.0, 400.0), "clicks": (75.0, 250.0)}
"""Records of files a second, at night and at noon."""


@dataclass(frozen=True)
class Days(Day):
    """Several days in a row, each of the same number of seconds."""

    def rate(self, at: float) -> float:
        return super().rate(at % self.seconds)


def _records(spark: SparkSession, folder: Path) -> DataFrame:
    source = spark.readStream.schema("n long, arrival double").option("maxFilesPerTrigger", FILES_A_BATCH)
    return source.json(str(folder / "in"))


def _state(records: DataFrame) -> DataFrame:
    """Keep the records of the last one or two time spans."""
    each = records.selectExpr(
        "timestamp_millis(cast(arrival * 1000 AS long)) AS at",
        f"explode(sequence({TIMES} * n, {TIMES} * n + {TIMES - 1})) AS key",
    )
    kept = each.selectExpr("at", "key", f"repeat(md5(cast(key AS string)), {ROW_BYTES // 32}) AS kept")
    spans = kept.withWatermark("at", "1 second").groupBy(_span(), "key")
    return spans.agg({"kept": "max"})


def _span() -> object:
    from pyspark.sql import functions as fn

    return fn.window("at", f"{KEPT_SECONDS} seconds")


def _held(records: DataFrame, megabytes: float) -> DataFrame:
    def through(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            held = b"\1" * int(batch.num_rows * megabytes * 2**20)
            time.sleep(0.3)  # so that a look at the memory sees it
            del held
            yield batch

    return records.mapInArrow(through, "n long, arrival double")


def _job(name: str, make: Callable[[DataFrame], DataFrame], more: Mapping[str, str], mode: str = "update") -> Planted:
    return Planted(
        "none",
        {**conf(1, "512m"), **more},
        lambda spark, folder: make(_records(spark, folder)),
        mode=mode,
        name=name,
        every="1 second",
    )


DAILY: tuple[Planted, ...] = (
    _job("orders", _state, {}),
    _job("prices", lambda records: _held(records, RECORD_MB), RESIDENT, mode="append"),
    _job("clicks", lambda records: _state(_held(records, RECORD_MB)), {}),
)
