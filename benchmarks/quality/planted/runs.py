"""The planted queries on real Spark, one after the other, and their event logs."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from autotrascale.testing import standalone_cluster
from autotrascale.testing.standalone_cluster import StandaloneCluster
from benchmarks.quality.planted.queries import Steady, build_writer

WARM_UP_BATCHES = 3  # first batches of each query, which are not measured
STOPPED, RUNNING = 0.35, 0.05  # seconds, in turn, of the slowed executor
_ROOT = str(Path(__file__).parents[3])
_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "1g",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.executorEnv.PYTHONPATH": _ROOT,
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    **standalone_cluster.conf(3),
}


def run_plants(plants: list[str], batches: int, folder: Path) -> None:
    """Run some batches of each plant after its warm-up. The event logs go to `folder`/events."""
    (folder / "events").mkdir(parents=True, exist_ok=True)
    if here := [plant for plant in plants if plant != "executor"]:
        with _session("local[8]", folder) as spark:
            for plant in here:
                _run(spark, plant, batches, folder)
    if "executor" in plants:
        with (
            standalone_cluster.standalone(folder / "cluster", workers=2, cores=3, memory="1g") as cluster,
            _session(cluster.url, folder) as spark,
            _slowed(cluster),
        ):
            _run(spark, "executor", batches, folder)


def _run(spark: SparkSession, plant: str, batches: int, folder: Path) -> None:
    query = build_writer(spark, plant, folder).start()
    while query.isActive and (not query.lastProgress or query.lastProgress["batchId"] < WARM_UP_BATCHES + batches):
        time.sleep(0.2)
    query.stop()
    print(f"{plant}: {query.lastProgress['batchId']} batches", file=sys.stderr)


@contextmanager
def _session(master: str, folder: Path) -> Iterator[SparkSession]:
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYTHONPATH=_ROOT)
    builder: Any = SparkSession.builder.master(master).appName("planted")
    places: Mapping[str, str] = {
        "spark.local.dir": str(folder / "spark"),
        "spark.eventLog.dir": (folder / "events").as_uri(),
    }
    for name, value in {**_CONF, **places}.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    spark.dataSource.register(Steady)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _slowed(cluster: StandaloneCluster) -> Iterator[None]:
    """Stop one executor and its Python workers for most of the time, as on a machine with other load."""
    over = threading.Event()
    thread = threading.Thread(target=_slow, args=(cluster, over))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _slow(cluster: StandaloneCluster, over: threading.Event) -> None:
    while not over.is_set():
        members = []
        with suppress(KeyError, psutil.Error):
            executor = psutil.Process(cluster.executor(SLOWED))
            members = [executor, *executor.children(recursive=True)]
        for member in members:
            with suppress(psutil.Error):
                member.suspend()
        over.wait(STOPPED)
        for member in members:
            with suppress(psutil.Error):
                member.resume()
        time.sleep(RUNNING)


SLOWED = "1"
"""The executor, by Spark's name."""
