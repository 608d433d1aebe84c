"""Small jobs whose results show lost and doubled records, and the expected results.

    job          result                                   sink
    stateless    each number once                         Spark's file sink, by batch numbers
    stateful     each number that is new                  the same; lost state shows as a number twice
    two-states   count of the new numbers, by group       `foreachBatch`; lost state shows as a wrong count
    keyed        count of each of many keys               `foreachBatch`
    appended     each number that is new                  `foreachBatch`, which writes once for each batch number
    windowed     count of each closed window of time      the same; results depend on where batches end

Records are numbers in files in `folder`/in; results go to `folder`/out. Numbers repeat after a while (`number`), so
that later batches need the state of earlier ones. No code runs in Python workers, because their start would take most
of the time.
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
_WINDOW, _LATE = 10, 20  # seconds of event time; each record is one second after the one before


@dataclass(frozen=True)
class Stateless:
    """A job that doubles each number."""

    folder: str

    name: ClassVar[str] = "stateless"
    topology: ClassVar[Topology] = Topology.chain("source", "scale")

    def build(self, flow: Flow) -> Query:
        scaled = flow.operator(
            "scale", _read_records(flow, self.folder), do=lambda df: df.withColumn("n", fn.col("n") * 2)
        )
        return _write_files(scaled, self.folder)

    def found(self) -> Counter[int]:
        return Counter(line["n"] // 2 for line in lines(Path(self.folder, "out")))

    def expected(self, records: int) -> Counter[int]:
        return Counter(range(records))


@dataclass(frozen=True)
class Stateful:
    """A job that drops repeated numbers."""

    folder: str

    name: ClassVar[str] = "stateful"
    topology: ClassVar[Topology] = Topology({"source": Operator(), "first": Operator(("source",), stateful=True)})

    def build(self, flow: Flow) -> Query:
        return _write_files(_drop_repetitions(flow, self.folder), self.folder)

    def found(self) -> Counter[int]:
        return Counter(line["n"] for line in lines(Path(self.folder, "out")))

    def expected(self, records: int) -> Counter[int]:
        return Counter({number(record) for record in range(records)})


@dataclass(frozen=True)
class TwoStates:
    """A job that drops repeated numbers and counts the rest by group."""

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
        groups = _drop_repetitions(flow, self.folder).select((fn.col("n") % _GROUPS).alias("key"))
        return _write_counts(flow, groups, self.folder)

    def found(self) -> Counter[int]:
        return _last_counts(self.folder)

    def expected(self, records: int) -> Counter[int]:
        return Counter(n % _GROUPS for n in {number(record) for record in range(records)})


@dataclass(frozen=True)
class Keyed:
    """A job that counts the records of each key."""

    folder: str
    keys: int = 100_000

    name: ClassVar[str] = "keyed"
    topology: ClassVar[Topology] = Topology({"source": Operator(), "count": Operator(("source",), stateful=True)})

    def build(self, flow: Flow) -> Query:
        keys = _read_records(flow, self.folder).select((fn.col("n") % self.keys).alias("key"))
        return _write_counts(flow, keys, self.folder)

    def found(self) -> Counter[int]:
        return _last_counts(self.folder)

    def expected(self, records: int) -> Counter[int]:
        whole, rest = divmod(records, self.keys)
        return Counter({key: whole + (key < rest) for key in range(self.keys) if whole or key < rest})


@dataclass(frozen=True)
class Appended(Stateful):
    """A job that drops repeated numbers, with a `foreachBatch` sink."""

    name: ClassVar[str] = "appended"

    def build(self, flow: Flow) -> Query:
        return _write_batches(_drop_repetitions(flow, self.folder), self.folder, "append")

    def found(self) -> Counter[int]:
        """Return the results. A batch that took the number of another batch has replaced its results."""
        return Counter(line["n"] for line in _read_batches(self.folder))


@dataclass(frozen=True)
class Windowed:
    """A job that counts records by window, behind a watermark."""

    folder: str

    name: ClassVar[str] = "windowed"
    topology: ClassVar[Topology] = Topology({"source": Operator(), "count": Operator(("source",), stateful=True)})

    def build(self, flow: Flow) -> Query:
        at = _read_records(flow, self.folder).select(fn.timestamp_seconds("n").alias("at"))
        late = at.withWatermark("at", f"{_LATE} seconds")
        window = fn.window("at", f"{_WINDOW} seconds")
        counts = flow.operator("count", late, do=lambda df: df.groupBy(window).count())
        return _write_batches(counts.select(fn.unix_seconds("window.start").alias("n"), "count"), self.folder, "append")

    def found(self) -> Counter[int]:
        counts: Counter[int] = Counter()
        for line in _read_batches(self.folder):
            counts[line["n"]] += line["count"]
        return counts

    def expected(self, records: int) -> Counter[int]:
        closed = max(0, records - 1 - _LATE) // _WINDOW
        return Counter({window * _WINDOW: _WINDOW for window in range(closed)})


Job = Stateless | Stateful | TwoStates | Keyed | Appended | Windowed
JOBS: dict[str, type[Job]] = {job.name: job for job in (Stateless, Stateful, TwoStates, Keyed, Appended, Windowed)}
FENCED = ("two-states", "keyed", "appended", "windowed")  # jobs with a `foreachBatch` sink


def number(record: int) -> int:
    """Return the number in a record. Each block has half as many new numbers, and then the same numbers again."""
    half = _BLOCK // 2
    return record // _BLOCK * half + record % half


def lines(folder: Path) -> Iterator[dict[str, int]]:
    """Yield the lines of the files that the log of Spark's file sink names.

    Every tenth entry of the log repeats the entries before it.
    """
    log = folder / "_spark_metadata"
    entries = list(log.glob("[0-9]*")) if log.is_dir() else []
    compact = max((int(path.stem) for path in entries if path.suffix), default=-1)
    for path in entries:
        if (int(path.stem) == compact and path.suffix) or int(path.stem) > compact:
            for entry in path.read_text().splitlines()[1:]:
                file = Path(json.loads(entry)["path"].removeprefix("file:"))
                yield from (json.loads(line) for line in file.read_text().splitlines())


def _read_records(flow: Flow, folder: str) -> DataFrame:
    read = flow.spark.readStream.schema("n bigint").option("maxFilesPerTrigger", 20).json(f"{folder}/in")
    return flow.source("source", read.withColumn("at", fn.current_timestamp()), arrival="at").select("n")


def _drop_repetitions(flow: Flow, folder: str) -> DataFrame:
    half = _BLOCK // 2
    new = (fn.floor(fn.col("n") / _BLOCK) * half + fn.col("n") % half).alias("n")
    numbers = _read_records(flow, folder).select(new)
    return flow.operator("first", numbers, do=lambda df: df.dropDuplicates(["n"]), by=["n"])


def _write_files(df: DataFrame, folder: str) -> Query:
    writer = df.writeStream.format("json").outputMode("append").option("path", f"{folder}/out")
    return writer.trigger(processingTime="200 milliseconds")


def _write_counts(flow: Flow, df: DataFrame, folder: str) -> Query:
    return _write_batches(
        flow.operator("count", df, do=lambda df: df.groupBy("key").count(), by=["key"]), folder, "update"
    )


def _write_batches(df: DataFrame, folder: str, mode: str) -> Query:
    """Return a query whose batches overwrite their own earlier results."""

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").json(f"{folder}/out/{number}")

    return df.writeStream.foreachBatch(write).outputMode(mode).trigger(processingTime="200 milliseconds")


def _read_batches(folder: str) -> Iterator[dict[str, int]]:
    for file in Path(folder, "out").glob("*/*.json"):
        yield from (json.loads(line) for line in file.read_text().splitlines())


def _last_counts(folder: str) -> Counter[int]:
    """Return the last count of each key. Counts only grow, so the largest is the last."""
    counts: Counter[int] = Counter()
    for line in _read_batches(folder):
        counts[line["key"]] = max(counts[line["key"]], line["count"])
    return counts
