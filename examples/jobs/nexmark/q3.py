"""Nexmark Q3, local item suggestion: sellers of one category in Oregon, Idaho or California.

    persons  → locals ↘
                        suggest
    auctions → offers ↗

Each side waits for the other in the join, so the state grows without bound, as in the benchmark. Spark drops old state
only if a join has a time bound; this join has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.jobs.flow import Flow, Query
from autotrascale.execute.spark.jobs.stalls import Batch, check_stalls, with_jvm_stall, with_stall
from examples.jobs.nexmark.market import AUCTION, FIRST_CATEGORY, PERSON, Market

LOCAL_STATES = ("OR", "ID", "CA")
CATEGORY = FIRST_CATEGORY


@dataclass(frozen=True)
class Q3:
    """The query as a job. Each `…_stall` is the seconds that the operator sleeps for each record it takes in."""

    locals_stall: float = 0.0
    offers_stall: float = 0.0
    suggest_stall: float = 0.0
    market: Market = field(default_factory=Market)

    name: ClassVar[str] = "nexmark-q3"
    topology: ClassVar[Topology] = Topology(
        {
            "persons": Operator(),
            "auctions": Operator(),
            "locals": Operator(("persons",)),
            "offers": Operator(("auctions",)),
            "suggest": Operator(("locals", "offers"), stateful=True),
        }
    )

    def __post_init__(self) -> None:
        check_stalls(self)

    def build(self, flow: Flow) -> Query:
        persons = flow.load("persons", PERSON, self.market.persons)
        auctions = flow.load("auctions", AUCTION, self.market.auctions)
        sellers = flow.operator("locals", persons, do=self._locals)
        offers = flow.operator("offers", auctions, do=self._offers)
        suggestions = flow.operator("suggest", sellers, offers, do=self._suggest, by=["seller"])
        return suggestions.writeStream.format("noop").outputMode("append")

    def _locals(self, df: DataFrame) -> DataFrame:
        keep = _filter_rows("state", LOCAL_STATES, {"seller": "id", "name": "name", "city": "city", "state": "state"})
        return df.mapInArrow(
            with_stall(keep, self.locals_stall), "seller bigint, name string, city string, state string"
        )

    def _offers(self, df: DataFrame) -> DataFrame:
        keep = _filter_rows("category", (CATEGORY,), {"seller": "seller", "auction": "id"})
        return df.mapInArrow(with_stall(keep, self.offers_stall), "seller bigint, auction bigint")

    def _suggest(self, sellers: DataFrame, offers: DataFrame) -> DataFrame:
        joined = with_jvm_stall(sellers, self.suggest_stall).join(with_jvm_stall(offers, self.suggest_stall), "seller")
        return joined.select("name", "city", "state", "auction")


def _filter_rows(column: str, values: tuple[Any, ...], renamed: dict[str, str]) -> Callable[[Batch], Batch]:
    """Return a function that keeps the rows with `column` in `values`, and the columns `renamed` (new name: old)."""

    def keep(batch: Batch) -> Batch:
        found = batch.filter(pc.is_in(batch[column], value_set=pa.array(values)))
        return pa.RecordBatch.from_pydict({new: found[old] for new, old in renamed.items()})

    return keep
