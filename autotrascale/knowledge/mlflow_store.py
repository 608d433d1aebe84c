"""The MLflow store that tuning runs and benefit models are kept in, embedded or on a server.

All calls go through `MlflowStore.call`, which turns MLflow's errors into one line and retries where a store was busy.
MLflow is imported when a store is opened, as the import takes a second. It must neither write to stderr nor report
usage.

An embedded store is one SQLite file with the artefacts beside it. A new file is made under another name and then
renamed: a process that is killed during MLflow's migrations leaves no half-made store.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import sqlite3
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from autotrascale.atomic_files import hold_lock
from autotrascale.domain.errors import AuTraScaleError, InputError, RunStoreError
from autotrascale.knowledge.store_retry import StoreRetry, find_remedy

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.store.entities.paged_list import PagedList

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_URI = "sqlite:///mlruns/mlflow.db"
EXPERIMENT = "autotrascale/"  # followed by the job's name
PAGE = 1000  # results of one request

_SQLITE = "sqlite:///"
_PROBE_SECONDS = 5.0
_BUSY_PAUSES = (0.2, 0.5, 1.0)  # seconds
_MAX_ERROR_LENGTH = 300  # characters

STORE_RETRY = StoreRetry()  # of this process


class MlflowStore:
    """A store by its tracking URI: `sqlite:///path.db`, `http://host:port`, or another URI that MLflow accepts."""

    def __init__(self, uri: str = DEFAULT_URI) -> None:
        self.uri = _absolute_uri(uri)
        self._experiments: dict[str, str] = {}

    @property
    def is_new(self) -> bool:
        """True when the first use will make the store."""
        return self.uri.startswith(_SQLITE) and not os.path.exists(self.uri.removeprefix(_SQLITE))

    @property
    def where(self) -> str:
        """The address without user and password, for display."""
        return hide_secrets(self.uri)

    @cached_property
    def client(self) -> MlflowClient:
        """The connection, made on first use."""
        _silence_mlflow()
        if self.uri.startswith(_SQLITE):
            _open_file(Path(self.uri.removeprefix(_SQLITE)))
        elif self.uri.startswith(("http://", "https://")):
            _probe_server(self.where)  # an answer that asks for a password proves a server too
        from mlflow import MlflowClient

        try:
            return self.call(MlflowClient, self.uri, self.uri)
        except AuTraScaleError:
            raise
        except Exception as error:  # while it connects, MLflow passes on the errors of its database drivers
            raise self._store_error(error) from error

    def call(self, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of an MLflow call. Raise `RunStoreError` when it failed and retries did not help."""
        from mlflow.exceptions import MlflowException

        pauses: Iterator[float] | None = None
        while True:
            try:
                result = action(*args, **kwargs)
                STORE_RETRY.report_success()
                return result
            except (MlflowException, OSError) as error:
                store_error = self._store_error(error)
                pauses = pauses or _retry_pauses(error, str(store_error))
                pause = next(pauses, None)
                if pause is None:
                    raise store_error from error
                time.sleep(pause)

    def _store_error(self, error: BaseException) -> RunStoreError:
        return RunStoreError(f"{self.where}: {self._hide_password(_with_remedy(error))}")

    def _hide_password(self, text: str) -> str:
        """Remove the password from a library's message, which may quote all or a part of the address."""
        text = text.replace(self.uri, self.where)
        password = urllib.parse.urlsplit(self.uri).password
        for secret in (password, password and urllib.parse.unquote(password)):
            text = text.replace(secret, "***") if secret else text
        return text

    def pages(self, action: Callable[..., PagedList[T]], *args: Any, **kwargs: Any) -> Iterator[T]:
        """Yield all results of a search, page by page."""
        token: str | None = None
        while True:
            page = self.call(action, *args, page_token=token, **kwargs)
            yield from page
            token = page.token
            if not token:
                return

    # -- experiments --------------------------------------------------------------------------------------------------

    def experiment(self, job: str) -> str:
        """Return the id of a job's experiment, and make the experiment if it is missing."""
        if job not in self._experiments:
            self._experiments[job] = self.find_experiment(job) or self._make_experiment(job)
        return self._experiments[job]

    def find_experiment(self, job: str) -> str | None:
        """Return the id of a job's experiment, or None. Raise `InputError` if the experiment is deleted."""
        found = self.call(self.client.get_experiment_by_name, EXPERIMENT + job)
        if found is None:
            return None
        if found.lifecycle_stage != "active":
            raise InputError(
                f"experiment {found.name}",
                "is deleted, so runs can be neither read nor added",
                remedy=f"mlflow experiments restore -x {found.experiment_id}",
            )
        return str(found.experiment_id)

    def experiments(self) -> list[str]:
        """Return the ids of the experiments of all jobs."""
        found = self.pages(self.client.search_experiments, filter_string=f"name LIKE '{EXPERIMENT}%'", max_results=PAGE)
        return [str(experiment.experiment_id) for experiment in found]

    def _make_experiment(self, job: str) -> str:
        # A server and MLflow's other stores choose the place of artefacts themselves.
        embedded = self.uri.startswith(_SQLITE)
        artefacts = str(Path(self.uri.removeprefix(_SQLITE)).parent / "artifacts") if embedded else None
        try:
            return str(self.call(self.client.create_experiment, EXPERIMENT + job, artifact_location=artefacts))
        except RunStoreError:
            made_meanwhile = self.find_experiment(job)
            if made_meanwhile is None:
                raise
            return made_meanwhile

    # -- artefacts ----------------------------------------------------------------------------------------------------

    def write_json(self, run_id: str, name: str, value: object) -> None:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        self.call(self.client.log_text, run_id, text, name)

    def read_folder(self, run_id: str, name: str) -> dict[str, Any]:
        """Return the content of every JSON file of a folder, by file name."""
        with tempfile.TemporaryDirectory() as folder, quiet_warnings():
            path = Path(self.call(self.client.download_artifacts, run_id, name, folder))
            return {each.name: parse_json(each, f"run {run_id}: {name}/{each.name}") for each in path.glob("*.json")}

    def read_json(self, run_id: str, name: str) -> Any:
        with tempfile.TemporaryDirectory() as folder, quiet_warnings():
            path = self.call(self.client.download_artifacts, run_id, name, folder)
            return parse_json(Path(path), f"run {run_id}: {name}")


def quote_name(name: str) -> str:
    """Return a name in the characters that a model's name and MLflow's filters allow."""
    for character in "%/:'\"@\\":
        name = name.replace(character, f"%{ord(character):02X}")
    return name


def parse_json(path: Path, place: str) -> Any:
    """Return the content of a JSON file. Raise `RunStoreError` naming `place` if the file is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunStoreError(f"{place} is damaged: {_one_line(error)}") from None


@contextmanager
def quiet_warnings() -> Iterator[None]:
    """Suppress MLflow's warnings, which do not concern the user of this program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def hide_secrets(uri: str) -> str:
    """Return an address without user, password and query, for display. A query may hold a password too."""
    scheme, slashes, rest = uri.partition("://")
    if scheme.startswith("sqlite"):
        return uri
    path, question, _ = rest.rpartition("@")[2].partition("?")
    return scheme + slashes + path + question + ("***" if question else "")


def _silence_mlflow() -> None:
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    try:
        with quiet_warnings():
            import mlflow  # noqa: F401 - the import sets up its loggers
    except ModuleNotFoundError as error:  # pragma: no cover - an installation without MLflow
        raise InputError(
            "store",
            f"needs a package that is not installed: {error.name}",
            remedy="pip install 'autotrascale[mlflow]', or --store none",
        ) from None
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # errors are raised too, and reported in one line


def _retry_pauses(error: BaseException, problem: str) -> Iterator[float]:
    if getattr(error, "error_code", "") == "TEMPORARILY_UNAVAILABLE":
        yield from _BUSY_PAUSES
    yield from STORE_RETRY.pauses(problem, error)


def _absolute_uri(uri: str) -> str:
    """Return the address with an absolute path, so that the process may change its folder."""
    if not uri.startswith("sqlite:"):
        return uri
    path = uri.removeprefix(_SQLITE)
    if not path or path == uri or path.startswith(":memory:"):
        problem = "needs a file, or nothing is kept after this process"
        raise InputError("store", problem, seen=uri, remedy=f"use {DEFAULT_URI}")
    return _SQLITE + str(Path(path).absolute())


def _open_file(path: Path) -> None:
    """Make the store's file if it is missing, and check that it opens: MLflow would retry for minutes."""
    try:
        if _is_missing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with hold_lock(path.with_name(path.name + ".lock")):
                if _is_missing(path):  # another process may have made it before it released the lock
                    _make_file(path)
        with closing(sqlite3.connect(path, timeout=_PROBE_SECONDS)) as connection:
            connection.execute("PRAGMA schema_version")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):  # a locked file is retried later
            raise RunStoreError(f"{path}: the store cannot be opened: {_with_remedy(error)}") from None
    except sqlite3.DatabaseError as error:
        raise RunStoreError(f"{path}: is damaged or not a store: {_one_line(error)}") from None
    except OSError as error:
        raise RunStoreError(f"{path}: the store cannot be made: {_with_remedy(error)}") from None


def _is_missing(path: Path) -> bool:
    return not path.exists() or path.stat().st_size == 0


def _make_file(path: Path) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with quiet_warnings():
        store = SqlAlchemyStore(_SQLITE + str(fresh), str(path.parent / "artifacts"))  # type: ignore[no-untyped-call]
        store._dispose_engine()  # type: ignore[no-untyped-call]
    with suppress(sqlite3.Error):  # some file systems cannot do WAL, and work without it
        connection = sqlite3.connect(fresh)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.close()
    fresh.replace(path)


def _probe_server(uri: str) -> None:
    """Raise `RunStoreError` if no server answers. MLflow itself would retry for minutes."""
    try:
        with urllib.request.urlopen(f"{uri.rstrip('/')}/health", timeout=_PROBE_SECONDS):
            return
    except urllib.error.HTTPError:
        return  # a server that refuses is a server
    except (OSError, ValueError, http.client.HTTPException) as error:  # the last one: not a valid address
        problem = f"{uri}: no MLflow server answers: {_one_line(error)}"
        raise RunStoreError(f"{problem}; start it, or name another store with --store") from None


def _with_remedy(error: BaseException) -> str:
    remedy = find_remedy(error)
    return f"{_one_line(error)}{remedy and '; '}{remedy}"


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()).partition(" [SQL: ")[0].partition(" (Background on this error at")[0]
    text = text.removeprefix("(sqlite3.OperationalError) ").removeprefix("(sqlite3.DatabaseError) ")
    return text if len(text) <= _MAX_ERROR_LENGTH else text[: _MAX_ERROR_LENGTH - 3] + "..."
