"""A Spark session for all tests here, and the text of the recorded logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from record import LOGS

from autotrascale.execute.spark.controller.local_session import local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with local_session(cores="2") as session:
        yield session


@pytest.fixture(scope="session")
def lines() -> dict[str, list[str]]:
    """The recorded logs as text, by application."""
    return {file.relative_to(LOGS).parts[0]: text(file).splitlines(keepends=True) for file in LOGS.rglob("*.zstd")}


def text(file: Path) -> str:
    with pa.input_stream(str(file), compression="zstd") as stream:
        return str(stream.read().decode())
