"""One query with one slow part, so that the composition of its latency is known before it is measured.

All variants are the same job: it reads records, six instances do `work` on them, and it counts them by key. The planted
part takes about as long as everything else together. But `work` keeps six slots busy, so a profile by busy time finds
more of `work`.

    plant      slow part                                                                  found as
    operator   an operator with two instances between work and the count                  the operator
    hot-key    an operator that has most of its records with one key                      its instance
    commit     the count has 24 partitions of state, each of which is committed           kind state-commit
    driver     the source needs long to report its offsets to the driver                  kind offsets
    sink       the function that receives the finished batch calls a service              kind sink
    executor   one of two executors is stopped for three quarters of the time             the executor
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.execute.spark.jobs.marking import mark

ROWS = 240  # records of a batch
SLOW = 3.0  # seconds
WORK = 0.4  # seconds of each of its six tasks, a piece for each record
HOT = 0.7  # share of the records with one key
STATE_PARTITIONS, MANY_STATE_PARTITIONS = 2, 24


@dataclass(frozen=True)
class Plant:
    """A variant of the query. `summary` names the kind of critical participation that shows the slow part."""

    name: str
    summary: str
    found_as: str


PLANTS = (
    Plant("operator", "operators", "slow"),
    Plant("hot-key", "instances", "keyed"),
    Plant("commit", "kinds", "state-commit"),
    Plant("driver", "kinds", "offsets"),
    Plant("sink", "kinds", "sink"),
    Plant("executor", "executors", ""),
)


class Steady(DataSource):
    """A source with the same number of records in each batch. `pause` is the time in seconds to report its offsets."""

    @classmethod
    def name(cls) -> str:
        return "steady"

    def schema(self) -> str:
        return "id long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's name
        return SteadyReader(float(self.options.get("pause", "0")))


class SteadyReader(DataSourceStreamReader):
    def __init__(self, pause: float) -> None:
        self._pause, self._at = pause, 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"at": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        time.sleep(self._pause)
        self._at += ROWS
        return {"at": self._at}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        middle = (start["at"] + end["at"]) // 2
        return [InputPartition((start["at"], middle)), InputPartition((middle, end["at"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        for number in range(*partition.value):
            yield (number,)


def build_writer(spark: SparkSession, plant: str, folder: Path) -> DataStreamWriter:
    """Return the writer of the query with this plant. The plant `executor` is outside the query."""
    many = plant == "commit"
    spark.conf.set("spark.sql.shuffle.partitions", str(MANY_STATE_PARTITIONS if many else STATE_PARTITIONS))
    records = spark.readStream.format("steady").option("pause", str(SLOW if plant == "driver" else 0)).load()
    keyed = records.selectExpr("id", f"if(id % 100 < {HOT * 100}, 0, id % 50) as key")
    worked = mark(_with(keyed.repartition(6), sleep_per_record(each=6 * WORK / ROWS)), "work")
    if plant == "operator":
        worked = mark(_with(worked.repartition(2), sleep_per_record(SLOW)), "slow")
    if plant == "hot-key":
        worked = mark(_with(worked.repartition(6, "key"), sleep_per_record(each=SLOW / (HOT * ROWS))), "keyed")
    counted = mark(worked.groupBy("key").count(), "count")
    pause = SLOW if plant == "sink" else 0.0

    def give(batch: DataFrame, _: int) -> None:
        batch.write.format("noop").mode("append").save()
        time.sleep(pause)

    place = str(folder / plant / "checkpoint")
    return (
        counted.writeStream.queryName(plant).outputMode("update").foreachBatch(give).option("checkpointLocation", place)
    )


def sleep_per_record(once: float = 0.0, each: float = 0.0) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return a function that sleeps once for each task and once for each record, like calls of a service."""

    def apply(batches: Iterable[Any]) -> Iterator[Any]:
        time.sleep(once)
        for batch in batches:
            for _ in range(batch.num_rows if each else 0):
                time.sleep(each)
            yield batch

    return apply


def _with(df: DataFrame, do: Callable[[Iterable[Any]], Iterator[Any]]) -> DataFrame:
    return df.mapInArrow(do, df.schema)
