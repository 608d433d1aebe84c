"""A driver in its own process with a stateful query that counts, controlled over a pipe.

A process can have one JVM, and the test process has one already.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from autotrascale.execute.spark.clusters.executor_control import ApplicationExecutors
from autotrascale.testing.standalone_cluster import JAVA

ROWS, KEYS = 600, 101  # rows of each batch, and how many keys they have
_SECONDS = 240.0
_STATE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "600m",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.streaming.stateStore.providerClass": _STATE,
}


@dataclass(frozen=True)
class Progress:
    committed: int  # batches
    failed_tasks: int
    repeated_stages: int
    exception: str


class Driver:
    """A handle of the driver. Each call runs a method of `Executors` or of `_Query` there, and returns its result."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def __call__(self, name: str, *arguments: Any) -> Any:
        self._pipe.send((name, arguments))
        if not self._pipe.poll(_SECONDS):
            raise TimeoutError(f"the driver did not answer {name} within {_SECONDS:.0f} s")
        done, answer = self._pipe.recv()
        if not done:
            raise answer
        return answer


@contextlib.contextmanager
def driver(master: str, conf: Mapping[str, str], folder: Path) -> Iterator[Driver]:
    spawn = get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(theirs, master, dict(conf), folder), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Driver(ours)
    finally:
        ours.close()
        process.join(20)
        process.kill()
        process.join()


def expected(batches: int) -> Counter[int]:
    return Counter(value % KEYS for value in range(batches * ROWS))


class _Query:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._checkpoint = spark, folder / "checkpoint"
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 3)
        counted = source.load().groupBy((fn.col("value") % KEYS).alias("key")).count()
        writer = counted.writeStream.outputMode("complete").format("memory").queryName("counts")
        writer = writer.option("checkpointLocation", str(self._checkpoint)).trigger(processingTime="300 milliseconds")
        self._query = writer.start()

    def progress(self) -> Progress:
        jvm: Any = self._spark._jvm
        store = self._spark.sparkContext._jsc.sc().statusStore()
        write = jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper().writeValueAsString
        executors = json.loads(write(store.executorList(False)))
        defaults = (getattr(store, f"stageList$default${number}")() for number in range(2, 6))
        stages = json.loads(write(store.stageList(jvm.java.util.ArrayList(), *defaults)))
        error = self._query.exception()
        return Progress(
            committed=self._committed(),
            failed_tasks=sum(each["failedTasks"] for each in executors),
            repeated_stages=sum(each["attemptId"] > 0 for each in stages),
            exception="" if error is None else str(error),
        )

    def finish(self) -> tuple[int, Counter[int]]:
        """Return the number of committed batches, and the counts."""
        self._query.stop()
        return self._committed(), Counter({row["key"]: row["count"] for row in self._spark.table("counts").collect()})

    def _committed(self) -> int:
        commits = self._checkpoint / "commits"
        return max((int(each.name) + 1 for each in commits.glob("[0-9]*")), default=0)


def _serve(pipe: Connection, master: str, conf: Mapping[str, str], folder: Path) -> None:
    builder: Any = SparkSession.builder.master(master)
    for name, value in {**_CONF, **conf}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        _answer(pipe, ApplicationExecutors(spark), _Query(spark, folder))
    finally:
        spark.stop()


def _answer(pipe: Connection, executors: ApplicationExecutors, query: _Query) -> None:
    with contextlib.suppress(EOFError, OSError):
        while True:
            name, arguments = pipe.recv()
            try:
                pipe.send((True, getattr(query if hasattr(query, name) else executors, name)(*arguments)))
            except Exception as error:
                pipe.send((False, error))
