"""Queries in which each operator in turn gets one more instance, on real Spark, and their event logs.

    job        shape
    branches   two operators side by side, one longer than the other; the count waits for both
    row        two operators in a row
    hot-key    an operator that has most of its records with one key
    per-task   an operator whose tasks take half of their time whatever their input

Operators sleep for each record, like calls of a service, so more instances help on a machine with few cores too. The
queries of a job run side by side in one session. In each round every query gets a batch of the same records, in a new
random order, so other load on the machine affects all queries alike.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.jobs.flow import Flow
from benchmarks.quality.planted.queries import sleep_per_record

ROWS = 240  # records of a batch from each source
COUNT = 2  # instances of the stateful count
WARM_UP_BATCHES = 2  # first batches of each query, which are not measured
_ROOT = str(Path(__file__).parents[3])
_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


@dataclass(frozen=True)
class Step:
    """An operator that sleeps `seconds` over the records of a batch, all instances together, and `once` in each task.

    With `key`, its records are partitioned by the key.
    """

    k: int
    seconds: float
    after: str
    once: float = 0.0
    key: bool = False


@dataclass(frozen=True)
class Worth:
    """A job. `hot` is the share of the records with one key."""

    name: str
    steps: Mapping[str, Step]
    hot: float = 0.0

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(step.after for step in self.steps.values() if step.after not in self.steps))

    @property
    def ends(self) -> tuple[str, ...]:
        """The steps that the count waits for."""
        return tuple(name for name in self.steps if all(step.after != name for step in self.steps.values()))

    @property
    def topology(self) -> Topology:
        steps = {name: Operator((step.after,)) for name, step in self.steps.items()}
        sources = {name: Operator() for name in self.sources}
        return Topology({**sources, **steps, "count": Operator(self.ends, stateful=True)})

    @property
    def parallelism(self) -> dict[str, int]:
        """The instances of each operator. One task reads a file."""
        return {**dict.fromkeys(self.sources, 1), **{name: step.k for name, step in self.steps.items()}, "count": COUNT}

    @property
    def ways(self) -> tuple[str, ...]:
        """The variants: no change, and one more instance of each operator that sleeps."""
        return "", *self.steps

    def query(self, way: str) -> str:
        return f"{self.name}/{way}"


JOBS = (
    Worth("branches", {"long": Step(2, 10.0, "left"), "short": Step(2, 8.0, "right")}),
    Worth("row", {"first": Step(2, 6.0, "read"), "second": Step(3, 7.5, "first")}),
    Worth("hot-key", {"even": Step(2, 5.0, "read"), "keyed": Step(4, 6.0, "even", key=True)}, hot=0.6),
    Worth("per-task", {"dear": Step(2, 4.0, "read", once=2.0), "cheap": Step(3, 6.0, "dear")}),
)


def run_worth_jobs(jobs: Sequence[Worth], rounds: int, folder: Path, seed: int) -> None:
    """Run some batches of each query after its warm-up. The event logs go to `folder`/events."""
    (folder / "events").mkdir(parents=True, exist_ok=True)
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYTHONPATH=_ROOT)
    builder: Any = SparkSession.builder.master("local[32]").appName("worth")
    places = {"spark.local.dir": str(folder / "spark"), "spark.eventLog.dir": (folder / "events").as_uri()}
    for name, value in {**_CONF, **places}.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    chance = random.Random(seed)
    try:
        for job in jobs:
            _run(spark, job, rounds, folder / job.name, chance)
    finally:
        spark.stop()


def _run(spark: SparkSession, job: Worth, rounds: int, folder: Path, chance: random.Random) -> None:
    file = _records(spark, job.hot, folder)
    sides = [_Side(spark, job, way, folder / (way or "base"), file) for way in job.ways]
    for _ in range(WARM_UP_BATCHES + rounds):
        for side in chance.sample(sides, len(sides)):
            side.give()
        for side in sides:
            side.query.processAllAvailable()
    for side in sides:
        side.query.stop()
    print(f"{job.name}: {rounds} rounds of {len(sides)} queries", file=sys.stderr, flush=True)


def _records(spark: SparkSession, hot: float, folder: Path) -> Path:
    key = f"if(id % 100 < {hot * 100}, 0, id % 50) as key"
    rows = spark.range(0, ROWS, 1, 1).selectExpr("id", key, "current_timestamp() as ts")
    rows.write.parquet(str(folder / "records"))
    return next((folder / "records").glob("*.parquet"))


class _Side:
    """One of the queries of a job. Each call of `give` makes it read the file again."""

    def __init__(self, spark: SparkSession, job: Worth, way: str, folder: Path, file: Path) -> None:
        self._file, self._done = file, 0
        self._inputs = [folder / name for name in job.sources]
        for each in self._inputs:
            each.mkdir(parents=True)
        k = job.parallelism
        if way:
            k[way] += 1
        spark.conf.set("spark.sql.shuffle.partitions", str(k["count"]))
        writer = _built(Flow(spark, job.topology, k, ""), job, self._inputs).writeStream.format("noop")
        named = writer.outputMode("update").queryName(job.query(way))
        self.query = named.option("checkpointLocation", str(folder / "checkpoint")).start()

    def give(self) -> None:
        for each in self._inputs:
            (each / f"{self._done}.parquet").hardlink_to(self._file)
        self._done += 1


def _built(flow: Flow, job: Worth, inputs: Sequence[Path]) -> DataFrame:
    frames = {}
    for name, place in zip(job.sources, inputs, strict=True):
        rows = flow.spark.readStream.schema("id long, key long, ts timestamp").option("maxFilesPerTrigger", 1)
        frames[name] = flow.source(name, rows.parquet(str(place)), arrival="ts")
    for name, step in job.steps.items():
        by = ["key"] if step.key else []
        frames[name] = flow.operator(name, frames[step.after], do=_sleeping(step), by=by)
    return flow.operator("count", *(frames[name] for name in job.ends), do=_counted, by=["key"])


def _sleeping(step: Step) -> Callable[[DataFrame], DataFrame]:
    do = sleep_per_record(step.once, step.seconds / ROWS)
    return lambda df: df.mapInArrow(do, df.schema)


def _counted(first: DataFrame, *others: DataFrame) -> DataFrame:
    for other in others:
        first = first.unionAll(other)
    return first.groupBy("key").count()
