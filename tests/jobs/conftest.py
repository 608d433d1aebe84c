"""A Spark session and a Redis server for all tests of the jobs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from bounded import Bounded
from pyspark.sql import SparkSession
from redis_server import RedisServer, started

from autotrascale.execute.spark.clusters.session_configuration import build_configuration, event_log_folder
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.driver_agent.spark_session import open_session


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "spark: runs a real Spark; seconds, not milliseconds")


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield the session of this process, or a new one."""
    mine = SparkSession.getActiveSession() is None
    work = tmp_path_factory.mktemp("session")
    event_log_folder(work).mkdir()
    settings = SparkSettings(
        job="none:None",
        master="local[4]",
        conf={"spark.log.level": "ERROR", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"},
    )
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYSPARK_PYTHON", sys.executable)  # or workers run the first python3 on PATH
        spark = open_session(build_configuration(settings, work), work, executors_within=30.0)
        yield spark
        if mine:
            spark.stop()


@pytest.fixture
def bounded(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bounded:
    return Bounded(session, tmp_path_factory.mktemp("bounded"))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Yield a Redis server on a free port of loopback."""
    redis = started(tmp_path_factory.mktemp("redis"), needed=os.environ.get("CI") == "true")
    yield redis
    redis.stop()


@pytest.fixture
def redis_url(server: RedisServer) -> str:
    """Return the address of the server, emptied."""
    server.empty()
    return server.url
