"""Nexmark Q1, currency conversion: the price of each bid in euros.

    bids → convert → sink

Prices are whole cents and stay whole, as in Beam. The text of the benchmark multiplies by a fraction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow.compute as pc
from pyspark.sql import DataFrame

from autotrascale.domain.topology import Topology
from autotrascale.execute.spark.jobs.flow import Flow, Query
from autotrascale.execute.spark.jobs.stalls import Batch, check_stalls, pass_through, with_stall
from examples.jobs.nexmark.market import BID, Market

EUROS, DOLLARS = 908, 1000
_CONVERTED = f"{BID}, ts timestamp"


@dataclass(frozen=True)
class Q1:
    """The query as a job. Each `…_stall` is the seconds that the operator sleeps for each record it takes in."""

    convert_stall: float = 0.0
    sink_stall: float = 0.0
    market: Market = field(default_factory=Market)

    name: ClassVar[str] = "nexmark-q1"
    topology: ClassVar[Topology] = Topology.chain("bids", "convert", "sink")

    def __post_init__(self) -> None:
        check_stalls(self)

    def build(self, flow: Flow) -> Query:
        bids = flow.load("bids", BID, self.market.bids)
        converted = flow.operator("convert", bids, do=self._convert)
        sink = flow.operator("sink", converted, do=self._sink)
        return sink.writeStream.format("noop").outputMode("append")

    def _convert(self, df: DataFrame) -> DataFrame:
        return df.mapInArrow(with_stall(_convert_to_euros, self.convert_stall), _CONVERTED)

    def _sink(self, df: DataFrame) -> DataFrame:
        return df.mapInArrow(with_stall(pass_through, self.sink_stall), _CONVERTED)


def _convert_to_euros(batch: Batch) -> Batch:
    price = pc.divide(pc.multiply(batch["price"], EUROS), DOLLARS)
    return batch.set_column(batch.schema.get_field_index("price"), "price", price)
