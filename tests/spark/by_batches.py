"""A job whose results depend on the end of each batch: windows behind a watermark, and a user function over state.

The function sees each batch of a key. Numbers are read from files in `folder`/in; a number is a second of event time.
Results go to `folder`/out, with a folder for each batch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.jobs.flow import Flow, Query

KEYS, WINDOW, LATE = 5, 10, 20


def calls(key: tuple[int], numbers: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Return the number of this call for the key, and the records that it got."""
    (before,) = state.get if state.exists else (0,)
    state.update((before + 1,))
    count = sum(len(each) for each in numbers)
    yield pd.DataFrame({"what": ["call"], "key": [key[0]], "number": [before + 1], "count": [count]})


@dataclass(frozen=True)
class ByBatches:
    folder: str

    name: ClassVar[str] = "by-batches"
    topology: ClassVar[Topology] = Topology(
        {
            "source": Operator(),
            "windows": Operator(("source",), stateful=True),
            "calls": Operator(("source",), stateful=True),
            "all": Operator(("windows", "calls")),
        }
    )

    def build(self, flow: Flow) -> Query:
        read = flow.spark.readStream.schema("n bigint").json(f"{self.folder}/in")
        source = flow.source("source", read.withColumn("at", fn.timestamp_seconds("n")), arrival="at")
        late = source.withWatermark("at", f"{LATE} seconds")
        windows = flow.operator("windows", late, do=_windows)
        keyed = source.select((fn.col("n") % KEYS).alias("key"))
        called = flow.operator("calls", keyed, do=_calls, by=["key"])
        both = flow.operator("all", windows, called, do=lambda one, other: one.unionByName(other))

        def write(batch: DataFrame, number: int) -> None:
            batch.write.mode("overwrite").json(f"{self.folder}/out/{number}")

        writer = both.writeStream.foreachBatch(write).outputMode("append")
        return writer.trigger(processingTime="500 milliseconds")

    def written(self) -> list[dict[str, Any]]:
        files = Path(self.folder, "out").glob("*/*.json")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def windows(self) -> Counter[int]:
        """Return the counted records of each window, by its begin. Counts of a repeated window add up."""
        counts: Counter[int] = Counter()
        for row in self.written():
            if row["what"] == "window":
                counts[row["key"]] += row["count"]
        return counts

    def calls(self) -> dict[int, tuple[list[int], int]]:
        """For each key, which calls there were and how many records in all."""
        found: dict[int, tuple[list[int], int]] = {}
        for row in self.written():
            if row["what"] == "call":
                numbers, count = found.get(row["key"], ([], 0))
                found[row["key"]] = (sorted([*numbers, row["number"]]), count + row["count"])
        return found


def _windows(df: DataFrame) -> DataFrame:
    counted = df.groupBy(fn.window("at", f"{WINDOW} seconds")).count()
    begin = fn.unix_seconds("window.start").alias("key")
    return counted.select(fn.lit("window").alias("what"), begin, fn.lit(0).cast("bigint").alias("number"), "count")


def _calls(df: DataFrame) -> DataFrame:
    said = "what string, key bigint, number bigint, count bigint"
    grouped = df.groupBy("key")
    return grouped.applyInPandasWithState(calls, said, "calls bigint", "append", GroupStateTimeout.NoTimeout)
