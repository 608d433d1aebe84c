"""The extended Yahoo streaming benchmark: views of the ads of each campaign in each window of ten seconds.

    source → parse → filter → project → join → store

Events are JSON texts of views, clicks and purchases. `parse` reads them, `filter` keeps the views, `project` keeps the
ad and the time, `join` looks up the campaign of the ad in Redis, `store` counts per campaign and window and writes the
counts to Redis. differs: in the AuTraScale paper the fifth operator does look-up, window and writing. In Spark a count
by campaign begins with a shuffle, so look-up and counting are two stages and two operators.

Without the option `redis` the job looks ads up in the process and drops the counts. Then it runs anywhere, and stalls
can stand for the time that Redis takes.

Event time is arrival time, which the load generator stamps; the text of an event depends on its number alone. A changed
count of a window is emitted again and replaces the older one.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from autotrascale.domain import checks
from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.jobs.flow import Flow, Query
from autotrascale.execute.spark.jobs.hashed_numbers import Ints
from autotrascale.execute.spark.jobs.stalls import Batch, check_stalls, with_jvm_stall, with_stall
from examples.jobs.campaigns import Campaigns, InProcess, InRedis, LookUp
from examples.jobs.random_draws import draw_below
from examples.jobs.redis_client import Redis
from examples.jobs.windows import check_length, window_column, with_arrival_watermark

USERS, PAGES, ADDRESSES = 100, 100, 256
AD_TYPES = ("banner", "modal", "sponsored-search", "mail", "mobile")
EVENT_TYPES = ("view", "click", "purchase")
VIEW = "view"

_FIELDS = ("user_id", "page_id", "ad_id", "ad_type", "event_type", "ip_address")
_EVENT = pa.schema([(name, pa.string()) for name in _FIELDS])
_PARSE_OPTIONS = arrow_json.ParseOptions(explicit_schema=_EVENT, unexpected_field_behavior="ignore")
_PARSED = ", ".join(f"{name} string" for name in _FIELDS) + ", ts timestamp"
_COUNTED = "campaign string, start_ms bigint, views bigint"


@dataclass(frozen=True)
class Yahoo:
    """The benchmark as a job. Each `…_stall` is the seconds that the operator sleeps for each record it takes in.

    Attributes:
        campaigns: number of campaigns.
        ads_each: number of ads of each campaign.
        window_seconds: length of a window.
        seed: seed of the events.
        redis: address like redis://127.0.0.1:6379/0; empty for a look-up in the process.
        redis_timeout: seconds to wait for an answer of Redis.
    """

    parse_stall: float = 0.0
    filter_stall: float = 0.0
    project_stall: float = 0.0
    join_stall: float = 0.0
    store_stall: float = 0.0
    campaigns: int = 100
    ads_each: int = 10
    window_seconds: float = 10.0
    seed: int = 0
    redis: str = ""
    redis_timeout: float = 2.0

    name: ClassVar[str] = "yahoo"
    topology: ClassVar[Topology] = Topology(
        {
            "source": Operator(),
            "parse": Operator(("source",)),
            "filter": Operator(("parse",)),
            "project": Operator(("filter",)),
            "join": Operator(("project",)),
            "store": Operator(("join",), stateful=True),
        }
    )

    def __post_init__(self) -> None:
        check_stalls(self)
        checks.count("campaigns", self.campaigns)
        checks.count("ads_each", self.ads_each)
        check_length("window_seconds", self.window_seconds)
        checks.count("seed", self.seed, least=0)
        checks.positive("redis_timeout", self.redis_timeout)
        self.in_redis  # noqa: B018 - raises for a bad address

    @property
    def table(self) -> Campaigns:
        return Campaigns(self.campaigns, self.ads_each)

    @property
    def in_redis(self) -> InRedis | None:
        return InRedis(Redis(self.redis, self.redis_timeout)) if self.redis else None

    def build(self, flow: Flow) -> Query:
        """Write the table of ads to Redis, which fails early without Redis, and return the query."""
        if self.in_redis:
            self.in_redis.put_table(self.table)
        events = flow.load("source", "event string", self.events)
        parsed = flow.operator("parse", events, do=self._parse)
        views = flow.operator("filter", parsed, do=self._filter)
        projected = flow.operator("project", views, do=self._project)
        joined = with_arrival_watermark(flow.operator("join", projected, do=self._join))
        placed = joined.select(window_column(self.window_seconds), "campaign")
        stored = flow.operator("store", placed, do=self._store, by=["window", "campaign"])
        return stored.writeStream.format("noop").outputMode("update")

    def events(self, numbers: Ints) -> list[list[str]]:
        """Return the texts of the events with these numbers. A text depends on its number and the seed alone."""
        limits = (USERS, PAGES, self.table.ads, len(AD_TYPES), len(EVENT_TYPES), ADDRESSES)
        drawn = (draw_below(limit, self.seed, numbers, draw).tolist() for draw, limit in enumerate(limits))
        return [[self._make_event(*row) for row in zip(*drawn, strict=True)]]

    def _make_event(self, user: int, page: int, ad: int, ad_type: int, event_type: int, address: int) -> str:
        return (
            f'{{"user_id": "user-{user}", "page_id": "page-{page}", "ad_id": "{self.table.ad(ad)}", '
            f'"ad_type": "{AD_TYPES[ad_type]}", "event_type": "{EVENT_TYPES[event_type]}", '
            f'"ip_address": "10.0.0.{address}"}}'
        )

    def _parse(self, df: DataFrame) -> DataFrame:
        return df.mapInArrow(with_stall(_parse_json, self.parse_stall), _PARSED)

    def _filter(self, df: DataFrame) -> DataFrame:
        return df.mapInArrow(with_stall(_keep_views, self.filter_stall), _PARSED)

    def _project(self, df: DataFrame) -> DataFrame:
        return df.mapInArrow(with_stall(_keep_ad_and_time, self.project_stall), "ad_id string, ts timestamp")

    def _join(self, df: DataFrame) -> DataFrame:
        look_up = self.in_redis or InProcess(self.table)
        return df.mapInArrow(with_stall(_make_join(look_up), self.join_stall), "campaign string, ts timestamp")

    def _store(self, df: DataFrame) -> DataFrame:
        counts = with_jvm_stall(df, self.store_stall).groupBy("window", "campaign").agg(fn.count("*").alias("views"))
        counted = counts.selectExpr("campaign", "unix_millis(window.start) as start_ms", "views")
        return counted.mapInArrow(with_stall(_make_write(self.in_redis), 0.0), _COUNTED) if self.in_redis else counted


def _parse_json(batch: Batch) -> Batch:
    """Parse the JSON text of each row into one column for each field."""
    texts = batch["event"].to_pylist()
    if texts:
        lines = io.BytesIO("\n".join(texts).encode())
        parsed = arrow_json.read_json(lines, arrow_json.ReadOptions(use_threads=False), _PARSE_OPTIONS).combine_chunks()
    else:
        parsed = _EVENT.empty_table()  # Arrow raises for an empty text
    columns = [parsed[name].combine_chunks() for name in _FIELDS]
    return pa.RecordBatch.from_arrays([*columns, batch["ts"]], [*_FIELDS, "ts"])


def _keep_views(batch: Batch) -> Batch:
    return batch.filter(pc.equal(batch["event_type"], VIEW))


def _keep_ad_and_time(batch: Batch) -> Batch:
    return batch.select(["ad_id", "ts"])


def _make_join(look_up: LookUp) -> Callable[[Batch], Batch]:
    """Return a function that replaces ads by campaigns and drops ads without a campaign."""

    def join(batch: Batch) -> Batch:
        campaigns = look_up.campaigns_of(batch["ad_id"])
        return pa.RecordBatch.from_arrays([campaigns, batch["ts"]], ["campaign", "ts"]).filter(pc.is_valid(campaigns))

    return join


def _make_write(store: InRedis) -> Callable[[Batch], Batch]:
    def write(batch: Batch) -> Batch:
        store.put_views(*(batch[name].to_pylist() for name in ("campaign", "start_ms", "views")))
        return batch

    return write
