"""Every metric store against the one contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from influxd import Influxd

from autotrascale.monitor.stores.metric_store import MetricStore
from autotrascale.monitor.stores.spooled_store import SpooledStore
from autotrascale.monitor.stores.sqlite_store import SqliteStore
from autotrascale.testing.memory_store import MemoryStore
from autotrascale.testing.metric_store_contract import MetricStoreContract


class TestMemory(MetricStoreContract):
    @pytest.fixture
    def store(self) -> MetricStore:
        return MemoryStore()


class TestSqlite(MetricStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[MetricStore]:
        with SqliteStore(tmp_path / "metrics.db") as store:
            yield store


class TestInflux(MetricStoreContract):
    @pytest.fixture
    def store(self, influxd: Influxd) -> Iterator[MetricStore]:
        with influxd.store(influxd.bucket()) as store:
            yield store


class TestInfluxBehindSpool(MetricStoreContract):
    @pytest.fixture
    def store(self, influxd: Influxd, tmp_path: Path) -> Iterator[MetricStore]:
        with SpooledStore(influxd.store(influxd.bucket()), tmp_path / "spool.db", bound=100_000) as store:
            yield store
