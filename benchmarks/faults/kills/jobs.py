"""Small jobs whose results say whether a record was lost or taken twice, and what the results must be.

    stateless    every number, once                             files that Spark writes, by batch numbers
    stateful     every number that was not seen before          the same; state lost shows as a number twice
    two-states   … and how many of them there are, by group     counts; either state lost shows as a wrong count
    keyed        how often each of many keys came               counts
    appended     every number that was not seen before          batches of a `foreachBatch`, which are there once for
                                                                each number that it is given
    windowed     how many there are in each window of time      the same, of windows that a watermark has closed; where
                                                                a batch ends says which, and when

Records are numbers, in files that appear in `folder`/in; results go to `folder`/out. Numbers come again after a while
(`number`), so that later batches need the state of earlier ones. Nothing is written in Python that runs in workers: to
start them would take most of the time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.jobs.flow import Flow, Query

_BLOCK = 400  # records
_GROUPS = 40
_WINDOW, _LATE = 10, 20  # seconds of records' own time, of which there is one for each record


@dataclass(frozen=True)
class Stateless:
    folder: str

    name: ClassVar[str] = "stateless"
    topology: ClassVar[Topology] = Topology.chain("source", "scale")

    def build(self, flow: Flow) -> Query:
        scaled = flow.operator("scale", _records(flow, self.folder), do=lambda df: df.withColumn("n", fn.col("n") * 2))
        return _files(scaled, self.folder)

    def found(self) -> Counter[int]:
        return Counter(line["n"] // 2 for line in lines(Path(self.folder, "out")))

    def expected(self, records: int) -> Counter[int]:
        return Counter(range(records))


@dataclass(frozen=True)
class Stateful:
    folder: str

    name: ClassVar[str] = "stateful"
    topology: ClassVar[Topology] = Topology({"source": Operator(), "first": Operator(("source",), stateful=True)})

    def build(self, flow: Flow) -> Query:
        return _files(_first(flow, self.folder), self.folder)

    def found(self) -> Counter[int]:
        return Counter(line["n"] for line in lines(Path(self.folder, "out")))

    def expected(self, records: int) -> Counter[int]:
        return Counter({number(record) for record in range(records)})


@dataclass(frozen=True)
class TwoStates:
    folder: str

    name: ClassVar[str] = "two-states"
    topology: ClassVar[Topology] = Topology(
        {
            "source": Operator(),
            "first": Operator(("source",), stateful=True),
            "count": Operator(("first",), stateful=True),
        }
    )

    def build(self, flow: Flow) -> Query:
        groups = _first(flow, self.folder).select((fn.col("n") % _GROUPS).alias("key"))
        return _counts(flow, groups, self.folder)

    def found(self) -> Counter[int]:
        return _largest(self.folder)

    def expected(self, records: int) -> Counter[int]:
        return Counter(n % _GROUPS for n in {number(record) for record in range(records)})


@dataclass(frozen=True)
class Keyed:
    folder: str
    keys: int = 100_000

    name: ClassVar[str] = "keyed"
    topology: ClassVar[Topology] = Topology({"source": Operator(), "count": Operator(("source",), stateful=True)})

    def build(self, flow: Flow) -> Query:
        keys = _records(flow, self.folder).select((fn.col("n") % self.keys).alias("key"))
        return _counts(flow, keys, self.folder)

    def found(self) -> Counter[int]:
        return _largest(self.folder)

    def expected(self, records: int) -> Counter[int]:
        whole, rest = divmod(records, self.keys)
        return Counter({key: whole + (key < rest) for key in range(self.keys) if whole or key < rest})


@dataclass(frozen=True)
class Appended(Stateful):
    name: ClassVar[str] = "appended"

    def build(self, flow: Flow) -> Query:
        return _batches(_first(flow, self.folder), self.folder, "append")

    def found(self) -> Counter[int]:
        """A batch that took the number of another has removed what that one wrote."""
        return Counter(line["n"] for line in _written(self.folder))


@dataclass(frozen=True)
class Windowed:
    folder: str

    name: ClassVar[str] = "windowed"
    topology: ClassVar[Topology] = Topology({"source": Operator(), "count": Operator(("source",), stateful=True)})

    def build(self, flow: Flow) -> Query:
        at = _records(flow, self.folder).select(fn.timestamp_seconds("n").alias("at"))
        late = at.withWatermark("at", f"{_LATE} seconds")
        window = fn.window("at", f"{_WINDOW} seconds")
        counts = flow.operator("count", late, do=lambda df: df.groupBy(window).count())
        return _batches(counts.select(fn.unix_seconds("window.start").alias("n"), "count"), self.folder, "append")

    def found(self) -> Counter[int]:
        counts: Counter[int] = Counter()
        for line in _written(self.folder):
            counts[line["n"]] += line["count"]
        return counts

    def expected(self, records: int) -> Counter[int]:
        closed = max(0, records - 1 - _LATE) // _WINDOW
        return Counter({window * _WINDOW: _WINDOW for window in range(closed)})


Job = Stateless | Stateful | TwoStates | Keyed | Appended | Windowed
JOBS: dict[str, type[Job]] = {job.name: job for job in (Stateless, Stateful, TwoStates, Keyed, Appended, Windowed)}
FENCED = ("two-states", "keyed", "appended", "windowed")  # those whose sink is a `foreachBatch`


def number(record: int) -> int:
    """Each block of records brings half as many new numbers, and then the same once more."""
    half = _BLOCK // 2
    return record // _BLOCK * half + record % half


def lines(folder: Path) -> Iterator[dict[str, int]]:
    """What Spark's own files hold: those that their log names, and no other. Every tenth entry of the log repeats the
    ones before."""
    log = folder / "_spark_metadata"
    entries = list(log.glob("[0-9]*")) if log.is_dir() else []
    compact = max((int(path.stem) for path in entries if path.suffix), default=-1)
    for path in entries:
        if (int(path.stem) == compact and path.suffix) or int(path.stem) > compact:
            for entry in path.read_text().splitlines()[1:]:
                file = Path(json.loads(entry)["path"].removeprefix("file:"))
                yield from (json.loads(line) for line in file.read_text().splitlines())


def _records(flow: Flow, folder: str) -> DataFrame:
    read = flow.spark.readStream.schema("n bigint").option("maxFilesPerTrigger", 20).json(f"{folder}/in")
    return flow.source("source", read.withColumn("at", fn.current_timestamp()), arrival="at").select("n")


def _first(flow: Flow, folder: str) -> DataFrame:
    half = _BLOCK // 2
    new = (fn.floor(fn.col("n") / _BLOCK) * half + fn.col("n") % half).alias("n")
    numbers = _records(flow, folder).select(new)
    return flow.operator("first", numbers, do=lambda df: df.dropDuplicates(["n"]), by=["n"])


def _files(df: DataFrame, folder: str) -> Query:
    writer = df.writeStream.format("json").outputMode("append").option("path", f"{folder}/out")
    return writer.trigger(processingTime="200 milliseconds")


def _counts(flow: Flow, df: DataFrame, folder: str) -> Query:
    return _batches(flow.operator("count", df, do=lambda df: df.groupBy("key").count(), by=["key"]), folder, "update")


def _batches(df: DataFrame, folder: str, mode: str) -> Query:
    """A batch that comes again overwrites what it wrote."""

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").json(f"{folder}/out/{number}")

    return df.writeStream.foreachBatch(write).outputMode(mode).trigger(processingTime="200 milliseconds")


def _written(folder: str) -> Iterator[dict[str, int]]:
    for file in Path(folder, "out").glob("*/*.json"):
        yield from (json.loads(line) for line in file.read_text().splitlines())


def _largest(folder: str) -> Counter[int]:
    """The last count of each key: counts only grow, so the largest is the last."""
    counts: Counter[int] = Counter()
    for found in _written(folder):
        counts[found["key"]] = max(counts[found["key"]], found["count"])
    return counts
