"""Nexmark Q2, selection: the bids on a few auctions.

    bids → select → sink

The auctions are those with a multiple of 123 as their number, as in Beam. New auctions keep coming, so a fixed list
would soon match nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow.compute as pc
from pyspark.sql import DataFrame

from autotrascale.domain import checks
from autotrascale.domain.topology import Topology
from autotrascale.execute.spark.jobs.flow import Flow, Query
from autotrascale.execute.spark.jobs.stalls import Batch, check_stalls, pass_through, with_stall
from examples.jobs.nexmark.market import BID, Market

_SELECTED = "auction bigint, price bigint"


@dataclass(frozen=True)
class Q2:
    """The query as a job. Each `…_stall` is the seconds that the operator sleeps for each record it takes in.

    One auction in `every` is selected.
    """

    select_stall: float = 0.0
    sink_stall: float = 0.0
    every: int = 123
    market: Market = field(default_factory=Market)

    name: ClassVar[str] = "nexmark-q2"
    topology: ClassVar[Topology] = Topology.chain("bids", "select", "sink")

    def __post_init__(self) -> None:
        check_stalls(self)
        checks.count("every", self.every)

    def build(self, flow: Flow) -> Query:
        bids = flow.load("bids", BID, self.market.bids)
        selected = flow.operator("select", bids, do=self._select)
        sink = flow.operator("sink", selected, do=self._sink)
        return sink.writeStream.format("noop").outputMode("append")

    def _select(self, df: DataFrame) -> DataFrame:
        return df.mapInArrow(with_stall(_select_multiples(self.every), self.select_stall), _SELECTED)

    def _sink(self, df: DataFrame) -> DataFrame:
        return df.mapInArrow(with_stall(pass_through, self.sink_stall), _SELECTED)


def _select_multiples(every: int) -> Callable[[Batch], Batch]:
    def select(batch: Batch) -> Batch:
        rest = pc.subtract(batch["auction"], pc.multiply(pc.divide(batch["auction"], every), every))
        return batch.filter(pc.equal(rest, 0)).select(["auction", "price"])

    return select
