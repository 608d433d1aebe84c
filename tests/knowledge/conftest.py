from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autotrascale.knowledge.mlflow_store import MlflowStore
from tests.knowledge import mlflow_stores


@pytest.fixture(scope="session")
def empty_database(pytestconfig: pytest.Config) -> Path:
    return mlflow_stores.template(pytestconfig)


@pytest.fixture(scope="session")
def server(empty_database: Path) -> Iterator[str]:
    """Return the address of one server for all tests. Each test uses its own job."""
    with mlflow_stores.quick_folder() as folder, mlflow_stores.served(empty_database, folder) as uri:
        yield uri


@pytest.fixture(scope="session")
def embedded(empty_database: Path) -> Iterator[MlflowStore]:
    """Return one embedded store for all tests that can share a store."""
    with mlflow_stores.quick_folder() as folder:
        yield mlflow_stores.embedded(empty_database, folder)


@pytest.fixture(scope="session", params=["embedded", "served"])
def store(request: pytest.FixtureRequest) -> MlflowStore:
    """Return an embedded store or a served one: the same promises hold for both."""
    if request.param == "embedded":
        found: MlflowStore = request.getfixturevalue("embedded")
        return found
    return MlflowStore(request.getfixturevalue("server"))


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Return the name of a job that no other test uses."""
    return request.node.name.replace("[", "-").replace("]", "")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mlflow_stores.forgive_mlflow(items, Path(__file__).parent)
