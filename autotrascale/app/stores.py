"""Which stores a verb works with: of runs and models `--store`, of metrics `--metrics`; else what the environment says,
else files in this folder."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app import environment_variables
from autotrascale.app.console import note
from autotrascale.domain.errors import InputError

if TYPE_CHECKING:
    from autotrascale.knowledge.decision_journal.journal import DecisionJournal
    from autotrascale.knowledge.mlflow_store import MlflowStore

NO_STORE = "none"
METRICS_VARIABLE = environment_variables.METRICS
STORE_VARIABLES = (environment_variables.STORE, "MLFLOW_TRACKING_URI")  # the first that is set counts

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URI|none",
        help="MLflow store of runs and models; else AUTOTRASCALE_STORE, MLFLOW_TRACKING_URI, ./mlruns/mlflow.db.",
    ),
]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="FILE|none",
        help=f"File that says where real jobs' metrics are kept; else {METRICS_VARIABLE}, ./mlruns/metrics.db.",
    ),
]


def choose_store_uri(option: str | None) -> str | None:
    """None for `none`, and where nobody named a store and MLflow is not installed."""
    from autotrascale.knowledge.mlflow_store import DEFAULT_URI

    said = [option, *(os.environ.get(name) for name in STORE_VARIABLES)]
    uri = next((uri for uri in said if uri), None)
    if uri is None and find_spec("mlflow") is None:
        note("not journalled: mlflow is not installed (pip install 'autotrascale[mlflow]' keeps runs and models)")
        return None
    return None if uri == NO_STORE else uri or DEFAULT_URI


def open_store(option: str | None) -> MlflowStore | None:
    """Connected, so that a store that is away is known before anything is run."""
    from autotrascale.knowledge.mlflow_store import MlflowStore

    uri = choose_store_uri(option)
    if uri is None:
        return None
    store = MlflowStore(uri)
    if uri == option and store.where != store.uri:
        note(f"whoever lists processes can read the password in this command line: set {STORE_VARIABLES[0]} instead")
    if store.is_new:
        note(f"making a new store at {store.uri}: a matter of seconds, once")
    store.client  # noqa: B018 - it connects
    return store


def require_store(option: str | None) -> MlflowStore:
    store = open_store(option)
    if store is None:
        raise InputError(
            "--store",
            "is none, and this verb reads what a store holds",
            seen=NO_STORE,
            remedy="name the store that the runs were written to",
        )
    return store


def require_decisions(option: str | None) -> DecisionJournal:
    """The journal of control loops beside the store, which itself is not opened: that takes a second."""
    from autotrascale.app.loop_session import open_decisions
    from autotrascale.knowledge.mlflow_store import MlflowStore

    uri = choose_store_uri(option)
    decisions = None if uri is None else open_decisions(MlflowStore(uri))
    if decisions is None:
        raise InputError(
            "--store",
            "is none, and loops keep their journal beside a store",
            seen=NO_STORE,
            remedy="name the store that the loop was started with",
        )
    return decisions
