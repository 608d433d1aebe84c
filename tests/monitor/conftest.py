"""The servers that the tests of the metric stores share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("autotrascale.testing.metric_store_contract")

from influxd import Influxd, started  # noqa: E402


@pytest.fixture(scope="session")
def influxd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Influxd]:
    """One server for all tests that leave it running."""
    server = started(tmp_path_factory.mktemp("influxd"))
    yield server
    server.kill()


@pytest.fixture
def mortal_influxd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Influxd]:
    """One that a test may kill."""
    server = started(tmp_path_factory.mktemp("mortal"))
    yield server
    server.kill()
