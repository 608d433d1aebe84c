"""A runner that executes a job on a fixed prefix of its load, batch by batch, and returns its output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from autotrascale.execute.spark.jobs import load_file
from autotrascale.execute.spark.jobs.flow import Flow, StreamingJob
from autotrascale.execute.spark.jobs.load_file import QueryLoad, Segment, SourceLoad
from autotrascale.execute.spark.jobs.rate_schedule import constant_schedule
from autotrascale.monitor.marks import find_counting_name

BEGAN_MS = 1_700_000_000_000
"""When every load begins: long ago, so that all of a prefix has arrived."""

_names = count()
_PARTITIONS = re.compile(r"hashpartitioning\(.*, (\d+)\)|RoundRobinPartitioning\((\d+)\)|SinglePartition")


@dataclass(frozen=True)
class Stage:
    """A part of the plan between shuffles: its marks, the partitions of its input shuffles, and its stalls."""

    marks: list[str] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    stalls: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ran:
    """The output rows with times in milliseconds, and the stages of the last batch."""

    rows: list[tuple[Any, ...]]
    stages: list[Stage]


class Bounded:
    """A session and a folder for checkpoints, for one query after another."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder

    def run(self, job: StreamingJob, k: Sequence[int], rates: Mapping[str, float], ends: Iterable[float]) -> Ran:
        """Run a batch up to each of `ends` (seconds of load). `rates` are records per second by source."""
        name = f"bounded{next(_names)}"
        file = self.folder / f"{name}.json"
        _offer(rates, 0.0, file)
        query = self._start(job, k, file, name)
        try:
            for end in ends:
                _offer(rates, end, file)
                query.processAllAvailable()
            rows = [tuple(map(_plain, row)) for row in self.spark.table(name).collect()]
            return Ran(rows, list(_stages(_plan(self.spark, query))))
        finally:
            query.stop()
            self.spark.catalog.dropTempView(name)

    def _start(self, job: StreamingJob, k: Sequence[int], file: Path, name: str) -> StreamingQuery:
        """Start the query like the driver does, with another sink."""
        parallelism = job.topology.named(tuple(k))
        stateful = [parallelism[name] for name, operator in job.topology.operators.items() if operator.stateful]
        self.spark.conf.set("spark.sql.shuffle.partitions", str(max(stateful, default=1)))
        writer = job.build(Flow(self.spark, job.topology, parallelism, file))
        checkpoint = str(self.folder / name)
        return writer.format("memory").queryName(name).option("checkpointLocation", checkpoint).start()


def arrivals(rate: float, seconds: float) -> NDArray[np.int64]:
    """Return the arrival time of each of the first records in Unix milliseconds."""
    return BEGAN_MS + _load(rate).arrivals(0, round(seconds * 1000))[1]


def _load(rate: float) -> SourceLoad:
    return SourceLoad((Segment(0, 0, constant_schedule(rate)),), started_ms=BEGAN_MS)


def _offer(rates: Mapping[str, float], seconds: float, file: Path) -> None:
    limit = round(seconds * 1000)
    load_file.write_load(QueryLoad({name: replace(_load(rate), limit_ms=limit) for name, rate in rates.items()}), file)


def _plain(value: Any) -> Any:
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else value


def _plan(spark: SparkSession, query: StreamingQuery) -> Any:
    jvm: Any = spark.sparkContext._jvm
    executed = query._jsq.streamingQuery().lastExecution().executedPlan()
    return jvm.org.apache.spark.sql.execution.SparkPlanInfo.fromSparkPlan(executed)


def _stages(root: Any) -> Iterator[Stage]:
    """Divide a plan into stages at its shuffles, beginning at the end."""
    tops = [root]
    while tops:
        stage, todo = Stage(), [tops.pop()]
        while todo:
            node = todo.pop()
            if mark := find_counting_name(node.simpleString()):
                stage.marks.append(mark)
            if node.nodeName() == "Filter" and "parkNanos" in node.simpleString():
                stage.stalls.append(node.simpleString())
            children = [node.children().apply(at) for at in range(node.children().size())]
            if node.nodeName() == "Exchange":
                stage.reads.append(_partitions(node.simpleString()))
                tops += children
            else:
                todo += children
        yield stage


def _partitions(exchange: str) -> int:
    found = _PARTITIONS.search(exchange)
    assert found, exchange
    return int(found.group(1) or found.group(2) or 1)
