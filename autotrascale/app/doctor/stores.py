"""The stores of metrics, runs and models, and runs whose process is gone."""

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
MAX_SHOWN = 3  # runs
BUSY_SECONDS = 2.0  # how long to wait for a locked database


def checks() -> dict[str, Check]:
    return {"metric store": metrics, "store of runs and models": runs, "run processes": run_processes}


def metrics(context: CheckContext) -> Finding:
    settings = context.metrics
    return _influx(settings) if isinstance(settings, InfluxSettings) else _sqlite(settings)


def _sqlite(settings: SqliteSettings) -> Finding:
    path = Path(settings.path).expanduser()
    if not path.exists():
        return _check_creatable(path)
    if refusal := _check_writable(path):
        return refusal
    with open_store(settings) as store:
        store.check()
    return ok(f"{path} is writable")


def _influx(settings: InfluxSettings) -> Finding:
    with (  # a spool of its own, as the usual one may hold waiting points
        tempfile.TemporaryDirectory() as folder,
        open_store(replace(settings, spool_path=str(Path(folder, "spool.db")))) as store,
    ):
        try:
            store.check()
        except AuTraScaleError as error:
            return problem(
                str(error), "start it, or correct url, bucket, org and token; until then points wait on disk"
            )
    secret = settings.token_env or settings.token_file
    token = f"token from {secret}" if secret else "no token"
    return ok(f"InfluxDB at {settings.url} answers, bucket {settings.bucket}, {token}")


def runs(context: CheckContext) -> Finding | None:
    if find_spec("mlflow") is None:
        return None  # reported with the packages
    uri = choose_store_uri(context.store)
    if uri is None:
        return warning(
            "no store is in use: runs are not kept and cannot be resumed", "leave out --store and its variables"
        )
    from autotrascale.knowledge.mlflow_store import MlflowStore

    store = MlflowStore(uri)
    path = Path(store.uri.removeprefix(_SQLITE)) if store.uri.startswith(_SQLITE) else None
    if path is not None and store.is_new:
        return _check_creatable(path)
    if path is not None and (refusal := _check_writable(path) or _check_artefacts(path)):
        return refusal
    try:
        jobs = len(store.experiments())
    except AuTraScaleError as error:
        if "out-of-date database schema" in str(error):
            return problem(
                f"{store.where} has the schema of another MLflow version",
                f"copy it, then run mlflow db upgrade {store.where}",
            )
        return finding_from_error(error)
    return ok(f"{store.where} has {jobs} jobs{'' if path is None else ', and is writable'}")


def run_processes(context: CheckContext) -> Finding | None:
    """Look for runs that are marked as running although their process is gone."""
    uri = choose_store_uri(context.store) if find_spec("mlflow") else None
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
        return None  # reported for the store
    dead = [run.info.run_id for run in found if not job_lock.is_run_alive(run)]
    if not dead:
        return ok(f"{len(found)} runs are under way, each with a living process")
    more = f" and {len(dead) - MAX_SHOWN} more" if len(dead) > MAX_SHOWN else ""
    return warning(
        f"the process of {', '.join(dead[:MAX_SHOWN])}{more} is gone",
        f"run autotrascale runs resume {dead[0]}, or runs cancel {dead[0]}",
    )


def _check_creatable(path: Path) -> Finding:
    above = next(each for each in path.absolute().parents if each.exists())
    if not above.is_dir():
        return problem(f"{path} cannot be created: {above} is not a folder", "use another path")
    if not os.access(above, os.W_OK | os.X_OK) or _is_read_only(above):
        return problem(
            f"{path} cannot be created: {above} is not writable", "use another path, or change its permissions"
        )
    return ok(f"{path} will be created at the first write")


def _check_writable(path: Path) -> Finding | None:
    """Return a problem if the database cannot be written to. An empty transaction changes nothing."""
    if not path.is_file():
        return problem(f"{path} is not a file", "use another path")
    if not os.access(path, os.W_OK) or _is_read_only(path):
        return problem(f"{path} is not writable", "use another path, or change its permissions")
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            return warning(
                f"{path} was locked by another process for {BUSY_SECONDS:g} s", "wait, or end the process that holds it"
            )
        return problem(f"{path} is not writable: {error}", "check its permissions and its file system")
    except sqlite3.DatabaseError as error:
        return problem(f"{path} is damaged or not a database: {error}", "move it away, or restore a copy")
    return None


def _check_artefacts(database: Path) -> Finding | None:
    folder = database.parent / "artifacts"
    if folder.exists() and (not os.access(folder, os.W_OK | os.X_OK) or _is_read_only(folder)):
        return problem(f"{folder} is not writable", "change its permissions")
    return None


def _is_read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
