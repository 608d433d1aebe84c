"""Stores of a verb: runs and models in MLflow, decisions of control loops in a journal beside it.

An option of the command line wins over the environment; the default is a file in ./mlruns.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from autotrascale.app.console import note
from autotrascale.app.environment_variables import STORE, STORE_VARIABLES
from autotrascale.domain.errors import InputError
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.mlflow_store import DEFAULT_URI, MlflowStore

NO_STORE = "none"
SQLITE_PREFIX = "sqlite:///"
DEFAULT_FOLDER = Path("mlruns")


def find_named_store(option: str | None) -> str | None:
    """Return the URI from `option` or the environment, `none` included; None if neither names a store."""
    candidates = [option, *(os.environ.get(name) for name in STORE_VARIABLES)]
    return next((uri for uri in candidates if uri), None)


def choose_store_uri(option: str | None) -> str | None:
    """Return the URI of the MLflow store, or None if the user chose `none` or MLflow is not installed."""
    uri = find_named_store(option)
    if uri is None and find_spec("mlflow") is None:
        note("runs are not journalled: mlflow is not installed; pip install 'autotrascale[mlflow]'")
        return None
    return None if uri == NO_STORE else uri or DEFAULT_URI


def open_store(option: str | None) -> MlflowStore | None:
    """Return a connected store, or None as `choose_store_uri` does.

    Raises:
        RunStoreError: the store does not answer. The error comes before any trial runs.
    """
    uri = choose_store_uri(option)
    if uri is None:
        return None
    store = MlflowStore(uri)
    if uri == option and store.where != store.uri:
        note(f"--store holds a password, which `ps` shows to all users of this machine: set {STORE} instead")
    if store.is_new:
        note(f"creating the store {store.uri}, which takes some seconds")
    store.client  # noqa: B018 - connects
    return store


def require_store(option: str | None) -> MlflowStore:
    """Return a connected store.

    Raises:
        InputError: no store is in use.
    """
    store = open_store(option)
    if store is None:
        raise InputError(
            "--store",
            "is none, but this verb reads a store",
            seen=NO_STORE,
            remedy="name the store that the runs were written to",
        )
    return store


def open_decisions(store: MlflowStore | None) -> DecisionJournal | None:
    """Return the journal of control loops, or None without a store.

    The journal is a file beside a SQLite store, and in ./mlruns for an MLflow server.
    """
    if store is None:
        return None
    is_file = store.uri.startswith(SQLITE_PREFIX)
    folder = Path(store.uri.removeprefix(SQLITE_PREFIX)).parent if is_file else DEFAULT_FOLDER
    return DecisionJournal(folder / "decisions.db")


def require_decisions(option: str | None) -> DecisionJournal:
    """Return the journal of control loops. The MLflow store itself stays closed: opening takes a second.

    Raises:
        InputError: no store is in use.
    """
    uri = choose_store_uri(option)
    decisions = None if uri is None else open_decisions(MlflowStore(uri))
    if decisions is None:
        raise InputError(
            "--store",
            "is none, but control loops keep their journal beside a store",
            seen=NO_STORE,
            remedy="name the store that the loop was started with",
        )
    return decisions


def live_job_folder(decisions: DecisionJournal | None, name: str) -> Path:
    """Return the folder in which processes of the job `name` leave state for later ones."""
    parent = DEFAULT_FOLDER if decisions is None else decisions.path.parent
    return parent / "live" / "".join(c if c.isalnum() or c in "-_" else "_" for c in name)
