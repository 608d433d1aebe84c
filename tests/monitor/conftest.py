"""The servers that the tests of the metric stores share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from influxd import Influxd, started


@pytest.fixture(scope="session")
def influxd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Influxd]:
    """Return a server for all tests, because a start takes seconds."""
    server = started(tmp_path_factory.mktemp("influxd"))
    yield server
    server.kill()


@pytest.fixture
def mortal_influxd(influxd: Influxd) -> Iterator[Influxd]:
    """The same, for a test that may kill it: the next finds it alive, its data where they were."""
    yield influxd
    if not influxd.alive:
        influxd.start()
