"""The stores: metric points, runs and models, and the claims of processes that are gone."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from autotrascale.app.doctor.checks import Check, CheckContext, Finding, finding_from_error, ok, problem, warning
from autotrascale.app.stores import choose_store_uri
from autotrascale.domain.errors import AuTraScaleError
from autotrascale.monitor.stores.store_settings import InfluxSettings, SqliteSettings, open_store

_SQLITE = "sqlite:///"
_SHOWN = 3
_PATIENCE = 2.0


def checks() -> dict[str, Check]:
    return {"metric store": metrics, "store of runs and models": runs, "claims": claims}


def metrics(case: CheckContext) -> Finding:
    settings = case.metrics
    return _influx(settings) if isinstance(settings, InfluxSettings) else _sqlite(settings)


def _sqlite(settings: SqliteSettings) -> Finding:
    path = Path(settings.path).expanduser()
    if not path.exists():
        return _can_be_made(path)
    if refusal := _locked_or_read_only(path):
        return refusal
    with open_store(settings) as store:
        store.check()
    return ok(f"{path} can be written to")


def _influx(settings: InfluxSettings) -> Finding:
    """Asked past the spool: points may wait there, and a doctor leaves none behind."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(replace(settings, spool_path=str(Path(folder, "spool.db")))) as store,
    ):
        try:
            store.check()
        except AuTraScaleError as error:
            return problem(str(error), "start it, or correct url, bucket, org and token; meanwhile points wait on disk")
    secret = settings.token_env or settings.token_file
    token = f"token from {secret}" if secret else "no token"
    return ok(f"InfluxDB at {settings.url} answers, bucket {settings.bucket}, {token}")


def runs(case: CheckContext) -> Finding | None:
    if find_spec("mlflow") is None:
        return None  # said with the packages
    uri = choose_store_uri(case.store)
    if uri is None:
        return warning("none is in use: runs are neither kept nor resumed", "leave --store and its variables out")
    from autotrascale.knowledge.mlflow_store import MlflowStore

    store = MlflowStore(uri)
    path = Path(store.uri.removeprefix(_SQLITE)) if store.uri.startswith(_SQLITE) else None
    if path is not None and store.is_new:
        return _can_be_made(path)
    if path is not None and (refusal := _locked_or_read_only(path) or _artefacts(path)):
        return refusal
    try:
        jobs = len(store.experiments())
    except AuTraScaleError as error:
        if "out-of-date database schema" in str(error):
            return problem(
                f"{store.where} has the tables of another MLflow", f"copy it, then: mlflow db upgrade {store.where}"
            )
        return finding_from_error(error)
    return ok(f"{store.where} holds {jobs} jobs{'' if path is None else ', can be written to'}")


def claims(case: CheckContext) -> Finding | None:
    """Runs that say they run, and whose process is gone."""
    uri = choose_store_uri(case.store) if find_spec("mlflow") else None
    if uri is None:
        return None
    from autotrascale.domain.errors import RunStoreError
    from autotrascale.knowledge import job_lock
    from autotrascale.knowledge.mlflow_store import MlflowStore

    store = MlflowStore(uri)
    if store.is_new:
        return None
    try:
        found = [run for job in store.experiments() for run in job_lock.search_running(store, job)]
    except RunStoreError:
        return None  # said of the store
    dead = [run.info.run_id for run in found if not job_lock.is_run_alive(run)]
    if not dead:
        return ok(f"{len(found)} runs under way, and each has its process")
    more = f" and {len(dead) - _SHOWN} more" if len(dead) > _SHOWN else ""
    return warning(
        f"the process of {', '.join(dead[:_SHOWN])}{more} is gone",
        f"autotrascale runs resume {dead[0]}, or runs cancel {dead[0]}",
    )


def _can_be_made(path: Path) -> Finding:
    """Nothing is made by looking."""
    above = next(each for each in path.absolute().parents if each.exists())
    if not above.is_dir():
        return problem(f"{path} cannot be made: {above} is no folder", "name another path")
    if not os.access(above, os.W_OK | os.X_OK) or _read_only(above):
        return problem(
            f"{path} cannot be made: {above} cannot be written to", "name another path, or change its rights"
        )
    return ok(f"{path} will be made when it is first written to")


def _locked_or_read_only(path: Path) -> Finding | None:
    """A transaction that is begun and taken back changes nothing."""
    if not path.is_file():
        return problem(f"{path} is no file", "name another path")
    if not os.access(path, os.W_OK) or _read_only(path):
        return problem(f"{path} cannot be written to", "name another path, or change its rights")
    try:
        with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            return warning(
                f"{path} has been locked by another process for {_PATIENCE:g} s",
                "wait, or end the process that holds it",
            )
        return problem(f"{path} cannot be written to: {error}", "look at its rights and its file system")
    except sqlite3.DatabaseError as error:
        return problem(f"{path} is damaged or no database: {error}", "move it away, or restore a copy")
    return None


def _artefacts(database: Path) -> Finding | None:
    folder = database.parent / "artifacts"
    if folder.exists() and (not os.access(folder, os.W_OK | os.X_OK) or _read_only(folder)):
        return problem(f"{folder} cannot be written to", "change its rights")
    return None


def _read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
