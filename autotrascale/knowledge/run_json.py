"""What a journal holds, as JSON and back: the opening of a run, its trials, its end.

The domain's own types are the schema, so that a damaged or foreign artefact is refused in one line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from autotrascale import __version__
from autotrascale.domain.decision import Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.job import Job
from autotrascale.domain.trial import Sink
from autotrascale.plan.policies import OURS, PolicyChoice
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.sizing.demand import Demand
from autotrascale.plan.sizing.sizing import Sizing
from autotrascale.plan.sizing.slowdown import Slowdown
from autotrascale.tuning import Evaluation, JournalledTrial, Outcome, TuningSettings
from autotrascale.validation import validate

VERSION = 1


@dataclass(frozen=True)
class ModelSource:
    """A benefit model that a run starts from, where it was found, and how many trials it cost from nothing."""

    name: str
    model: BenefitModel
    cold_trials: int | None = None


@dataclass(frozen=True)
class RunOpening:
    """All that a tuning run was started with: enough to start it again anywhere."""

    job: Job
    engine: str
    simulated: bool
    settings: TuningSettings
    rate: float | None  # asked for on the command line, instead of the job file's own
    job_path: str
    job_file: Mapping[str, Any]  # the job file's content
    sources: tuple[ModelSource, ...] = ()
    warm_start: tuple[str, ...] = ()  # which models were used or passed over, and why
    sink: Sink | None = None  # where output goes; None: a simulated job has none
    policy: PolicyChoice = field(default_factory=PolicyChoice)

    @property
    def digest(self) -> str:
        return digest_json(self.job_file)


def digest_json(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def opening_to_json(opening: RunOpening) -> dict[str, Any]:
    return {
        "version": VERSION,
        "program": __version__,
        "job": asdict(opening.job),
        "engine": opening.engine,
        "simulated": opening.simulated,
        "settings": asdict(opening.settings),
        "rate": opening.rate,
        "job_path": opening.job_path,
        "job_file": json.loads(json.dumps(opening.job_file, default=str)),
        "job_file_sha256": opening.digest,
        "sources": [
            {"name": s.name, "model": json.loads(s.model.to_json()), "cold_trials": s.cold_trials}
            for s in opening.sources
        ],
        "warm_start": list(opening.warm_start),
        "sink": opening.sink,
        "policy": asdict(opening.policy),
    }


def opening_from_json(data: Any, place: str) -> RunOpening:
    header = validate(data, _Opening, place=place)
    if header.job_file_sha256 != digest_json(header.job_file):
        raise InputError(f"{place}: job_file", "is not what it was when the run began", remedy="start a new run")
    sources = tuple(
        ModelSource(source.name, _model(source.model, f"{place}: sources[{i}]"), source.cold_trials)
        for i, source in enumerate(header.sources)
    )
    return RunOpening(
        header.job,
        header.engine,
        header.simulated,
        header.settings,
        header.rate,
        header.job_path,
        header.job_file,
        sources,
        header.warm_start,
        header.sink,
        header.policy,
    )


def trial_to_json(trial: JournalledTrial) -> dict[str, Any]:
    return {"version": VERSION, **asdict(trial)}


def trial_from_json(data: Any, place: str) -> JournalledTrial:
    read = validate(data, _JournalledTrial, place=place)
    return JournalledTrial(read.evaluation, read.trial, read.step)


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """The evaluations are left out: each is in the journal already."""
    data = asdict(replace(outcome, model=None, evaluations=()))
    model = None if outcome.model is None else json.loads(outcome.model.to_json())
    return {"version": VERSION, **data, "model": model}


def outcome_from_json(data: Any, evaluations: Sequence[Evaluation], place: str) -> Outcome:
    read = validate(data, _Outcome, place=place)
    return Outcome(
        read.job,
        read.simulated,
        read.floor,
        read.sizing or _sizing_of(read),
        read.best,
        read.met_target,
        read.stop_reason,
        tuple(evaluations),
        None if read.model is None else _model(read.model, f"{place}: model"),
        read.remarks,
        read.confidence,
        read.floor_holds,
        read.fixed_seconds,
        read.slowdown,
        read.policy,
        read.said,
    )


def _sizing_of(read: _Outcome) -> Sizing | None:
    """From the demand that earlier versions wrote."""
    if read.demand is None:
        return None
    names, vector = tuple(read.job.topology), read.job.topology.vector
    known = Sizing.of_loads(vector(read.floor), read.job.upper, rate=read.job.rate, operators=names)
    return replace(
        known,
        demand=tuple(read.demand.rate[name] for name in names),
        capacity=tuple(read.demand.capacity[name] for name in names),
        load=tuple(read.demand.load[name] for name in names),
    )


def _model(data: Mapping[str, Any], place: str) -> BenefitModel:
    try:
        return BenefitModel.from_json(json.dumps(data))
    except InputError as error:
        raise error.under(f"{place}: ") from None


# The schemas: as above, with models as plain data, because models read themselves.


@dataclass(frozen=True)
class _Source:
    name: str
    model: dict[str, Any]
    cold_trials: int | None = None


@dataclass(frozen=True, kw_only=True)
class _Versioned:
    version: int
    program: str = ""

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise InputError(
                "version", "is not one this program reads", seen=self.version, remedy="use the program that wrote it"
            )


@dataclass(frozen=True, kw_only=True)
class _Opening(_Versioned):
    job: Job
    engine: str
    simulated: bool
    settings: TuningSettings
    rate: float | None
    job_path: str
    job_file: dict[str, Any]
    job_file_sha256: str
    sources: tuple[_Source, ...]
    warm_start: tuple[str, ...]
    sink: Sink | None = None  # this and what follows: earlier versions did not write it
    policy: PolicyChoice = field(default_factory=PolicyChoice)


@dataclass(frozen=True, kw_only=True)
class _JournalledTrial(_Versioned, JournalledTrial):
    pass


@dataclass(frozen=True, kw_only=True)
class _Outcome(_Versioned):
    job: Job
    simulated: bool
    floor: dict[str, int]
    demand: Demand | None = None  # what earlier versions wrote instead of the sizing
    sizing: Sizing | None = None
    best: Evaluation
    met_target: bool
    stop_reason: str
    evaluations: tuple[Evaluation, ...]
    model: dict[str, Any] | None
    remarks: tuple[str, ...]
    confidence: float = 0.97  # this and what follows: earlier versions did not write it
    floor_holds: bool = True
    fixed_seconds: float | None = None
    slowdown: Slowdown | None = None
    policy: str = OURS
    said: tuple[Reason, ...] = ()
