"""Choice of the benefit models that a run starts from: `--warm-start auto|none|MODEL`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from autotrascale.app.console import note
from autotrascale.app.job_file import EngineName, JobFile, read_job_file
from autotrascale.app.model_files import read_model_file
from autotrascale.domain.errors import InputError
from autotrascale.domain.job import Job
from autotrascale.domain.topology import Topology
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.model_card import ModelCard, ModelRequest
from autotrascale.knowledge.model_files import is_model_export, read_model
from autotrascale.knowledge.model_library import ModelLibrary
from autotrascale.knowledge.run_json import ModelSource

AUTO, NONE = "auto", "none"
_STORED_MODEL = re.compile(r"models:/.*|rate-[0-9_]+")


@dataclass(frozen=True)
class WarmStart:
    """Models to start from, and one line about each model that was chosen or skipped."""

    sources: tuple[ModelSource, ...]
    lines: tuple[str, ...]


def choose_warm_start(choice: str, store: MlflowStore | None, job: Job, wanted: ModelRequest) -> WarmStart:
    """Return the models to start from.

    Args:
        choice: `auto` for the nearest stored models, `none`, or a file, a `models:/` URI or an alias `rate-R`.
        store: the store of models, if one is in use.
        job: the job to run.
        wanted: what a model must match.

    Raises:
        InputError: the named model does not exist or does not match.
    """
    if choice == NONE:
        return WarmStart((), ("cold start, as requested",))
    if choice != AUTO:
        source = _load_named(choice, store, job, wanted)
        return WarmStart((source,), (_describe(source),))
    if store is None:
        return WarmStart((), ("cold start: no store of models is in use",))
    library = ModelLibrary(store)
    sources, skipped_models = library.load_sources(library.choose(job.name, wanted))
    lines = [_describe(source) for source in sources]
    if not sources:
        count = len(skipped_models)
        reason = f"none of the {count} models of {job.name} fits" if count else f"{job.name} has no model yet"
        lines = [f"cold start: {reason}"]
    return WarmStart(sources, (*lines, *(f"skipped {line}" for line in skipped_models)))


def describe_wanted_model(file: JobFile, engine: str, job: Job, *, faithful: bool) -> ModelRequest:
    """Return what a model must match to start a run of `job` on `engine`."""
    simulated = engine == "simulator"
    execution = file.simulator.execution if simulated and file.simulator is not None else "micro-batch"
    return ModelRequest.for_job(job, execution=execution, simulated=simulated, faithful=faithful)


def preview_warm_start(store: MlflowStore, path: Path, rate: float | None, engine: EngineName | None) -> WarmStart:
    """Return the models that a run of the job file at `path` would start from.

    Args:
        store: the store of models.
        path: the job file. If it declares no operators, the job's own code is asked.
        rate: input rate of all sources, records/s; None: the job file's.
        engine: the engine of the run; None: the job file's.
    """
    file = read_job_file(path)
    name = file.choose_engine(engine)
    if file.operators:
        job = Job(file.job, Topology(file.operators), file.p_max, file.source_rates, file.target)
    else:
        note("the job file declares no operators; reading them from the job's code")
        job, opened = file.open_engine(name, file.tuning.seed)
        opened.close()
    job = job if rate is None else job.at_rate(rate)
    return choose_warm_start(AUTO, store, job, describe_wanted_model(file, name, job, faithful=file.tuning.faithful))


def _describe(source: ModelSource) -> str:
    return f"warm start from {source.name}, made at {source.model.rate:g} records/s"


def _load_named(name: str, store: MlflowStore | None, job: Job, wanted: ModelRequest) -> ModelSource:
    if not _STORED_MODEL.fullmatch(name):
        return _load_file(Path(name), wanted)
    if store is None:
        raise InputError(
            "--warm-start", "names a stored model, but no store is in use", seen=name, remedy="give --store, or a file"
        )
    library = ModelLibrary(store)
    stored = library.find(name, job.name)
    if stored.deprecated is not None:
        _refuse(name, f"it is deprecated: {stored.deprecated}")
    if isinstance(stored.card, ModelCard):
        _refuse(name, wanted.find_mismatch(stored.card))
    return library.load_source(stored)


def _load_file(path: Path, wanted: ModelRequest) -> ModelSource:
    if is_model_export(path):
        model, card = read_model(path)
        _refuse(str(path), wanted.find_mismatch(card))
        return ModelSource(str(path), model, card.cold_trials)
    model = read_model_file(path)
    if len(model.floor) != len(wanted.operators):
        _refuse(str(path), f"it has {len(model.floor)} operators, and the job has {len(wanted.operators)}")
    if None not in (model.execution, wanted.execution) and model.execution != wanted.execution:
        _refuse(str(path), f"it was measured in {model.execution} execution, and the job runs in {wanted.execution}")
    return ModelSource(str(path), model)


def _refuse(name: str, mismatch: str | None) -> None:
    if mismatch is not None:
        raise InputError(
            "--warm-start",
            f"names a model that does not fit: {mismatch}",
            seen=name,
            remedy="use auto to choose a fitting model, or none",
        )
