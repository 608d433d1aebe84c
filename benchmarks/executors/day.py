"""A day in minutes: records that come by a schedule, a query that counts them, and what the counts must be.

Every record takes its time in the query by waiting, as one that calls a service would, and no core: so more executors
do more on a machine of few cores. Nothing is written in Python that runs in workers.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.execute.simulator import schedules
from autotrascale.execute.spark.host.state_partitions import repartition_state

KEYS = 101
_EVERY = 0.5  # seconds: a file
_MARK = "arrivals"


@dataclass(frozen=True)
class Day:
    """From `low` to `high` records per second and back, in so many seconds."""

    seconds: float
    low: float = 10.0
    high: float = 75.0
    wait_ms: int = 32  # of each record
    seed: int = 0

    def rate(self, at: float) -> float:
        """It begins and ends in the night."""
        swing = schedules.Sine((self.low + self.high) / 2, (self.high - self.low) / 2)
        return schedules.Noisy(swing, 0.05, self.seed, interval=300.0)(at / self.seconds * schedules.DAY)


class Feeder:
    """Brings the records of the day, file after file, each with the time at which it was due."""

    def __init__(self, folder: Path, day: Day) -> None:
        folder.mkdir(parents=True)
        self._folder, self._day = folder, day
        self._over = threading.Event()
        self.records = 0
        self.began = 0.0
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def start(self) -> float:
        """When the day began."""
        self.began = time.time()
        self._thread.start()
        return self.began

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _feed(self) -> None:
        due = 0.0
        for number in range(1, int(self._day.seconds / _EVERY) + 1):
            until = self.began + number * _EVERY
            if self._over.wait(max(0.0, until - time.time())):
                return
            due += self._day.rate((number - 0.5) * _EVERY) * _EVERY
            self.bring(int(due), until - _EVERY / 2)
            due -= int(due)

    def bring(self, count: int, arrival: float) -> None:
        draft = self._folder / f".{self.records}.part"
        rows = (f'{{"n":{self.records + i},"arrival":{arrival:.3f}}}\n' for i in range(count))
        draft.write_text("".join(rows))
        draft.rename(self._folder / f"{self.records}-{count}.json")
        self.records += count


@dataclass(frozen=True)
class Batch:
    """`seconds` is how long it took, `latency` from a record's arrival to its end, in the mean; `first` and `last` are
    when its first and its last record arrived."""

    ended: float
    seconds: float
    records: int
    latency: float
    first: float
    last: float


class Query:
    """Started again for every number of partitions, on the same checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path, day: Day, partitions: int) -> None:
        self._spark, self._folder, self._day = spark, folder, day
        self._batches: dict[int, Batch] = {}
        self.partitions, self.moves = partitions, 0
        self._query = self._start()

    def batches(self) -> list[Batch]:
        """Of the whole day, by number. To be asked for often enough that Spark still knows them."""
        for progress in self._query.recentProgress:
            row = progress.observedMetrics.get(_MARK)
            if row is not None and progress.numInputRows and row["mean"] is not None:
                took = progress.durationMs["triggerExecution"] / 1000
                ended = _unix(progress.timestamp) + took
                records, latency = int(progress.numInputRows), ended - row["mean"]
                self._batches[progress.batchId] = Batch(ended, took, records, latency, row["first"], row["last"])
        return [self._batches[number] for number in sorted(self._batches)]

    def move(self, partitions: int) -> None:
        """State to another number of partitions: the batch under way is finished, and records wait meanwhile."""
        self._finish_batch()
        self.batches()
        self._query.stop()
        self._spark.conf.set("spark.sql.shuffle.partitions", str(self.partitions))
        self._writer().trigger(once=True).start().awaitTermination()  # what a stop in mid-batch has left open
        repartition_state(self._spark, self._checkpoint, partitions)
        self.partitions, self.moves = partitions, self.moves + 1
        self._query = self._start()

    def drain(self) -> Counter[int]:
        """The counts of all that came."""
        self._query.processAllAvailable()
        self.batches()
        self._query.stop()
        return Counter({row["key"]: row["count"] for row in self._spark.table("counts").collect()})

    def check(self) -> None:
        if (error := self._query.exception()) is not None:
            raise error

    @property
    def _checkpoint(self) -> str:
        return str(self._folder / "checkpoint")

    def _finish_batch(self, patience: float = 60.0) -> None:
        until, last = time.monotonic() + patience, self._newest()
        while self._newest() == last and self._query.status["isTriggerActive"] and time.monotonic() < until:
            time.sleep(0.05)

    def _newest(self) -> int:
        return -1 if self._query.lastProgress is None else int(self._query.lastProgress.batchId)

    def _start(self) -> StreamingQuery:
        self._spark.conf.set("spark.sql.shuffle.partitions", str(self.partitions))
        return self._writer().trigger(processingTime="1 second").start()

    def _writer(self) -> DataStreamWriter:
        counted = self._counts()
        writer = counted.writeStream.outputMode("complete").format("memory").queryName("counts")
        return writer.option("checkpointLocation", self._checkpoint)

    def _counts(self) -> DataFrame:
        source = self._spark.readStream.schema("n long, arrival double").json(str(self._folder / "in"))
        arrival = fn.col("arrival")
        marked = source.observe(
            _MARK, fn.avg(arrival).alias("mean"), fn.min(arrival).alias("first"), fn.max(arrival).alias("last")
        )
        waits = f"java_method('java.lang.Thread', 'sleep', {self._day.wait_ms}L) is not null"
        return marked.repartition(fn.col("n")).where(waits).groupBy((fn.col("n") % KEYS).alias("key")).count()


def difference(found: Counter[int], records: int) -> tuple[int, int]:
    """How many are missing, and how many were counted twice."""
    expected = Counter(number % KEYS for number in range(records))
    return (expected - found).total(), (found - expected).total()


def _unix(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()
