"""The table from ads to campaigns, and look-ups of the table in the process or in Redis.

A look-up takes the ads of a whole Arrow batch, asks once for each different ad, and returns null for an ad without a
campaign. Look-up objects are sent to Python workers, so they hold no connection.
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
    """The table: ad number a belongs to campaign number a // ads_each."""

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
        """Return the campaign of each ad."""
        return {self.ad(number): self.campaign_of(number) for number in range(self.ads)}


class LookUp(Protocol):
    """A look-up of campaigns."""

    def campaigns_of(self, ads: Strings) -> Strings:
        """Return the campaign of each ad, null for an ad without a campaign."""
        ...


@dataclass(frozen=True)
class InProcess:
    """A look-up in a table that each worker holds."""

    campaigns: Campaigns

    def campaigns_of(self, ads: Strings) -> Strings:
        known, campaigns = _columns(self.campaigns)
        return campaigns.take(pc.index_in(ads, value_set=known))


@dataclass(frozen=True)
class InRedis:
    """A look-up in Redis, and a store of the counts.

    The table has keys `yahoo:ad:AD`; counts have keys `yahoo:views:CAMPAIGN:WINDOW`, with the first millisecond of the
    window. A count replaces the one before, so a batch may write it again, and expires after `keep_seconds`.
    """

    redis: Redis
    keep_seconds: int = 3600

    def put_table(self, campaigns: Campaigns) -> None:
        """Write the table to Redis."""
        table = {f"{_AD}:{ad}": campaign for ad, campaign in campaigns.table().items()}
        with self.redis.client() as client:
            client.mset(table)

    def campaigns_of(self, ads: Strings) -> Strings:
        """Return the campaign of each ad, with one MGET for the batch."""
        places = ads.dictionary_encode()
        different = places.dictionary.to_pylist()
        if not different:
            return pa.nulls(len(ads), pa.string())
        with self.redis.client() as client:
            found: Any = client.mget([f"{_AD}:{ad}" for ad in different])
        return pa.array(found, pa.string()).take(places.indices)

    def put_views(self, campaigns: list[str], windows: list[int], views: list[int]) -> None:
        """Write the counts of a batch in one pipeline."""
        with self.redis.client() as client:
            pipeline = client.pipeline(transaction=False)
            for campaign, window, count in zip(campaigns, windows, views, strict=True):
                pipeline.set(f"{_VIEWS}:{campaign}:{window}", count, ex=self.keep_seconds)
            pipeline.execute()

    def views(self) -> dict[tuple[str, int], int]:
        """Return all counts by campaign and first millisecond of the window."""
        with self.redis.client() as client:
            keys = list(client.scan_iter(f"{_VIEWS}:*", count=1000))
            values: Any = client.mget(keys) if keys else []
        places = [key.removeprefix(f"{_VIEWS}:").rsplit(":", 1) for key in keys]
        return {
            (campaign, int(window)): int(views)
            for (campaign, window), views in zip(places, values, strict=True)
            if views is not None  # expired between SCAN and MGET
        }


@cache
def _columns(campaigns: Campaigns) -> tuple[Strings, Strings]:
    """Return the two columns of the table, made once in each worker."""
    table = campaigns.table()
    return pa.array(list(table), pa.string()), pa.array(list(table.values()), pa.string())
