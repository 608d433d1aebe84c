"""Fixtures for tests of verbs and use cases: they write to no store but their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autotrascale.knowledge.mlflow_store import MlflowStore
from tests.knowledge import mlflow_stores


@pytest.fixture(autouse=True)
def no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use no store, unless a test asks for one."""
    monkeypatch.setenv("AUTOTRASCALE_STORE", "none")


@pytest.fixture(scope="session")
def empty_database(pytestconfig: pytest.Config) -> Path:
    return mlflow_stores.template(pytestconfig)


@pytest.fixture(scope="session")
def common_store(empty_database: Path) -> Iterator[MlflowStore]:
    """One store for all tests, each of which uses a job of its own: opening a store takes a second."""
    with mlflow_stores.quick_folder() as folder:
        yield mlflow_stores.embedded(empty_database, folder)


@pytest.fixture
def store(common_store: MlflowStore, monkeypatch: pytest.MonkeyPatch) -> MlflowStore:
    monkeypatch.setenv("AUTOTRASCALE_STORE", common_store.uri)
    return common_store


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A job that no other test uses."""
    return request.node.name.replace("[", "-").replace("]", "")
