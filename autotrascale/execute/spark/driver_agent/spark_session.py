"""The Spark session of a driver, and the wait for its executors."""

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
    """Open the session.

    Args:
        conf: all Spark settings, the master included.
        work: folder for temporary files.
        executors_within: seconds to wait for the executors of a cluster; then `EngineError` is raised.
    """
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
    """Return the number of tasks that run at once on all executors, as Spark's UI counts them.

    `defaultParallelism` is not used: a setting can change it, and it ignores tasks that take several cores.
    """
    active: Any = context._jsc.sc().statusStore().executorList(True)
    slots = sum(int(active.apply(i).maxTasks()) for i in range(active.size()))
    return slots or int(context.defaultParallelism)


def _await_executors(spark: SparkSession, master: str, seconds: float) -> None:
    """Wait until there are executors and their number has not changed for a second."""
    until = time.monotonic() + seconds
    count, since = 0, time.monotonic()
    while time.monotonic() < until:
        now = int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1  # without the driver
        if now != count:
            count, since = now, time.monotonic()
        elif count and time.monotonic() - since > 1.0:
            return
        time.sleep(0.1)
    raise EngineError(f"{master} granted no executor within {seconds:.0f} s: check its free cores and memory")
