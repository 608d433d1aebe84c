"""The test job: a word count whose flavour (stalls, results, faults) is read from a file at each build."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from autotrascale import validation
from autotrascale.domain.topology import Topology
from autotrascale.execute.spark.jobs.flow import Flow, Query
from autotrascale.execute.spark.jobs.wordcount import WordCount


@dataclass(frozen=True)
class Flavour:
    """The behaviour of the test job.

    `raises` fails in a worker and `hangs` sleeps there, both in batches with more rows than `after`. `fills_heap` takes
    more memory than the JVM has.
    """

    word_count: WordCount = field(default_factory=WordCount)
    raises: str = ""
    hangs: float = 0.0
    after: int = 0
    fills_heap: bool = False
    burns: float = 0.0  # seconds for each batch of rows, of the one core that all workers share meanwhile
    most: int = 0  # partitions of state that it can stand, if there is a limit
    writes: str = ""  # a file that its `foreachBatch` leaves behind


@dataclass(frozen=True)
class Flavoured:
    flavour: str

    name: ClassVar[str] = "flavoured"
    topology: ClassVar[Topology] = WordCount.topology

    def build(self, flow: Flow) -> Query:
        flavour = validation.validate(json.loads(Path(self.flavour).read_text()), Flavour, place="flavour")
        if flavour.fills_heap:
            gateway = flow.spark.sparkContext._gateway
            assert gateway is not None
            hoard = [gateway.new_array(gateway.jvm.long, 2**27) for _ in range(4)]
            assert hoard
        faulty = flavour.raises or flavour.hangs or flavour.burns
        word_count = _Narrow(**asdict(flavour.word_count), most=flavour.most) if flavour.most else flavour.word_count
        writer = _Faulty(flavour).build(flow) if faulty else word_count.build(flow)
        return writer.foreachBatch(_leave(flavour.writes)) if flavour.writes else writer


def _leave(path: str) -> Callable[[DataFrame, int], None]:
    return lambda batch, _: Path(path).touch() if batch.count() else None


def _burn(seconds: float) -> None:
    if seconds:
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass
        os.sched_setaffinity(0, cores)


@dataclass(frozen=True)
class _Narrow(WordCount):
    most: int = 0

    def _count(self, df: DataFrame) -> DataFrame:
        most = self.most

        def narrow(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            assert context is not None
            if context.partitionId() >= most:
                raise ValueError(f"more than {most} partitions are too many")
            yield from batches

        return super()._count(df).mapInArrow(narrow, "word string, count bigint")


@dataclass(frozen=True)
class _Faulty:
    flavour: Flavour

    def build(self, flow: Flow) -> Query:
        raises, hangs, after = self.flavour.raises, self.flavour.hangs, self.flavour.after
        burns = self.flavour.burns

        def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                if batch.num_rows > after and raises:
                    raise ValueError(raises)
                if batch.num_rows > after:
                    time.sleep(hangs)
                _burn(burns)
                yield batch

        job = self.flavour.word_count
        rows = flow.load("source", "sentence string", job.sentences)
        words = flow.operator("flatmap", rows, do=lambda df: df.select("sentence").mapInArrow(work, "word string"))
        counts = flow.operator("count", words, do=lambda df: df.groupBy("word").count(), by=["word"])
        sink = flow.operator("sink", counts, do=lambda df: df)
        return sink.writeStream.format("noop").outputMode("update")
