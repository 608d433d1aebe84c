"""A Spark of one's own for reading logs on this machine: quiet, small, and gone afterwards."""

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
    # A few small tables are shuffled, whatever the size of the logs; adaptive execution merges what is too small.
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.files.maxPartitionBytes": "32m",
    # Lists are collected for each batch: sorting them in between, as Spark does past 128, takes longer than anything.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "20000",
    # More pieces of code are generated than Spark keeps by default: a second archive would compile them all again.
    "spark.sql.codegen.cache.maxEntries": "1000",
    "spark.eventLog.enabled": "false",
    # Decoding is native and the rest is soon over: a JVM that optimises for hours to come costs more than it saves. But
    # what it compiles for one archive after another must fit: when its 48 MB are full, it stops compiling for good.
    # Classes must fit too, and most objects die young.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    " -XX:+UseSerialGC -XX:MetaspaceSize=256m -XX:NewRatio=1",
}


@contextmanager
def local_session(memory: str = "1g", cores: str = "*") -> Iterator[SparkSession]:
    """What the JVM has to say goes to a file that is read only if something breaks. A session that is already there,
    as in a notebook, is used as it is and left alone."""
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    check_packages()
    check_java()
    with tempfile.TemporaryDirectory(prefix="autotrascale-spark-") as folder:
        said = Path(folder, "spark.log")
        with _errors_into(said), installed_pyspark(Path(folder, "spark")):
            spark = _open(memory, cores, folder, said)
        try:
            yield spark
        except (PySparkException, Py4JError) as error:
            raise EngineError(f"Spark failed: {explain_error(str(error))}") from None
        finally:
            with _errors_into(said):
                spark.stop()


def _open(memory: str, cores: str, folder: str, said: Path) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder.master(f"local[{cores}]").appName("autotrascale-analyze")
    for name, value in {**CONF, "spark.driver.memory": memory, "spark.local.dir": folder}.items():
        builder = builder.config(name, value)
    try:
        spark: SparkSession = builder.getOrCreate()
    except Exception as error:
        raise EngineError(
            f"Spark did not start: {explain_error(said.read_text(errors='replace') or str(error))}"
        ) from None
    return spark


@contextmanager
def _errors_into(file: Path) -> Iterator[None]:
    """The JVM inherits file descriptor 2: for the moment of its start it is this file."""
    sys.stderr.flush()
    kept = os.dup(2)
    with file.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
