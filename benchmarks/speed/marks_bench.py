"""Costs of marks in a program. Takes a few minutes; use an idle machine.

Each query does as little work as possible for each record: it reads a file, projects it twice and drops it, all
compiled into one loop by Spark. The queries run in one session, one batch at a time with the same file, in random order
in each round:

    bare      no mark
    again     no mark: the error of the measurement
    named     `autotrascale.mark` between the projections
    counted   the mark of `flow.operator`: a filter that counts
    observed  the mark of a source: an observation that counts

The cost of a way is its excess over `bare` in the same round, in batch time and in CPU time of the tasks (from the
event log). The result is the median with its 95 % interval. A busy machine affects the batch time and hardly the CPU
time. `task_cpu_of_batch_percent` is the excess CPU time of the tasks as a share of the bare batch.

    python -m benchmarks.speed.marks_bench --rounds 100
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from autotrascale.analyze.live.application import FollowedApplication
from autotrascale.execute.spark.jobs.marking import count_records, mark, observe_records
from autotrascale.monitor.eventlog.follower import Follower
from benchmarks.speed.spark_bench import compare_cost

ROWS, WARM_UP_ROUNDS = 3_000_000, 8
CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
}
GOAL_PERCENT = 3.0
WAYS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "bare": lambda df: df,
    "again": lambda df: df,
    "named": lambda df: mark(df, "enrich"),
    "counted": lambda df: count_records(df, "enrich"),
    "observed": lambda df: observe_records(df, "enrich"),
}


class Side:
    """One of the queries. It reads the file again for each batch."""

    def __init__(self, spark: SparkSession, folder: Path, file: Path, way: str) -> None:
        self._folder, self._file, self._done = folder / way / "in", file, 0
        self._folder.mkdir(parents=True)
        rows = spark.readStream.schema("id long, key long, v double").option("maxFilesPerTrigger", 1)
        enriched = WAYS[way](rows.parquet(str(self._folder)).select("key", (fn.col("v") * 2 + fn.col("id")).alias("w")))
        writer = enriched.select("key", (fn.col("w") + 1).alias("w")).writeStream.queryName(way).format("noop")
        self.query = writer.option("checkpointLocation", str(folder / way / "checkpoint")).start()

    def batch(self) -> float:
        """Run a batch and return the seconds from trigger to commit."""
        (self._folder / f"{self._done}.parquet").hardlink_to(self._file)
        while True:
            self.query.processAllAvailable()
            last = self.query.lastProgress
            if last and last.numInputRows and last.batchId == self._done:
                self._done += 1
                return float(last.durationMs["triggerExecution"]) / 1000


def figures(rounds: int = 100, rows: int = ROWS) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    chance = random.Random(0)
    with tempfile.TemporaryDirectory(prefix="marks-bench-") as folder:
        log = Path(folder, "events")
        log.mkdir()
        spark = _session(folder, log)
        sides = _sides(spark, Path(folder), rows)
        for number in range(rounds + WARM_UP_ROUNDS):
            for way in chance.sample(list(WAYS), len(WAYS)):
                took = sides[way].batch()
                if number >= WARM_UP_ROUNDS:
                    seconds[way].append(took)
        for side in sides.values():
            side.query.stop()
        application = spark.sparkContext.applicationId
        spark.stop()
        cpu = _cpu_seconds(log, application)
    batch = statistics.median(seconds["bare"])
    more = {way: statistics.median(cpu[way]) - statistics.median(cpu["bare"]) for way in list(WAYS)[1:]}
    return {
        "rounds": rounds,
        "rows_per_batch": rows,
        "batch_seconds": {way: round(statistics.median(each), 4) for way, each in seconds.items()},
        "task_cpu_seconds": {way: round(statistics.median(each), 4) for way, each in cpu.items()},
        "cost": {way: compare_cost(seconds[way], seconds["bare"]) for way in list(WAYS)[1:]},
        "task_cpu_cost": {way: compare_cost(cpu[way], cpu["bare"]) for way in list(WAYS)[1:]},
        "task_cpu_of_batch_percent": {way: round(100 * each / batch, 1) for way, each in more.items()},
        "goal_percent": GOAL_PERCENT,
        "load_average": os.getloadavg()[0],
    }


def _session(folder: str, log: Path) -> SparkSession:
    builder: Any = SparkSession.builder.master("local[2]").appName("marks")
    places = {"spark.local.dir": folder, "spark.eventLog.dir": log.as_uri()}
    for name, value in {**CONF, **places}.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    return spark


def _sides(spark: SparkSession, folder: Path, rows: int) -> dict[str, Side]:
    made = spark.range(rows).select("id", (fn.col("id") % 1000).alias("key"), fn.rand(1).alias("v"))
    made.coalesce(1).write.parquet(str(folder / "made"))
    (file,) = (folder / "made").glob("*.parquet")
    return {way: Side(spark, folder, file, way) for way in WAYS}


def _cpu_seconds(log: Path, application: str) -> dict[str, list[float]]:
    """Return the CPU seconds of the tasks of each batch, by query."""
    told = FollowedApplication(Follower(log, application, consume=False))
    told.poll()
    return {
        run.name: [sum(task.cpu_ns or 0 for task in batch.tasks) / 1e9 for batch in run.batches[WARM_UP_ROUNDS:]]
        for run in told.runs.values()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--rows", type=int, default=ROWS)
    asked = parser.parse_args(arguments)
    print(json.dumps(figures(asked.rounds, asked.rows), indent=2))


if __name__ == "__main__":
    main()
