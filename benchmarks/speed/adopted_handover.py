"""Measure the gap in the output of a user's program while its query is rescaled, in place and overlapped in turn:

    python -m benchmarks.speed.adopted_handover --keys 100000 --times 3

The query is that of `benchmarks/speed/handover_bench.py` in a program that has attached AuTraScale. Gap and latency are
measured in the same way. The first rescale of each kind is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

import autotrascale
from autotrascale.execute.spark.controller.agent_client import AgentClient
from autotrascale.execute.spark.jobs.flow import Flow
from autotrascale.execute.spark.protocol.agent_messages import RescaleQuery
from benchmarks.faults.kills.archive import quick_java
from benchmarks.faults.kills.run import Feeder
from benchmarks.speed.handover_bench import AFTER, BEFORE, Timed, measure_around, round_seconds, say, summarize

_SECONDS = 300.0
_PARTITIONS = (2, 3)
_STATE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Plain:
    """A `Flow` without marks and counters: Spark alone."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def source(self, _: str, df: DataFrame, *, arrival: str) -> DataFrame:  # noqa: ARG002 - signature of Flow
        return df

    def operator(self, _: str, df: DataFrame, *, do: Callable[[DataFrame], DataFrame], by: list[str]) -> DataFrame:  # noqa: ARG002
        return do(df)


def measure(keys: int, times: int, folder: Path, java: str) -> dict[str, Any]:
    (folder / "in").mkdir(parents=True)
    attached = autotrascale.attach(folder / "program", rescale="overlap")
    spark = (
        SparkSession.builder.master("local[6]")
        .config("spark.driver.memory", "1500m")
        .config("spark.driver.extraJavaOptions", java)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", str(_PARTITIONS[0]))
        .config("spark.sql.streaming.stateStore.providerClass", _STATE)
        .getOrCreate()
    )
    job, found = Timed(str(folder), keys), dict[str, list[dict[str, float]]]()
    feeder = Feeder(folder / "in", keys)
    try:
        writer = job.build(cast(Flow, Plain(spark))).option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.start()
        until = time.monotonic() + _SECONDS
        while query.lastProgress is None and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(2 * BEFORE)
        with AgentClient(attached.folder) as client:
            for number in range(2 * times + 2):
                attached.program.rescale = how = ("in-place", "overlap")[number % 2]
                time.sleep(BEFORE)
                began = time.time()
                done = client.rescale(RescaleQuery(str(query.id), _PARTITIONS[(number + 1) % 2]))
                ended = time.time()
                time.sleep(AFTER)
                as_asked = done.done and done.how.startswith("overlap: ") == (how == "overlap")
                seen = {**measure_around(folder, began, ended), "preparing": round_seconds(done.overlap_seconds)}
                say(f"{keys} keys, {how}: {json.dumps(seen) if as_asked else done}")
                if number >= 2 and as_asked:
                    found.setdefault(how, []).append(seen)
        records = feeder.pause()
        wrong = job.count_wrong_keys_at_rest(records)
        feeder.go_on()
        query.stop()
    finally:
        feeder.end()
        spark.stop()
    return {
        "keys": keys,
        "records": records,
        "keys_wrong": wrong,
        **{how: summarize(all_) for how, all_ in found.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=3, help="rescales of each kind")
    options, before = parser.parse_args(), os.getloadavg()
    with (
        tempfile.TemporaryDirectory(prefix="adopted-handover-", ignore_cleanup_errors=True) as folder,
        quick_java(Path(folder, "java")) as java,
    ):
        found = measure(options.keys, options.times, Path(folder, "x"), java)
    print(json.dumps({**found, "cores": os.cpu_count(), "load": [before, os.getloadavg()]}, indent=2))


if __name__ == "__main__":
    main()
