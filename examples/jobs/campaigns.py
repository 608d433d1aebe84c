"""Ads and the campaigns they belong to: the table, and looking it up in this process or in Redis.

A look-up takes the ads of a whole Arrow batch at once, asks for each different one only once, and gives null for an ad
that belongs to no campaign. What looks up is shipped to Python workers, so it holds no connection itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from examples.jobs.redis_client import Redis

Strings: TypeAlias = Any
"""A `pyarrow.StringArray`."""

_AD, _VIEWS = "yahoo:ad", "yahoo:views"


@dataclass(frozen=True)
class Campaigns:
    """Ad number a belongs to campaign number a // ads_each."""

    count: int
    ads_each: int

    @property
    def ads(self) -> int:
        return self.count * self.ads_each

    def ad(self, number: int) -> str:
        return f"ad-{number:06d}"

    def campaign_of(self, number: int) -> str:
        return f"campaign-{number // self.ads_each:04d}"

    def table(self) -> dict[str, str]:
        """Ad → campaign."""
        return {self.ad(number): self.campaign_of(number) for number in range(self.ads)}


class LookUp(Protocol):
    def campaigns_of(self, ads: Strings) -> Strings:
        """The campaign of each ad; null for one that has none."""
        ...


@dataclass(frozen=True)
class InProcess:
    """The table itself, in every worker."""

    campaigns: Campaigns

    def campaigns_of(self, ads: Strings) -> Strings:
        known, campaigns = _columns(self.campaigns)
        return campaigns.take(pc.index_in(ads, value_set=known))


@dataclass(frozen=True)
class InRedis:
    """The table as keys `yahoo:ad:AD`, and the views that were counted as `yahoo:views:CAMPAIGN:WINDOW`, where WINDOW
    is its first millisecond. A count is written whole, so that writing it again does no harm, and stays for
    `keep_seconds`."""

    redis: Redis
    keep_seconds: int = 3600

    def put_table(self, campaigns: Campaigns) -> None:
        table = {f"{_AD}:{ad}": campaign for ad, campaign in campaigns.table().items()}
        with self.redis.client() as client:
            client.mset(table)

    def campaigns_of(self, ads: Strings) -> Strings:
        """One MGET for the batch."""
        places = ads.dictionary_encode()
        different = places.dictionary.to_pylist()
        if not different:
            return pa.nulls(len(ads), pa.string())
        with self.redis.client() as client:
            found: Any = client.mget([f"{_AD}:{ad}" for ad in different])
        return pa.array(found, pa.string()).take(places.indices)

    def put_views(self, campaigns: list[str], windows: list[int], views: list[int]) -> None:
        """One pipeline for the batch."""
        with self.redis.client() as client:
            pipeline = client.pipeline(transaction=False)
            for campaign, window, count in zip(campaigns, windows, views, strict=True):
                pipeline.set(f"{_VIEWS}:{campaign}:{window}", count, ex=self.keep_seconds)
            pipeline.execute()

    def views(self) -> dict[tuple[str, int], int]:
        """All that was counted: (campaign, window) → views."""
        with self.redis.client() as client:
            keys = list(client.scan_iter(f"{_VIEWS}:*", count=1000))
            values: Any = client.mget(keys) if keys else []
        places = [key.removeprefix(f"{_VIEWS}:").rsplit(":", 1) for key in keys]
        return {
            (campaign, int(window)): int(views)
            for (campaign, window), views in zip(places, values, strict=True)
            if views is not None  # its time had come between the two questions
        }


@cache
def _columns(campaigns: Campaigns) -> tuple[Strings, Strings]:
    """The table's two columns, made once in each worker."""
    table = campaigns.table()
    return pa.array(list(table), pa.string()), pa.array(list(table.values()), pa.string())
