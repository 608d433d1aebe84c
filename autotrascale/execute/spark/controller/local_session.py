"""A small, silent Spark session on this machine for reading event logs. It is stopped after use."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.common.error_causes import explain_error
from autotrascale.execute.spark.common.spark_home import installed_pyspark
from autotrascale.execute.spark.controller.preflight import check_java, check_packages

CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    # A few small tables are shuffled for logs of any size. Adaptive execution merges partitions that are too small.
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.files.maxPartitionBytes": "32m",
    # Lists are collected for each batch. Spark would sort them from 128 entries on, which takes longer than all else.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "20000",
    # Spark's default cache of generated code is too small: a second archive would compile everything again.
    "spark.sql.codegen.cache.maxEntries": "1000",
    "spark.eventLog.enabled": "false",
    # The session is short and decoding is native, so optimised compilation costs more than it saves. Compiled code of
    # several archives must fit: when the default 48 MB are full, the JVM stops compiling. Most objects die young.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    " -XX:+UseSerialGC -XX:MetaspaceSize=256m -XX:NewRatio=1",
}


@contextmanager
def local_session(memory: str = "1g", cores: str = "*") -> Iterator[SparkSession]:
    """Open a session with this much driver memory on this many cores, and stop it at the end.

    Output of the JVM goes to a file, which is read if the start fails. A session that is already open, as in a
    notebook, is used and not stopped. Raises `EngineError` if Spark fails.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    check_packages()
    check_java()
    with tempfile.TemporaryDirectory(prefix="autotrascale-spark-") as folder:
        log = Path(folder, "spark.log")
        with _redirect_errors(log), installed_pyspark(Path(folder, "spark")):
            spark = _open(memory, cores, folder, log)
        try:
            yield spark
        except (PySparkException, Py4JError) as error:
            raise EngineError(f"Spark failed: {explain_error(str(error))}") from None
        finally:
            with _redirect_errors(log):
                spark.stop()


def _open(memory: str, cores: str, folder: str, log: Path) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder.master(f"local[{cores}]").appName("autotrascale-analyze")
    for name, value in {**CONF, "spark.driver.memory": memory, "spark.local.dir": folder}.items():
        builder = builder.config(name, value)
    try:
        spark: SparkSession = builder.getOrCreate()
    except Exception as error:
        raise EngineError(
            f"Spark did not start: {explain_error(log.read_text(errors='replace') or str(error))}"
        ) from None
    return spark


@contextmanager
def _redirect_errors(file: Path) -> Iterator[None]:
    """Write standard error to `file`. A JVM that is started meanwhile inherits this."""
    sys.stderr.flush()
    former = os.dup(2)
    with file.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(former, 2)
        os.close(former)
