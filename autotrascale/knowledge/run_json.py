"""The JSON files of a tuning run: its opening, its trials and its outcome.

The types of the domain are the schema, so a damaged or foreign file is refused in one line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from autotrascale import __version__
from autotrascale.domain.errors import InputError
from autotrascale.domain.job import Job
from autotrascale.domain.trial import Sink
from autotrascale.plan.policies.registry import PolicyChoice
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.tuning import Evaluation, JournalledTrial, Outcome, TuningSettings
from autotrascale.validation import validate

VERSION = 1


@dataclass(frozen=True)
class ModelSource:
    """A benefit model that a run starts from.

    Args:
        name: URI or file of the model.
        model: the model.
        cold_trials: trials that the model's own run needed from a cold start; None when unknown.
    """

    name: str
    model: BenefitModel
    cold_trials: int | None = None


@dataclass(frozen=True)
class RunOpening:
    """The inputs of a tuning run: enough to start it again on any machine.

    Args:
        job: the job as the run tunes it.
        engine: name of the engine, "spark" or "simulator".
        simulated: whether the engine simulates.
        settings: settings of the search.
        rate: rate of the command line in records per second, which replaces the job file's; else None.
        job_path: path of the job file.
        job_file: content of the job file.
        sources: models that the run starts from.
        warm_start: one line for each model that was used or skipped.
        sink: destination of the output; None for a simulated job.
        policy: policy that proposes the trials.
    """

    job: Job
    engine: str
    simulated: bool
    settings: TuningSettings
    rate: float | None
    job_path: str
    job_file: Mapping[str, Any]
    sources: tuple[ModelSource, ...] = ()
    warm_start: tuple[str, ...] = ()
    sink: Sink | None = None
    policy: PolicyChoice = field(default_factory=PolicyChoice)

    @property
    def digest(self) -> str:
        return digest_json(self.job_file)


def digest_json(value: object) -> str:
    """Return a short hash of a value's JSON form."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def opening_to_json(opening: RunOpening) -> dict[str, Any]:
    sources = [
        {"name": source.name, "model": json.loads(source.model.to_json()), "cold_trials": source.cold_trials}
        for source in opening.sources
    ]
    return {
        "version": VERSION,
        "program": __version__,
        **asdict(replace(opening, sources=())),
        "job_file": json.loads(json.dumps(opening.job_file, default=str)),
        "job_file_sha256": opening.digest,
        "sources": sources,
    }


def opening_from_json(data: Any, place: str) -> RunOpening:
    """Return the opening in a file's content. Raise `InputError` naming `place` if it is damaged."""
    stored = validate(data, _StoredOpening, place=place)
    if stored.job_file_sha256 != stored.digest:
        raise InputError(f"{place}: job_file", "has changed since the run began", remedy="start a new run")
    sources = tuple(
        ModelSource(source.name, _parse_model(source.model, f"{place}: sources[{i}]"), source.cold_trials)
        for i, source in enumerate(stored.sources)
    )
    values = {each.name: getattr(stored, each.name) for each in fields(RunOpening)}
    return RunOpening(**{**values, "sources": sources})


def trial_to_json(trial: JournalledTrial) -> dict[str, Any]:
    return {"version": VERSION, **asdict(trial)}


def trial_from_json(data: Any, place: str) -> JournalledTrial:
    """Return the trial in a file's content. Raise `InputError` naming `place` if it is damaged."""
    stored = validate(data, _StoredTrial, place=place)
    return JournalledTrial(stored.evaluation, stored.trial, stored.step)


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome without its evaluations, which the run's trials hold."""
    data = asdict(replace(outcome, model=None, evaluations=()))
    model = None if outcome.model is None else json.loads(outcome.model.to_json())
    return {"version": VERSION, **data, "model": model}


def outcome_from_json(data: Any, evaluations: Sequence[Evaluation], place: str) -> Outcome:
    """Return the outcome in a file's content. Raise `InputError` naming `place` if it is damaged."""
    stored = validate(data, _StoredOutcome, place=place)
    model = None if stored.model is None else _parse_model(stored.model, f"{place}: model")
    values = {each.name: getattr(stored, each.name) for each in fields(Outcome)}
    return Outcome(**{**values, "evaluations": tuple(evaluations), "model": model})


def _parse_model(data: Mapping[str, Any], place: str) -> BenefitModel:
    try:
        return BenefitModel.from_json(json.dumps(data))
    except InputError as error:
        raise error.with_prefix(f"{place}: ") from None


# The stored forms: as the types above, with models as plain data, because a model parses itself.


@dataclass(frozen=True, kw_only=True)
class _Versioned:
    version: int
    program: str = ""

    def __post_init__(self) -> None:
        if self.version != VERSION:
            remedy = "use the program that wrote it"
            raise InputError("version", "is not supported", seen=self.version, remedy=remedy)


@dataclass(frozen=True)
class _StoredSource:
    name: str
    model: dict[str, Any]
    cold_trials: int | None = None


@dataclass(frozen=True, kw_only=True)
class _StoredOpening(_Versioned, RunOpening):
    job_file_sha256: str
    job_file: dict[str, Any]
    sources: tuple[_StoredSource, ...]  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True)
class _StoredTrial(_Versioned, JournalledTrial):
    pass


@dataclass(frozen=True, kw_only=True)
class _StoredOutcome(_Versioned, Outcome):
    model: dict[str, Any] | None  # type: ignore[assignment]
