"""Lineage and descriptions in MLflow: inputs and outputs of runs, and text about runs, models and versions.

A registered version belongs to a logged model of MLflow, which names the run that made it. A run names the logged
models that it started from. So MLflow shows the way from a model over a run to the next model.
"""

from __future__ import annotations

import json
import re
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
LOGGED_MODEL_TAG = "model_id"  # tag of a version; MLflow's own stores forget the logged model of a version
_VERSIONS_TAG = "mlflow.modelVersions"

_VERSION_URI = re.compile(r"models:/(?P<name>[^/@]+)/(?P<version>\d+)")
_MAX_SCHEMA_LENGTH = 10_000  # characters that MLflow accepts in the schema of a dataset


def log_inputs(store: MlflowStore, run_id: str, opening: RunOpening) -> None:
    """Log the job as the run's dataset, and the stored models that the run starts from."""
    from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelInput

    job = opening.job
    schema = {
        "operators": {name: list(operator.upstream) for name, operator in job.topology.operators.items()},
        "source_rates": dict(job.source_rates),
        "latency_target_seconds": job.target.latency_seconds,
        "p_max": job.p_max,
    }
    text = json.dumps(schema, ensure_ascii=False)
    dataset = Dataset(
        name=job.name[:450],
        digest=opening.digest,
        source_type="job file",
        source=json.dumps({"path": opening.job_path}, ensure_ascii=False),
        schema=text if len(text) <= _MAX_SCHEMA_LENGTH else None,
    )
    datasets = [DatasetInput(dataset, [InputTag("mlflow.data.context", "job")])]
    model_ids = [_find_logged_model(store, source.name) for source in opening.sources]
    models = [LoggedModelInput(model_id) for model_id in model_ids if model_id]
    store.call(store.client.log_inputs, run_id, datasets, models)


def log_model(store: MlflowStore, folder: Path, card: ModelCard, run_id: str, step: int) -> LoggedModel:
    """Log the files in `folder` as a model that the run made at `step`, and return it."""
    from mlflow.entities import LoggedModelOutput

    model = store.call(
        store.client.create_logged_model,
        store.experiment(card.job),
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
    """Set the tag that leads from a logged model to its version. Only MLflow's own registration sets it otherwise."""
    versions = json.dumps([{"name": name, "version": version}])
    store.call(store.client.set_logged_model_tags, model_id, {_VERSIONS_TAG: versions})


def _find_logged_model(store: MlflowStore, name: str) -> str | None:
    """Return the logged model of a registered version. None for a file, or a version that was removed."""
    match = _VERSION_URI.fullmatch(name)
    if match is None:
        return None
    try:
        version = store.call(store.client.get_model_version, match["name"], match["version"])
    except RunStoreError:
        return None
    return version.tags.get(LOGGED_MODEL_TAG)


def describe_job(job: str) -> str:
    """Return the description of a registered model."""
    return (
        f"Benefit models of the streaming job {job}: they predict its latency and its benefit score from the"
        " parallelism of its operators. Each version is a model at one input rate. The alias rate-R names the newest"
        " version of rate R."
    )


def describe_version(model: BenefitModel, card: ModelCard) -> str:
    """Return the description of a version: its rate, its runs, its target and its columns."""
    simulated = "Simulated. " if card.simulated else ""
    other_rates = sorted({ancestor.rate for ancestor in model.ancestors})
    others = ", ".join(f"{format_amount(rate)}/s" for rate in other_rates)
    combined = f", learned together with runs at {others}" if others else ""
    count, target = len(model.samples), format_seconds(card.latency_target)
    return (
        f"{simulated}{card.job} at {format_amount(card.rate)} records/s: {count} parallelisms were run{combined}."
        f" Latency target {target} ({card.statistic}), {card.execution or 'unknown'} execution."
        f" Columns, by name: {', '.join(card.operators)}, instances each."
    )
