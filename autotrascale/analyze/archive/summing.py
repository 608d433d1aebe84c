"""Staged tasks → their sums by role and instance: the last that is done for every single task.

    column              of an instance of a role in a window
    log, home           which role in which window (see `windows.placed`)
    index               which instance
    useful_ms … written sums over its tasks, as in `staging`

A task finds its stage by binary search, and Arrow adds up what came from one file; for Spark there is left what many
files have of the same instance. A row for each task in Spark SQL took several times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from autotrascale.analyze.archive.columns import Columns, arrow_schema, ddl
from autotrascale.analyze.archive.staging import SUMMABLE
from autotrascale.monitor.eventlog.log_files import open_filesystem

_WHERE = ["log", "home", "index"]
_SUMS: Columns = {"log": "int", "home": "bigint", "index": "int", **dict.fromkeys(SUMMABLE, "bigint")}
_WHOLE = pc.ScalarAggregateOptions(skip_nulls=False)  # a sum is null as soon as one part is
_ROWS = 1 << 16  # tasks that are added up together


def summed(spark: SparkSession, tasks: str, placed: str) -> DataFrame:
    """From the folders of staged tasks and of placed stages."""
    system, path = open_filesystem(tasks)
    files = sorted(each.path for each in system.get_file_info(FileSelector(path)) if each.path.endswith(".parquet"))
    shares = min(len(files), 2 * spark.sparkContext.defaultParallelism)  # each costs more to begin than a file
    numbers = spark.range(0, len(files), 1, max(1, shares))
    parts = numbers.mapInArrow(partial(_summed, tasks, files, placed), ddl(_SUMS))
    return parts.groupBy(*_WHERE).agg(*(_sum(name) for name in SUMMABLE))


def _sum(name: str) -> Column:
    """Null as soon as one part is."""
    return fn.when(fn.count(name) == fn.count(fn.lit(1)), fn.sum(name)).alias(name)


def _summed(
    tasks: str, files: Sequence[str], placed: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    system, _ = open_filesystem(tasks)
    for number in (number for batch in batches for number in batch.column(0).to_pylist()):
        with pq.ParquetFile(files[number], filesystem=system) as file:
            stages, homes = _stages(file.metadata, placed)
            for batch in file.iter_batches(_ROWS):
                yield from _added_up(batch, stages, homes)


def _stages(tasks: Any, placed: str) -> tuple[np.ndarray, np.ndarray]:
    """Those that the tasks of a file may belong to, sorted, and their homes."""
    groups = [tasks.row_group(at) for at in range(tasks.num_row_groups)]
    within = []
    for column, name in enumerate(("log", "stage")):
        known = [group.column(column).statistics for group in groups]
        within += [(name, ">=", min(each.min for each in known)), (name, "<=", max(each.max for each in known))]
    system, path = open_filesystem(placed)
    found = pq.read_table(path, columns=["log", "stage", "home"], filters=within, filesystem=system)
    stages = _key(found["log"], found["stage"])
    order = np.argsort(stages)
    return stages[order], found["home"].to_numpy()[order]


def _added_up(batch: pa.RecordBatch, stages: np.ndarray, homes: np.ndarray) -> list[pa.RecordBatch]:
    """Tasks of stages that are in no window are left out."""
    if not len(stages):
        return []
    wanted = _key(batch["log"], batch["stage"])
    at = np.minimum(np.searchsorted(stages, wanted), len(stages) - 1)
    columns = [batch["log"], pa.array(homes[at]), batch["index"], *(batch[name] for name in SUMMABLE)]
    found = pa.table(columns, names=list(_SUMS)).filter(pa.array(stages[at] == wanted))
    sums = found.group_by(_WHERE, use_threads=False).aggregate([(name, "sum", _WHOLE) for name in SUMMABLE])
    rows: list[pa.RecordBatch] = sums.rename_columns(list(_SUMS)).cast(arrow_schema(_SUMS)).to_batches()
    return rows


def _key(log: Any, stage: Any) -> np.ndarray:
    """Spark's numbers fit in 32 bits."""
    stages: np.ndarray = np.left_shift(log.to_numpy().astype(np.int64), 32) + stage.to_numpy()
    return stages
