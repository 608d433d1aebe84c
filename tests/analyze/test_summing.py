"""Sums of staged tasks against plain Python's, over files that share instances, and stages that are in no window."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from autotrascale.analyze.archive import staging
from autotrascale.analyze.archive.columns import arrow_schema
from autotrascale.analyze.archive.staging import SUMMABLE
from autotrascale.analyze.archive.summing import summed
from autotrascale.analyze.sums import sum_or_none

pytestmark = pytest.mark.spark

PLACED = pa.schema([("log", pa.int32()), ("stage", pa.int32()), ("home", pa.int64())])
Key = tuple[int, int, int]


def task(chance: random.Random, stages: int) -> dict[str, Any]:
    where = {"log": chance.randrange(3), "stage": chance.randrange(-1, stages), "index": chance.randrange(4)}
    unknown = chance.choice(SUMMABLE) if chance.random() < 0.03 else ""
    return where | {name: None if name == unknown else chance.randrange(-5, 1 << 40) for name in SUMMABLE}


def write(folder: Path, name: str, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / name, row_group_size=50)


@pytest.mark.parametrize(("files", "placed"), [(3, 20), (1, 1), (2, 0), (0, 5)])
def test_every_task_of_a_placed_stage_is_added_up_once(
    spark: SparkSession, tmp_path: Path, files: int, placed: int
) -> None:
    chance = random.Random(files)
    tasks = [[task(chance, 30) for _ in range(200)] for _ in range(files)]
    homes = {(log, stage): stage // 3 * 3 for log in range(2) for stage in range(placed)}  # nothing of the third log
    (tmp_path / "tasks").mkdir()
    for number, rows in enumerate(tasks):
        write(tmp_path / "tasks", f"{number}.parquet", rows, arrow_schema(staging.TASKS))
    rows = [{"log": log, "stage": stage, "home": home} for (log, stage), home in homes.items()]
    chance.shuffle(rows)
    write(tmp_path / "placed", "part-0.parquet", rows, PLACED)
    expected: dict[Key, dict[str, int | None]] = {}
    for one in (one for rows in tasks for one in rows):
        if (home := homes.get((one["log"], one["stage"]))) is not None:
            sums = expected.setdefault((one["log"], home, one["index"]), dict.fromkeys(SUMMABLE, 0))
            sums.update({name: sum_or_none((sums[name], one[name])) for name in SUMMABLE})
    found = summed(spark, str(tmp_path / "tasks"), str(tmp_path / "placed")).collect()
    by_instance = {(row["log"], row["home"], row["index"]): {name: row[name] for name in SUMMABLE} for row in found}
    assert len(found) == len(by_instance)
    assert by_instance == expected
    assert bool(expected) == (files > 0 and placed > 0)
