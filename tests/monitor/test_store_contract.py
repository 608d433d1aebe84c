"""Every metric store against the one contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from influxd import Influxd

from autotrascale.monitor.sqlite_store import SqliteStore
from autotrascale.monitor.store import MetricStore
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
