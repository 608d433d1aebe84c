"""Opening a store: the files that it makes, the addresses that it refuses, and the silence of MLflow."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from autotrascale.domain.errors import InputError, RunStoreError
from autotrascale.knowledge.mlflow_store import MlflowStore
from tests.knowledge import mlflow_stores


def test_a_store_that_is_away_is_one_line_and_at_once() -> None:
    with pytest.raises(RunStoreError, match=r"http://127.0.0.1:1: no MLflow server answers: .*; start it, or name"):
        MlflowStore("http://127.0.0.1:1").client  # noqa: B018 - it connects


def test_a_store_must_outlive_the_process() -> None:
    for uri in ("sqlite://", "sqlite:///:memory:", "sqlite:///"):
        if uri == "sqlite://":
            continue
        with pytest.raises(InputError, match="needs a file"):
            MlflowStore(uri)


def test_a_store_stays_the_same_when_the_process_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert MlflowStore().uri == f"sqlite:///{tmp_path}/mlruns/mlflow.db"


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunStoreError, match="the store cannot be made"):
        MlflowStore(f"sqlite:///{tmp_path}/file/mlflow.db").client  # noqa: B018 - it connects


def test_a_file_that_is_no_database_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text("this is a shopping list" * 100)
    with pytest.raises(RunStoreError, match=r"mlflow.db: .*not a database"):
        MlflowStore(f"sqlite:///{tmp_path}/mlflow.db").client  # noqa: B018 - it connects


def test_a_new_store_is_whole_or_not_there(empty_database: Path) -> None:
    """A half-made store of a killed process does no harm."""
    with sqlite3.connect(empty_database) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)
    connection.close()
    assert not list(empty_database.parent.glob("*.new"))


def test_two_stores_of_one_file_do_not_wait_for_each_other(empty_database: Path, tmp_path: Path) -> None:
    assert MlflowStore(f"sqlite:///{tmp_path}/mlflow.db").is_new
    first = mlflow_stores.embedded(empty_database, tmp_path)
    assert not first.is_new
    second = MlflowStore(first.uri)
    assert first.experiment("job") == second.experiment("job")


def test_a_deleted_experiment_is_said(embedded: MlflowStore, name: str) -> None:
    embedded.client.delete_experiment(embedded.experiment(name))
    with pytest.raises(InputError, match=r"is deleted, .*; mlflow experiments restore -x"):
        MlflowStore(embedded.uri).experiment(name)


def test_mlflow_says_nothing(tmp_path: Path, empty_database: Path) -> None:
    """In its own process, because a message at import is printed once."""
    mlflow_stores.embedded(empty_database, tmp_path)
    code = (
        "import sys\n"
        "from autotrascale.knowledge.mlflow_store import MlflowStore\n"
        "assert 'mlflow' not in sys.modules\n"
        f"store = MlflowStore('sqlite:///{tmp_path}/mlflow.db')\n"
        "assert 'mlflow' not in sys.modules\n"
        "from tests.knowledge.mlflow_stores import job, learned\n"
        "from autotrascale.knowledge.model_library import ModelLibrary\n"
        "library = ModelLibrary(store)\n"
        "library.load(library.import_model(*learned(job('quiet'))))\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW", "PYTEST"))}
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
