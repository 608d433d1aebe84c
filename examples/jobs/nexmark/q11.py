"""Nexmark Q11, user sessions: the number of bids of a person in each session of activity.

    bids → sessions

A session ends when its bidder has not bid for `gap_seconds`. Spark supports session windows in append mode only, so a
session is emitted once, when the watermark has passed its end. Beam also emits early results after a number of bids.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.jobs.flow import Flow, Query
from autotrascale.execute.spark.jobs.load_generator import ARRIVAL
from autotrascale.execute.spark.jobs.stalls import check_stalls, with_jvm_stall
from examples.jobs.nexmark.market import BID, Market
from examples.jobs.windows import as_interval, check_length, with_arrival_watermark


@dataclass(frozen=True)
class Q11:
    """The query as a job. `sessions_stall` is the seconds that the operator sleeps for each record it takes in."""

    sessions_stall: float = 0.0
    gap_seconds: float = 10.0
    market: Market = field(default_factory=Market)

    name: ClassVar[str] = "nexmark-q11"
    topology: ClassVar[Topology] = Topology({"bids": Operator(), "sessions": Operator(("bids",), stateful=True)})

    def __post_init__(self) -> None:
        check_stalls(self)
        check_length("gap_seconds", self.gap_seconds)

    def build(self, flow: Flow) -> Query:
        bids = with_arrival_watermark(flow.load("bids", BID, self.market.bids)).select("bidder", ARRIVAL)
        sessions = flow.operator("sessions", bids, do=self._sessions, by=["bidder"])
        return sessions.writeStream.format("noop").outputMode("append")

    def _sessions(self, df: DataFrame) -> DataFrame:
        session = fn.session_window(ARRIVAL, as_interval(self.gap_seconds)).alias("session")
        counts = with_jvm_stall(df, self.sessions_stall).groupBy("bidder", session).count()
        return counts.selectExpr("bidder", "session.start as start", "session.end as end", "count as bids")
