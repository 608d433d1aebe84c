"""A store and job files of their own for the tests of the HTTP service."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.knowledge import mlflow_stores


@pytest.fixture(scope="session")
def empty_database(pytestconfig: pytest.Config) -> Path:
    return mlflow_stores.template(pytestconfig)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mlflow_stores.forgive_mlflow(items, Path(__file__).parent)
