"""Nexmark Q8, monitor new users: persons who registered and opened an auction within the same window.

    persons  ↘
               match
    auctions ↗

A pair of person and auction is emitted as soon as both are there. The text of the benchmark emits the pairs of a window
at its end; the pairs are the same. The watermark follows the slower stream and drops the state of past windows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from pyspark.sql import DataFrame

from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.jobs.flow import Flow, Query
from autotrascale.execute.spark.jobs.stalls import check_stalls, with_jvm_stall
from examples.jobs.nexmark.market import AUCTION, PERSON, Market
from examples.jobs.windows import check_length, window_column, with_arrival_watermark


@dataclass(frozen=True)
class Q8:
    """The query as a job. `match_stall` is the seconds that `match` sleeps for each record of either side."""

    match_stall: float = 0.0
    window_seconds: float = 10.0
    market: Market = field(default_factory=Market)

    name: ClassVar[str] = "nexmark-q8"
    topology: ClassVar[Topology] = Topology(
        {"persons": Operator(), "auctions": Operator(), "match": Operator(("persons", "auctions"), stateful=True)}
    )

    def __post_init__(self) -> None:
        check_stalls(self)
        check_length("window_seconds", self.window_seconds)

    def build(self, flow: Flow) -> Query:
        persons = with_arrival_watermark(flow.load("persons", PERSON, self.market.persons))
        auctions = with_arrival_watermark(flow.load("auctions", AUCTION, self.market.auctions))
        cut = window_column(self.window_seconds)
        newcomers = persons.select(cut, persons["id"].alias("person"), "name")
        openings = auctions.select(cut, auctions["seller"].alias("person"), auctions["id"].alias("auction"), "reserve")
        pairs = flow.operator("match", newcomers, openings, do=self._match, by=["window", "person"])
        return pairs.writeStream.format("noop").outputMode("append")

    def _match(self, newcomers: DataFrame, openings: DataFrame) -> DataFrame:
        newcomers, openings = with_jvm_stall(newcomers, self.match_stall), with_jvm_stall(openings, self.match_stall)
        pairs = newcomers.join(openings, ["window", "person"])
        return pairs.selectExpr("window.start as start", "person", "name", "auction", "reserve")
