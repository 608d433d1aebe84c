"""The steps of a rescale in place, and its first batch beside a usual batch.

The job is the one of `handover_bench.py`, without a controller. Spark reports the parts of a batch: addBatch is the
work itself, queryPlanning the planning, latestOffset the request to the sources. loading is the time to load all state
partitions together.

    python -m benchmarks.speed.first_batch_bench --keys 100000 --times 4
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from autotrascale.execute.spark.clusters.session_configuration import build_configuration, event_log_folder
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.driver_agent import spark_session
from autotrascale.execute.spark.driver_agent.checkpoint_folder import CheckpointFolder
from autotrascale.execute.spark.driver_agent.repartition_state import repartition_state
from autotrascale.execute.spark.driver_agent.sources import is_between_batches
from autotrascale.execute.spark.jobs.flow import Flow
from benchmarks.faults.kills.run import Feeder
from benchmarks.speed.handover_bench import Timed

_PARTS = ("triggerExecution", "addBatch", "queryPlanning", "latestOffset")
_WARM_SECONDS = 12.0


class Rescales:
    """Rescales of one job, with the measured seconds by step in `found`."""

    def __init__(self, spark: SparkSession, keys: int, folder: Path) -> None:
        self._spark, self._job = spark, Timed(str(folder), keys)
        self._checkpoint, self._query = str(folder / "checkpoint"), None
        self.found: dict[str, list[float]] = {}
        self._count = 2

    def start(self) -> StreamingQuery:
        self._spark.conf.set("spark.sql.shuffle.partitions", str(self._count))
        k = {"source": 2, "count": self._count}
        writer = self._timed("build", lambda: self._job.build(Flow(self._spark, self._job.topology, k, "none")))
        return self._timed("start", writer.option("checkpointLocation", self._checkpoint).start)

    def rescale(self, query: StreamingQuery, feeder: Feeder) -> StreamingQuery:
        time.sleep(_WARM_SECONDS)
        usual = query.lastProgress
        assert usual is not None
        self._note("usual", usual)
        feeder.pause()
        _wait_until(lambda: is_between_batches(query.status))
        feeder.go_on()
        self._timed("stop", query.stop)
        folder = CheckpointFolder(self._spark, self._checkpoint)
        self._timed("read", folder.read)
        self._count = 5 - self._count
        self._timed("repartition", lambda: repartition_state(self._spark, self._checkpoint, self._count))
        query = self.start()
        self._timed("until the first progress", lambda: _wait_until(lambda: bool(query.recentProgress)))
        self._note("first", query.recentProgress[0])
        return query

    def _timed(self, name: str, action: Callable[[], Any]) -> Any:
        began = time.monotonic()
        done = action()
        self.found.setdefault(name, []).append(time.monotonic() - began)
        return done

    def _note(self, which: str, progress: Any) -> None:
        loading = "rocksdbLoadLatencyMs"
        parts = {part: progress["durationMs"].get(part, 0) for part in _PARTS}
        parts["loading"] = progress["stateOperators"][0]["customMetrics"].get(loading, 0)
        for part, millis in parts.items():
            self.found.setdefault(f"{which} batch: {part}", []).append(millis / 1000)


def measure(keys: int, times: int, folder: Path) -> dict[str, Any]:
    (folder / "in").mkdir()
    kept = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}
    settings = SparkSettings(job="none:none", master="local[6]", driver_memory="1500m", conf=kept)
    event_log_folder(folder).mkdir()
    spark = spark_session.open_session(build_configuration(settings, folder), folder, 60.0)
    spark.sparkContext.setLogLevel("ERROR")
    feeder, rescales = Feeder(folder / "in", keys), Rescales(spark, keys, folder)
    try:
        query = rescales.start()
        _wait_until(lambda: len(query.recentProgress) > 1)
        for _ in range(times + 1):
            query = rescales.rescale(query, feeder)
            print(
                time.strftime("%H:%M:%S"),
                {name: round(all_[-1], 2) for name, all_ in rescales.found.items()},
                file=sys.stderr,
                flush=True,
            )
        feeder.pause()
        _wait_until(lambda: is_between_batches(query.status))
        query.stop()
        feeder.go_on()
    finally:
        feeder.end()
        spark.stop()
    medians = {name: round(statistics.median(all_[-times:]), 2) for name, all_ in rescales.found.items()}
    return {"keys": keys, "rescales": times, "cores": os.cpu_count(), "load": os.getloadavg(), "seconds": medians}


def _wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.02)


def figures(keys: int = 100_000, times: int = 4) -> dict[str, Any]:
    """Return the results as JSON data."""
    with tempfile.TemporaryDirectory(prefix="first-batch-", ignore_cleanup_errors=True) as folder:
        return measure(keys, times, Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=4, help="rescales after the first one, which compiles code")
    arguments = parser.parse_args()
    print(json.dumps(figures(arguments.keys, arguments.times), indent=2))


if __name__ == "__main__":
    main()
