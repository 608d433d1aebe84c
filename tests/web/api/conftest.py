"""A store, job files and a server of their own for the tests of the HTTP service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.web.api.job_catalog import JobCatalog
from autotrascale.web.api.server_state import ServerState
from autotrascale.web.app import create_app
from tests.knowledge import mlflow_stores
from tests.web.api.clients import TestClient


@pytest.fixture(scope="session")
def empty_database(pytestconfig: pytest.Config) -> Path:
    return mlflow_stores.template(pytestconfig)


@pytest.fixture(scope="module")
def store(empty_database: Path) -> Iterator[MlflowStore]:
    with mlflow_stores.quick_folder() as folder:
        yield mlflow_stores.embedded(empty_database, folder)


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two job files and a broken file."""
    folder = tmp_path_factory.mktemp("configs")
    mlflow_stores.job_file(folder, "small")
    mlflow_stores.job_file(folder, "other")
    (folder / "broken.yaml").write_text("version: 1\njob: broken\n")
    (folder.parent / "outside.yaml").write_text((folder / "small.yaml").read_text())
    return folder


@pytest.fixture(scope="module")
def state(store: MlflowStore, configs: Path) -> ServerState:
    """Return the state of a server whose queue accepts runs and starts none."""
    return ServerState.of(store, JobCatalog(configs), "test", parallel_runs=0, limit=50)


@pytest.fixture(scope="module")
def client(state: ServerState) -> Iterator[TestClient]:
    with TestClient(create_app(state), base_url="http://127.0.0.1", raise_server_exceptions=False) as opened:
        yield opened


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mlflow_stores.forgive_mlflow(items, Path(__file__).parent)
