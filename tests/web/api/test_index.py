"""The index follows changes of the store by this server, by other processes and by hand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotrascale.domain.errors import InputError, RunStoreError
from autotrascale.knowledge import job_lock, run_history
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.run_journal import RunJournal
from autotrascale.web.api import run_index as module
from autotrascale.web.api.run_index import RunIndex
from tests.knowledge import mlflow_stores


@pytest.fixture
def own(empty_database: Path) -> Iterator[MlflowStore]:
    with mlflow_stores.quick_folder() as folder:
        yield mlflow_stores.embedded(empty_database, folder)


def finished(store: MlflowStore, name: str) -> str:
    job = mlflow_stores.job(name)
    with RunJournal.start(store, mlflow_stores.opening(job)) as journal:
        journal.conclude(mlflow_stores.tuned(job, journal))
        journal.finish()
        return journal.run_id


def listed(index: RunIndex) -> list[run_history.RunSummary | None]:
    return [index.get(run_id) for run_id in index.page(None, None, None, 100)[0]]


def test_each_refresh_finds_changes_of_other_processes(own: MlflowStore) -> None:
    index = RunIndex(own)
    index.refresh_all()
    assert listed(index) == []
    first = finished(own, "a")
    index.refresh()
    assert listed(index) == run_history.list_runs(own)
    job = mlflow_stores.job("b")
    with RunJournal.start(own, mlflow_stores.opening(job)) as journal:
        index.refresh()
        assert index.states() == {"finished": 1, "running": 1}
        mlflow_stores.tuned(job, journal)
        index.refresh()
        assert index.evaluated_at is not None
        assert listed(index) == run_history.list_runs(own)
        job_lock.cancel_run(own, run_history.find_run(own, journal.run_id))
    index.refresh()
    assert listed(index) == run_history.list_runs(own)
    assert index.states() == {"finished": 1, "interrupted": 1}
    own.client.delete_run(first)
    index.refresh_all()
    assert listed(index) == run_history.list_runs(own)
    assert index.get(first) is None


def test_a_run_that_ended_before_the_refresh_is_found(own: MlflowStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLACK_MILLISECONDS", -1_000_000_000)
    index = RunIndex(own)
    with RunJournal.start(own, mlflow_stores.opening(mlflow_stores.job("a"))) as journal:
        index.refresh_all()
        assert index.states() == {"running": 1}
    index.refresh()
    assert index.states() == {"interrupted": 1}
    assert index.get("f" * 32) is None
    assert [each.run_id for each in run_history.list_runs(own)] == [journal.run_id]


def test_the_index_recovers_from_a_store_failure(own: MlflowStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise RunStoreError("the store is away")

    monkeypatch.setattr(module, "REFRESH_SECONDS", 0.01)
    index = RunIndex(own)
    index.open()
    with monkeypatch.context() as patch:
        patch.setattr(index, "refresh", away)
        _until(lambda: index.error == "the store is away")
        patch.setattr(index, "refresh", lambda: 1 / 0)
        _until(lambda: index.error == "ZeroDivisionError: division by zero")
    _until(lambda: index.error is None)
    index.close()


@pytest.mark.parametrize("cursor", ["", "a", "%%%", "é", "MTI", "/" * 200])
def test_an_unknown_cursor_is_refused(own: MlflowStore, cursor: str) -> None:
    index = RunIndex(own)
    with pytest.raises(InputError, match="cursor"):
        index.page(None, None, cursor, 5)


def _until(true: object) -> None:
    until = time.monotonic() + 20
    while not true():  # type: ignore[operator]
        assert time.monotonic() < until
        time.sleep(0.01)
