"""Opening the one Spark session, and waiting until its executors are there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.common.spark_home import installed_pyspark


def open_session(conf: Mapping[str, str], work: Path, executors_within: float) -> SparkSession:
    builder: Any = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    here = conf["spark.master"].startswith("local")
    with installed_pyspark(work / "spark") if here else nullcontext():
        spark: SparkSession = builder.getOrCreate()
    if not here:
        _await_executors(spark, conf["spark.master"], executors_within)
    return spark


def count_slots(context: SparkContext) -> int:
    """How many tasks run at once, on all executors: what Spark shows people of each. Its `defaultParallelism` is what
    `spark.default.parallelism` says, where that is set, and knows nothing of tasks that take several cores."""
    listed: Any = context._jsc.sc().statusStore().executorList(True)  # those that are there
    found = sum(int(listed.apply(i).maxTasks()) for i in range(listed.size()))
    return found or int(context.defaultParallelism)


def _await_executors(spark: SparkSession, master: str, seconds: float) -> None:
    """Executors come one by one. All are there when their number has not changed for a second."""
    until = time.monotonic() + seconds
    seen, since = 0, time.monotonic()
    while time.monotonic() < until:
        # The driver counts as one.
        now = int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1
        if now != seen:
            seen, since = now, time.monotonic()
        elif seen and time.monotonic() - since > 1.0:
            return
        time.sleep(0.1)
    raise EngineError(f"{master} gave no executor within {seconds:.0f} s: look for free cores and memory there")
