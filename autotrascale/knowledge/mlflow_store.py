"""One MLflow store, embedded or served, as the journal and the library use it.

Everything goes through `Store.call`, which turns MLflow's errors into one line and tries once more where a store was
only busy. MLflow is imported when a store is opened and not before: that takes a second. It is kept from writing to
stderr, which is ours, and from reporting home.

An embedded store is one SQLite file with the artefacts beside it. A new one is made under another name and then
renamed, so that a process killed half-way through MLflow's migrations leaves nothing that is neither new nor old.
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
PAGE = 1000

_SQLITE = "sqlite:///"
_PROBE_SECONDS = 5.0
_BUSY_PAUSES = (0.2, 0.5, 1.0)

STORE_RETRY = StoreRetry()  # of this process


class MlflowStore:
    """`sqlite:///path.db`, `http://host:port`, or any other tracking URI of MLflow's."""

    def __init__(self, uri: str = DEFAULT_URI) -> None:
        self.uri = _absolute(uri)
        self._experiments: dict[str, str] = {}

    @property
    def is_new(self) -> bool:
        """Whether the first use will make it."""
        return self.uri.startswith(_SQLITE) and not os.path.exists(self.uri.removeprefix(_SQLITE))

    @property
    def where(self) -> str:
        """The address as it may be shown: without user and password."""
        return hide_secrets(self.uri)

    @cached_property
    def client(self) -> MlflowClient:
        """The connection, made on first use."""
        _quieten()
        if self.uri.startswith(_SQLITE):
            _make_file(Path(self.uri.removeprefix(_SQLITE)))
        elif self.uri.startswith(("http://", "https://")):
            _probe(self.where)  # whoever is asked for a password is there too
        from mlflow import MlflowClient

        try:
            return self.call(MlflowClient, self.uri, self.uri)
        except AuTraScaleError:
            raise
        except Exception as error:  # while connecting, MLflow lets the errors of its database drivers through
            raise self._failed(error) from error

    def call(self, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        from mlflow.exceptions import MlflowException

        pauses: Iterator[float] | None = None
        while True:
            try:
                done = action(*args, **kwargs)
                STORE_RETRY.passed()
                return done
            except (MlflowException, OSError) as error:
                failed = self._failed(error)
                pauses = pauses or _pauses(error, str(failed))
                pause = next(pauses, None)
                if pause is None:
                    raise failed from error
                time.sleep(pause)

    def _failed(self, error: BaseException) -> RunStoreError:
        return RunStoreError(f"{self.where}: {self._without_password(_with_remedy(error))}")

    def _without_password(self, text: str) -> str:
        """A library may repeat the address that it was given, whole or in part."""
        text = text.replace(self.uri, self.where)
        password = urllib.parse.urlsplit(self.uri).password
        for secret in (password, password and urllib.parse.unquote(password)):
            text = text.replace(secret, "***") if secret else text
        return text

    def pages(self, action: Callable[..., PagedList[T]], *args: Any, **kwargs: Any) -> Iterator[T]:
        """All results of a search, page after page."""
        token: str | None = None
        while True:
            page = self.call(action, *args, page_token=token, **kwargs)
            yield from page
            token = page.token
            if not token:
                return

    # -- experiments --------------------------------------------------------------------------------------------------

    def experiment(self, job: str) -> str:
        """The id of the job's experiment, which is made where there is none."""
        if job not in self._experiments:
            self._experiments[job] = self.find_experiment(job) or self._make_experiment(EXPERIMENT + job)
        return self._experiments[job]

    def find_experiment(self, job: str) -> str | None:
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
        """The ids of the experiments of all jobs."""
        found = self.pages(self.client.search_experiments, filter_string=f"name LIKE '{EXPERIMENT}%'", max_results=PAGE)
        return [str(experiment.experiment_id) for experiment in found]

    def _make_experiment(self, name: str) -> str:
        try:
            return str(self.call(self.client.create_experiment, name, artifact_location=self._artefacts))
        except RunStoreError:
            other = self.find_experiment(name.removeprefix(EXPERIMENT))  # somebody was faster
            if other is None:
                raise
            return other

    @property
    def _artefacts(self) -> str | None:
        """Beside the database. A server has its own idea, and so has MLflow for everything else."""
        if not self.uri.startswith(_SQLITE):
            return None
        return str(Path(self.uri.removeprefix(_SQLITE)).parent / "artifacts")

    # -- artefacts ----------------------------------------------------------------------------------------------------

    def write_json(self, run_id: str, name: str, value: object) -> None:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        self.call(self.client.log_text, run_id, text, name)

    def read_folder(self, run_id: str, name: str) -> dict[str, Any]:
        """Every JSON file of a folder, by its name."""
        with tempfile.TemporaryDirectory() as folder, quiet_warnings():
            path = Path(self.call(self.client.download_artifacts, run_id, name, folder))
            return {each.name: parse_json(each, f"run {run_id}: {name}/{each.name}") for each in path.glob("*.json")}

    def read_json(self, run_id: str, name: str) -> Any:
        with tempfile.TemporaryDirectory() as folder, quiet_warnings():
            path = self.call(self.client.download_artifacts, run_id, name, folder)
            return parse_json(Path(path), f"run {run_id}: {name}")


def quote_name(name: str) -> str:
    """MLflow allows neither / nor : in the name of a model, and its filters no quotes."""
    for character in "%/:'\"@":
        name = name.replace(character, f"%{ord(character):02X}")
    return name


def parse_json(path: Path, place: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunStoreError(f"{place} is damaged: {_one_line(error)}") from None


@contextmanager
def quiet_warnings() -> Iterator[None]:
    """For MLflow's parts that warn of what concerns nobody here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _quieten() -> None:
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    try:
        with quiet_warnings():
            import mlflow  # noqa: F401 - it sets up its loggers while it is imported
    except ModuleNotFoundError as error:  # pragma: no cover - mlflow is only missing where it was left out on purpose
        raise InputError(
            "store",
            f"needs a package that is not installed: {error.name}",
            remedy="pip install 'autotrascale[mlflow]', or --store none",
        ) from None
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what fails is raised too, and said in one line by us


def _pauses(error: BaseException, problem: str) -> Iterator[float]:
    """Before each further try: short ones where a store was only busy, then as long as this process has patience."""
    if getattr(error, "error_code", "") == "TEMPORARILY_UNAVAILABLE":
        yield from _BUSY_PAUSES
    yield from STORE_RETRY.pauses(problem, error)


def hide_secrets(uri: str) -> str:
    """A password may hold what an address may not, and a query may hold a password: less is shown rather than more."""
    scheme, slashes, rest = uri.partition("://")
    if scheme.startswith("sqlite"):
        return uri
    path, question, _ = rest.rpartition("@")[2].partition("?")
    return scheme + slashes + path + question + ("***" if question else "")


def _absolute(uri: str) -> str:
    """An embedded store stays the one it was when the process changes its folder."""
    if not uri.startswith("sqlite:"):
        return uri
    path = uri.removeprefix(_SQLITE)
    if not path or path == uri or path.startswith(":memory:"):
        raise InputError(
            "store", "needs a file, or nothing would outlive this process", seen=uri, remedy=f"use {DEFAULT_URI}"
        )
    return _SQLITE + str(Path(path).absolute())


def _make_file(path: Path) -> None:
    """A store that is there is left as it is, and looked at: MLflow would try for minutes what cannot be opened."""
    try:
        if _is_missing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with hold_lock(path.with_name(path.name + ".lock")):
                if _is_missing(path):  # still, now that nobody else is making it
                    _make_new(path)
        with closing(sqlite3.connect(path, timeout=_PROBE_SECONDS)) as connection:
            connection.execute("PRAGMA schema_version")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):  # that is a matter of waiting
            raise RunStoreError(f"{path}: the store cannot be opened: {_with_remedy(error)}") from None
    except sqlite3.DatabaseError as error:
        raise RunStoreError(f"{path}: is damaged or no store: {_one_line(error)}") from None
    except OSError as error:
        raise RunStoreError(f"{path}: the store cannot be made: {_with_remedy(error)}") from None


def _is_missing(path: Path) -> bool:
    return not path.exists() or path.stat().st_size == 0


def _make_new(path: Path) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with quiet_warnings():
        store = SqlAlchemyStore(_SQLITE + str(fresh), str(path.parent / "artifacts"))  # type: ignore[no-untyped-call]
        store._dispose_engine()  # type: ignore[no-untyped-call]
    with suppress(sqlite3.Error):  # a file system that cannot do WAL works without
        connection = sqlite3.connect(fresh)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.close()
    fresh.replace(path)


def _probe(uri: str) -> None:
    """MLflow itself would retry for minutes before it says that nobody is there."""
    try:
        with urllib.request.urlopen(f"{uri.rstrip('/')}/health", timeout=_PROBE_SECONDS):
            return
    except urllib.error.HTTPError:
        return  # somebody is there
    except (OSError, ValueError, http.client.HTTPException) as error:  # the last: an address that is none
        said = _one_line(error)
        raise RunStoreError(
            f"{uri}: no MLflow server answers: {said}; start it, or name another store with --store"
        ) from None


def _with_remedy(error: BaseException) -> str:
    what = find_remedy(error)
    return f"{_one_line(error)}{what and '; '}{what}"


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()).partition(" [SQL: ")[0].partition(" (Background on this error at")[0]
    text = text.removeprefix("(sqlite3.OperationalError) ").removeprefix("(sqlite3.DatabaseError) ")
    return text if len(text) <= 300 else text[:297] + "..."
