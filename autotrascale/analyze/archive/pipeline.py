"""Event logs → tables → windows → snapshots, on one screen.

    with local_session() as spark, workspace() as folder:
        archive = read(spark, ["/logs"], folder)
        for one in measured(archive.windows(60)):
            print(as_dict(one.snapshot))

The text is read once. Everything after it works on the tables staged in `folder`, which must be reachable for all
executors; they may be cut into windows again and again.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from autotrascale.analyze.archive import batches as batches_
from autotrascale.analyze.archive import snapshots, staging
from autotrascale.analyze.archive import stages as stages_
from autotrascale.analyze.archive import windows as windows_
from autotrascale.analyze.archive.columns import record_batch
from autotrascale.analyze.archive.summing import summed
from autotrascale.monitor.eventlog.damage import Damage, damages
from autotrascale.monitor.eventlog.log_files import find_files


@dataclass(frozen=True)
class Archive:
    """The typed tables of all logs that were read. `staging`, `stages`, `batches` and `windows` have their columns."""

    folder: str
    tasks: DataFrame
    stages: DataFrame
    batches: DataFrame
    executors: DataFrame
    damages: tuple[Damage, ...]

    def windows(self, seconds: float | None = 60.0, *, job: str = "", p_max: int | None = None) -> DataFrame:
        """The table of snapshots, measured once. None makes one window of each run; `job` keeps that job only."""
        wanted = self.batches.where(fn.col("job") == job) if job else self.batches
        batches = windows_.cut(wanted, seconds)
        folder = f"{self.folder}/windows-{uuid4().hex}"
        placed = _kept(windows_.placed(self.stages, batches), f"{folder}/placed")
        sums = summed(placed.sparkSession, f"{self.folder}/tasks", f"{folder}/placed")
        gathered = windows_.gathered(sums, placed, batches, self.executors)
        return _kept(snapshots.table(gathered, p_max), f"{folder}/snapshots")

    def write(self, table: DataFrame, folder: str) -> None:
        """Snapshots, operators and instances as Parquet in `folder`, by job and day. Days that are written again are
        replaced, others stay: an archive may be measured day by day."""
        parts = {"snapshots": table, "operators": snapshots.operators(table), "instances": snapshots.instances(table)}
        for name, part in parts.items():
            in_few_files = part.hint("rebalance", "job", "day")
            writer = in_few_files.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
            writer.partitionBy("job", "day").parquet(f"{folder}/{name}")

    def jobs(self) -> list[str]:
        return sorted(row["job"] for row in self.batches.select("job").distinct().collect())


def read(spark: SparkSession, paths: Sequence[str], folder: str) -> Archive:
    """All logs below `paths`: the one pass over the text, and the tables that are made of it once."""
    files, unread = find_files(paths)
    staged, reports = staging.stage(spark, files, folder)
    broken = damages(reports, {file.number: file.uri for file in files})
    units = _kept(stages_.units(staged), f"{folder}/units")
    stages = _kept(stages_.stages(units, staged), f"{folder}/stages")
    names = {file.log: file.log_name for file in files}
    named = record_batch([{"log": log, "log_name": name} for log, name in names.items()], batches_.NAMES)
    logs = spark.createDataFrame(pa.Table.from_batches([named]))
    batches = _kept(batches_.batches(staged, stages, logs), f"{folder}/batches")
    executors = windows_.executors(staged.executors, staged.applications, staged.settings)
    return Archive(folder, staged.tasks, stages, batches, executors, (*unread, *broken))


@contextmanager
def workspace(parent: str | None = None) -> Iterator[str]:
    """A folder of this machine for staged tables, gone afterwards."""
    folder = tempfile.mkdtemp(prefix="autotrascale-analyze-", dir=parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _kept(table: DataFrame, folder: str) -> DataFrame:
    table.write.mode("overwrite").parquet(folder)
    return table.sparkSession.read.schema(table.schema).parquet(folder)
