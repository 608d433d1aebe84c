"""Fixtures of the tests in this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.knowledge import mlflow_stores
from tests.support.store_fixtures import common_store as common_store
from tests.support.store_fixtures import empty_database as empty_database
from tests.support.store_fixtures import name as name
from tests.support.store_fixtures import no_store as no_store
from tests.support.store_fixtures import store as store


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mlflow_stores.forgive_mlflow(items, Path(__file__).parent)
