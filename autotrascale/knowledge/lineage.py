"""What MLflow draws and shows of runs and models beside their numbers: what went into a run, what came out of it, which
model led to which, and what each of them is in words.

A registered version is of a *logged model* of MLflow's, which knows the run that made it; a run names the logged models
that it started from. So the way from a model over a run to the next model is there for whoever follows it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autotrascale.domain.errors import RunStoreError
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.model_card import ModelCard
from autotrascale.knowledge.run_json import RunOpening
from autotrascale.plan.formatting import format_amount, format_seconds
from autotrascale.plan.search.benefit_model import BenefitModel

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel

DESCRIPTION_TAG = "mlflow.note.content"  # the description of a run
LOGGED_MODEL_TAG = "model_id"  # tag of a version: MLflow's own stores do not keep which logged model it is of
_VERSIONS = "mlflow.modelVersions"

_VERSION = re.compile(r"models:/(?P<name>[^/@]+)/(?P<version>\d+)")
_MOST_JSON = 10_000  # characters that MLflow takes of what a source or a schema says


def log_inputs(store: MlflowStore, run_id: str, opening: RunOpening) -> None:
    """The job as it was read, and the stored models that the run starts from."""
    from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelInput

    job = opening.job
    about = {
        "operators": {name: list(operator.upstream) for name, operator in job.topology.operators.items()},
        "source_rates": dict(job.source_rates),
        "latency_target_seconds": job.target.latency_seconds,
        "p_max": job.p_max,
    }
    text = json.dumps(about, ensure_ascii=False)
    dataset = Dataset(
        name=job.name[:450],
        digest=opening.digest,
        source_type="job file",
        source=json.dumps({"path": opening.job_path}, ensure_ascii=False),
        schema=text if len(text) <= _MOST_JSON else None,
    )
    models = [LoggedModelInput(found) for name in opening.sources if (found := _logged_model(store, name.name))]
    store.call(
        store.client.log_inputs, run_id, [DatasetInput(dataset, [InputTag("mlflow.data.context", "job")])], models
    )


def log_model(store: MlflowStore, folder: Path, card: ModelCard, run_id: str, step: int) -> LoggedModel:
    """The files in `folder` as a logged model, which came out of the run."""
    from mlflow.entities import LoggedModelOutput

    experiment = store.experiment(card.job)
    model = store.call(
        store.client.create_logged_model,
        experiment,
        name=card.alias,
        source_run_id=run_id,
        tags=card.as_tags(),
        params={"rate": repr(card.rate), "latency_target": repr(card.latency_target)},
        model_type="benefit model",
    )
    store.call(store.client.log_model_artifacts, model.model_id, str(folder))
    store.call(store.client.finalize_logged_model, model.model_id, "READY")
    store.call(store.client.log_outputs, run_id, [LoggedModelOutput(model.model_id, step)])
    return model


def link_version(store: MlflowStore, model_id: str, name: str, version: int) -> None:
    """The tag by which MLflow leads from a logged model to its version; only its own way of registering sets it."""
    said = json.dumps([{"name": name, "version": version}])
    store.call(store.client.set_logged_model_tags, model_id, {_VERSIONS: said})


def _logged_model(store: MlflowStore, name: str) -> str | None:
    """Of a registered version; None for a file, for what is gone, and for versions that are older than lineage."""
    match = _VERSION.fullmatch(name)
    if match is None:
        return None
    try:
        version = store.call(store.client.get_model_version, match["name"], match["version"])
    except RunStoreError:
        return None
    return version.tags.get(LOGGED_MODEL_TAG)


# -- in words ----------------------------------------------------------------------------------------------------------


def describe_job(job: str) -> str:
    return (
        f"What is known of the streaming job {job}: how its latency and its benefit score follow from the parallelism"
        " of its operators. A version is a benefit model at one input rate; the alias rate-R names the newest of each."
    )


def describe_version(model: BenefitModel, card: ModelCard) -> str:
    simulated = "Simulated. " if card.simulated else ""
    others = sorted({ancestor.rate for ancestor in model.ancestors})
    beside = f", learned together with runs at {_rates(others)}" if others else ""
    return (
        f"{simulated}{card.job} at {format_amount(card.rate)} records/s: {len(model.samples)} parallelisms were run{beside}."
        f" Latency target {format_seconds(card.latency_target)} ({card.statistic}), {card.execution or 'unknown'} execution."
        f" Columns, by name: {', '.join(card.operators)}, instances each."
    )


def _rates(rates: Sequence[float]) -> str:
    return ", ".join(f"{format_amount(rate)}/s" for rate in rates)
