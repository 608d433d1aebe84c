"""Nexmark Q5, hot items: the auctions with the most bids in each sliding window.

    bids → count → hottest

`count` counts the bids of each auction in each overlapping window. `hottest` finds the maximum of a window and all
auctions that share it. `hottest` needs no state: in append mode Spark emits all counts of a window in one batch, when
the watermark passes the end of the window, and sends them to one partition. A second aggregation would keep everything
twice and lose ties.

Spark emits a window once, when it is complete. Other systems emit early results and correct them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame

from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.jobs.flow import Flow, Query
from autotrascale.execute.spark.jobs.stalls import ArrowMap, Batch, Batches, check_stalls, stall_batches, with_jvm_stall
from examples.jobs.nexmark.market import BID, Market
from examples.jobs.windows import check_length, window_column, with_arrival_watermark

_HOTTEST = "start timestamp, auction bigint, bids bigint"


@dataclass(frozen=True)
class Q5:
    """The query as a job. Each `…_stall` is the seconds that the operator sleeps for each record it takes in.

    `count` takes in each bid once for each of its `window_seconds` / `every_seconds` windows.
    """

    count_stall: float = 0.0
    hottest_stall: float = 0.0
    window_seconds: float = 10.0
    every_seconds: float = 5.0
    market: Market = field(default_factory=Market)

    name: ClassVar[str] = "nexmark-q5"
    topology: ClassVar[Topology] = Topology(
        {"bids": Operator(), "count": Operator(("bids",), stateful=True), "hottest": Operator(("count",))}
    )

    def __post_init__(self) -> None:
        check_stalls(self)
        check_length("window_seconds", self.window_seconds)
        check_length("every_seconds", self.every_seconds)
        if self.every_seconds > self.window_seconds:
            remedy = "lower it, or bids between two windows would not count"
            raise InputError("every_seconds", "is longer than window_seconds", seen=self.every_seconds, remedy=remedy)

    def build(self, flow: Flow) -> Query:
        bids = with_arrival_watermark(flow.load("bids", BID, self.market.bids))
        placed = bids.select(window_column(self.window_seconds, self.every_seconds), "auction")
        counts = flow.operator("count", placed, do=self._count, by=["window", "auction"])
        hottest = flow.operator("hottest", counts, do=self._hottest, by=["start"])
        return hottest.writeStream.format("noop").outputMode("append")

    def _count(self, df: DataFrame) -> DataFrame:
        counts = with_jvm_stall(df, self.count_stall).groupBy("window", "auction").count()
        return counts.selectExpr("window.start as start", "auction", "count as bids")

    def _hottest(self, df: DataFrame) -> DataFrame:
        return df.mapInArrow(_find_hottest(self.hottest_stall), _HOTTEST)


def _find_hottest(seconds: float) -> ArrowMap:
    """Return a function from the batches of a partition to the auctions with the most bids in each window."""

    def find(batches: Iterable[Batch]) -> Batches:
        hottest: dict[datetime, tuple[int, list[int]]] = {}
        schema = None
        for batch in stall_batches(batches, seconds):
            schema = batch.schema
            for start, auction, bids in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                best, auctions = hottest.get(start, (0, []))
                if bids > best:
                    hottest[start] = (bids, [auction])
                elif bids == best:
                    auctions.append(auction)
        if schema is not None:
            rows = [(start, auction, bids) for start, (bids, auctions) in hottest.items() for auction in auctions]
            yield pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)

    return find
