"""Three small jobs whose results say whether a record was lost or taken twice, and what they must be.

    stateless   every number, once                                  files that Spark writes, by batch numbers
    stateful    every number that was not seen before               the same; state lost shows as a number twice
    two-states  … and how often they came, by group                 counts; either state lost shows as a wrong count
    keyed       how often each of many keys came                    counts

Numbers come again after a while (`number`), so that later batches need the state of earlier ones.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from pyspark.sql import functions as fn

from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.query.flow import Flow, Query
from autotrascale.jobs.chance import Ints
from autotrascale.jobs.wordcount import WordCount, read_results

_BLOCK = 400  # records; in each, numbers come that are new, and then the same again
_GROUPS = 40


@dataclass(frozen=True)
class Stateless:
    """`results` is a folder of which the job has `out` to itself."""

    results: str

    name: ClassVar[str] = "stateless"
    topology: ClassVar[Topology] = Topology.chain("source", "scale")

    def build(self, flow: Flow) -> Query:
        numbers = flow.load("source", "n bigint", lambda numbers: [numbers])
        scaled = flow.operator("scale", numbers, do=lambda df: df.select((fn.col("n") * 2).alias("n")))
        return scaled.writeStream.format("json").outputMode("append").option("path", f"{self.results}/out")

    def found(self) -> Counter[int]:
        return Counter(line["n"] // 2 for line in lines(Path(self.results, "out")))

    def expected(self, records: int) -> Counter[int]:
        return Counter(range(records))


@dataclass(frozen=True)
class Stateful:
    results: str

    name: ClassVar[str] = "stateful"
    topology: ClassVar[Topology] = Topology({"source": Operator(), "first": Operator(("source",), stateful=True)})

    def build(self, flow: Flow) -> Query:
        numbers = flow.load("source", "n bigint", lambda numbers: [number(numbers)])
        first = flow.operator("first", numbers, do=lambda df: df.select("n").dropDuplicates(["n"]), by=["n"])
        return first.writeStream.format("json").outputMode("append").option("path", f"{self.results}/out")

    def found(self) -> Counter[int]:
        return Counter(line["n"] for line in lines(Path(self.results, "out")))

    def expected(self, records: int) -> Counter[int]:
        return Counter(set(number(np.arange(records)).tolist()))


@dataclass(frozen=True)
class TwoStates:
    results: str

    name: ClassVar[str] = "two-states"
    topology: ClassVar[Topology] = Topology(
        {
            "source": Operator(),
            "first": Operator(("source",), stateful=True),
            "count": Operator(("first",), stateful=True),
            "sink": Operator(("count",)),
        }
    )

    def build(self, flow: Flow) -> Query:
        numbers = flow.load("source", "n bigint", lambda numbers: [number(numbers)])
        first = flow.operator("first", numbers, do=lambda df: df.select("n").dropDuplicates(["n"]), by=["n"])
        group = (fn.col("n") % _GROUPS).cast("string").alias("word")
        count = flow.operator("count", first.select(group), do=lambda df: df.groupBy("word").count(), by=["word"])
        sink = flow.operator("sink", count, do=WordCount(results=self.results)._sink)
        return sink.writeStream.format("noop").outputMode("update")

    def found(self) -> Counter[int]:
        return Counter({int(word): count for word, count in read_results(self.results).items()})

    def expected(self, records: int) -> Counter[int]:
        return Counter(n % _GROUPS for n in set(number(np.arange(records)).tolist()))


@dataclass(frozen=True)
class Keyed:
    results: str
    keys: int = 100_000

    name: ClassVar[str] = "keyed"
    topology: ClassVar[Topology] = Topology(
        {"source": Operator(), "count": Operator(("source",), stateful=True), "sink": Operator(("count",))}
    )

    def build(self, flow: Flow) -> Query:
        keys = self.keys
        numbers = flow.load("source", "n bigint", lambda numbers: [numbers % keys])
        word = fn.col("n").cast("string").alias("word")
        count = flow.operator("count", numbers.select(word), do=lambda df: df.groupBy("word").count(), by=["word"])
        sink = flow.operator("sink", count, do=WordCount(results=self.results)._sink)
        return sink.writeStream.format("noop").outputMode("update")

    def found(self) -> Counter[int]:
        return Counter({int(word): count for word, count in read_results(self.results).items()})

    def expected(self, records: int) -> Counter[int]:
        whole, rest = divmod(records, self.keys)
        return Counter({key: whole + (key < rest) for key in range(self.keys) if whole or key < rest})


Job = Stateless | Stateful | TwoStates | Keyed
JOBS: dict[str, type[Job]] = {job.name: job for job in (Stateless, Stateful, TwoStates, Keyed)}


def number(records: Ints) -> Ints:
    """Of a record: each block brings half as many new numbers as it has records, and then brings them once more."""
    half = _BLOCK // 2
    return records // _BLOCK * half + records % half


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


def difference(job: Job, records: int) -> tuple[int, int]:
    """How many records' worth are missing in the results, and how many are there too often."""
    found, expected = job.found(), job.expected(records)
    return (expected - found).total(), (found - expected).total()
