"""The Yahoo streaming benchmark, extended: how often were the ads of each campaign viewed in each ten seconds?

    source → parse → filter → project → join → store

Events are JSON texts of views, clicks and purchases. `parse` reads them, `filter` keeps the views, `project` the ad and
the time, `join` looks up the ad's campaign in Redis, `store` counts per campaign and window and writes the counts to
Redis. The AuTraScale paper's job has look-up, window and writing in one operator, its fifth; in Spark a count by
campaign begins with a shuffle, so look-up and counting are two stages and two operators.

Without an address of a Redis the table of ads is looked up in the process, and counts go nowhere: the job then runs
anywhere, and stalls can stand for what Redis takes.

Event time is arrival time, which the load generator stamps: an event's text is a function of its number alone, and
says nothing of when it came. A window's counts are told whenever they have changed, and written over the older ones.
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
from autotrascale.execute.spark.jobs.hashed_numbers import Ints, draw_below
from autotrascale.execute.spark.jobs.stalls import Batch, check_stalls, with_jvm_stall, with_stall
from examples.jobs.campaigns import Campaigns, InProcess, InRedis, LookUp
from examples.jobs.redis_client import Redis
from examples.jobs.windows import check_length, window_column, with_arrival_watermark

USERS, PAGES, ADDRESSES = 100, 100, 256
AD_TYPES = ("banner", "modal", "sponsored-search", "mail", "mobile")
EVENT_TYPES = ("view", "click", "purchase")
VIEW = "view"

_FIELDS = ("user_id", "page_id", "ad_id", "ad_type", "event_type", "ip_address")
_EVENT = pa.schema([(name, pa.string()) for name in _FIELDS])
_LIKE_EVENTS = arrow_json.ParseOptions(explicit_schema=_EVENT, unexpected_field_behavior="ignore")
_PARSED = ", ".join(f"{name} string" for name in _FIELDS) + ", ts timestamp"
_COUNTED = "campaign string, start_ms bigint, views bigint"


@dataclass(frozen=True)
class Yahoo:
    """Stalls are seconds per record that the operator takes in. `redis` is an address like redis://127.0.0.1:6379/0,
    `redis_timeout` the seconds that it may take over one answer."""

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
        self.in_redis  # noqa: B018 - refuse a bad address now

    @property
    def table(self) -> Campaigns:
        return Campaigns(self.campaigns, self.ads_each)

    @property
    def in_redis(self) -> InRedis | None:
        return InRedis(Redis(self.redis, self.redis_timeout)) if self.redis else None

    def build(self, flow: Flow) -> Query:
        """Puts the table of ads into Redis, so a Redis that is not there is found out before anything runs."""
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
        """Event i is a function of i and the seed."""
        limits = (USERS, PAGES, self.table.ads, len(AD_TYPES), len(EVENT_TYPES), ADDRESSES)
        drawn = (draw_below(limit, self.seed, numbers, draw).tolist() for draw, limit in enumerate(limits))
        return [[self._event(*row) for row in zip(*drawn, strict=True)]]

    def _event(self, user: int, page: int, ad: int, ad_type: int, event_type: int, address: int) -> str:
        return (
            f'{{"user_id": "user-{user}", "page_id": "page-{page}", "ad_id": "{self.table.ad(ad)}", '
            f'"ad_type": "{AD_TYPES[ad_type]}", "event_type": "{EVENT_TYPES[event_type]}", '
            f'"ip_address": "10.0.0.{address}"}}'
        )

    def _parse(self, df: DataFrame) -> DataFrame:
        return df.mapInArrow(with_stall(_from_json, self.parse_stall), _PARSED)

    def _filter(self, df: DataFrame) -> DataFrame:
        return df.mapInArrow(with_stall(_views, self.filter_stall), _PARSED)

    def _project(self, df: DataFrame) -> DataFrame:
        return df.mapInArrow(with_stall(_ad_and_time, self.project_stall), "ad_id string, ts timestamp")

    def _join(self, df: DataFrame) -> DataFrame:
        look_up = self.in_redis or InProcess(self.table)
        return df.mapInArrow(with_stall(_joiner(look_up), self.join_stall), "campaign string, ts timestamp")

    def _store(self, df: DataFrame) -> DataFrame:
        counts = with_jvm_stall(df, self.store_stall).groupBy("window", "campaign").agg(fn.count("*").alias("views"))
        counted = counts.selectExpr("campaign", "unix_millis(window.start) as start_ms", "views")
        return counted.mapInArrow(with_stall(_writer(self.in_redis), 0.0), _COUNTED) if self.in_redis else counted


def _from_json(batch: Batch) -> Batch:
    """One JSON text for each row → one column for each field."""
    texts = batch["event"].to_pylist()
    if texts:
        lines = io.BytesIO("\n".join(texts).encode())
        parsed = arrow_json.read_json(lines, arrow_json.ReadOptions(use_threads=False), _LIKE_EVENTS).combine_chunks()
    else:
        parsed = _EVENT.empty_table()  # which Arrow takes for no JSON at all
    columns = [parsed[name].combine_chunks() for name in _FIELDS]
    return pa.RecordBatch.from_arrays([*columns, batch["ts"]], [*_FIELDS, "ts"])


def _views(batch: Batch) -> Batch:
    return batch.filter(pc.equal(batch["event_type"], VIEW))


def _ad_and_time(batch: Batch) -> Batch:
    return batch.select(["ad_id", "ts"])


def _joiner(look_up: LookUp) -> Callable[[Batch], Batch]:
    """An ad of no campaign is dropped."""

    def join(batch: Batch) -> Batch:
        campaigns = look_up.campaigns_of(batch["ad_id"])
        return pa.RecordBatch.from_arrays([campaigns, batch["ts"]], ["campaign", "ts"]).filter(pc.is_valid(campaigns))

    return join


def _writer(store: InRedis) -> Callable[[Batch], Batch]:
    def write(batch: Batch) -> Batch:
        store.put_views(*(batch[name].to_pylist() for name in ("campaign", "start_ms", "views")))
        return batch

    return write
