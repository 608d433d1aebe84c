"""Which benefit models a run starts from, and a line on each choice: `--warm-start auto|none|MODEL`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from autotrascale.app.job_file import JobFile
from autotrascale.domain.errors import InputError
from autotrascale.domain.job import Job
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.model_card import ModelCard, ModelRequest
from autotrascale.knowledge.model_files import is_model_export
from autotrascale.knowledge.model_files import read_model as read_export
from autotrascale.knowledge.model_library import ModelLibrary
from autotrascale.knowledge.run_json import ModelSource

AUTO, NONE = "auto", "none"
_REFERENCE = re.compile(r"models:/.*|rate-[0-9_]+")


@dataclass(frozen=True)
class WarmStart:
    sources: tuple[ModelSource, ...]
    lines: tuple[str, ...]


def choose_warm_start(wish: str, store: MlflowStore | None, job: Job, wanted: ModelRequest) -> WarmStart:
    if wish == NONE:
        return WarmStart((), ("starting cold, as asked",))
    if wish != AUTO:
        source = _named(wish, store, job, wanted)
        return WarmStart((source,), (f"starting from {source.name}, made at {source.model.rate:g}/s",))
    if store is None:
        return WarmStart((), ("starting cold: no store is in use, so there are no models",))
    library = ModelLibrary(store)
    choice = library.near(job.name, wanted)
    sources, skipped_models = library.sources(choice)
    lines = [f"starting from {source.name}, made at {source.model.rate:g}/s" for source in sources]
    if not sources:
        count = len(skipped_models)
        why = f"none of the {count} models of {job.name} fits" if count else f"there is no model of {job.name} yet"
        lines = [f"starting cold: {why}"]
    passed = [f"passed over {line}" for line in skipped_models]
    return WarmStart(sources, (*lines, *passed))


def describe_wanted_model(file: JobFile, engine: str, job: Job, *, faithful: bool) -> ModelRequest:
    simulated = engine == "simulator"
    execution = file.simulator.execution if simulated and file.simulator is not None else "micro-batch"
    return ModelRequest.by(job, execution=execution, simulated=simulated, faithful=faithful)


def _named(wish: str, store: MlflowStore | None, job: Job, wanted: ModelRequest) -> ModelSource:
    """A model that was asked for by name must fit: leaving it out in silence would not be what was asked for."""
    if not _REFERENCE.fullmatch(wish):
        return _from_file(Path(wish), wanted)
    if store is None:
        raise InputError(
            "--warm-start", "names a stored model, and no store is in use", seen=wish, remedy="give --store, or a file"
        )
    library = ModelLibrary(store)
    stored = library.find(wish, job.name)
    if stored.deprecated is not None:
        _check(wish, f"it is deprecated: {stored.deprecated}")
    if isinstance(stored.card, ModelCard):
        _check(wish, wanted.why_not(stored.card))
    return library.source(stored)


def _from_file(path: Path, wanted: ModelRequest) -> ModelSource:
    if is_model_export(path):
        model, card = read_export(path)
        _check(str(path), wanted.why_not(card))
        return ModelSource(str(path), model, card.cold_trials)
    from autotrascale.cli.decide import read_model_file

    model = read_model_file(path)
    if len(model.floor) != len(wanted.operators):
        _check(str(path), f"it is of {len(model.floor)} operators, and the job has {len(wanted.operators)}")
    if None not in (model.execution, wanted.execution) and model.execution != wanted.execution:
        _check(str(path), f"it was measured under {model.execution} execution, not {wanted.execution}")
    return ModelSource(str(path), model)


def _check(seen: str, reason: str | None) -> None:
    if reason is not None:
        raise InputError(
            "--warm-start",
            f"names a model that does not fit: {reason}",
            seen=seen,
            remedy="use auto to see what fits, or none",
        )
