"""Decisions, jobs and models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, HTTPException, Path, Query

from autotrascale.app.run_queue import server_log
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.knowledge.model_card import ModelCard, StoredModel
from autotrascale.knowledge.model_library import PREFIX
from autotrascale.plan.policies import create
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.validation import validate
from autotrascale.web.api import schemas
from autotrascale.web.api.job_catalog import CatalogEntry
from autotrascale.web.api.problem_details import error_responses
from autotrascale.web.api.schemas import (
    DecideRequest,
    DecisionView,
    DeprecateRequest,
    JobPage,
    JobView,
    ModelDetail,
    ModelPage,
    ModelView,
    PredictRequest,
    SampleView,
    ScorePrediction,
)
from autotrascale.web.api.server_state import RequestedBy, ServerState, ServerStateDep
from autotrascale.web.api.strict_bodies import StrictRoute

T = TypeVar("T")

router = APIRouter(prefix="/v1", route_class=StrictRoute)

OfJob = Annotated[str, Path(max_length=250, description="A job's name.", examples=["wordcount"])]
Version = Annotated[int, Path(ge=1, le=2**31 - 1, examples=[1])]
LimitQuery = Annotated[schemas.PageLimit, Query()]
CursorQuery = Annotated[schemas.PageCursor | None, Query()]


@router.post("/decide", tags=["decide"], summary="What a policy would do", responses=error_responses())
async def decide(asked: DecideRequest, state: ServerStateDep) -> DecisionView:
    """Advisory: it touches nothing."""
    return await state.compute(lambda: _decide(asked))


def _decide(asked: DecideRequest) -> DecisionView:
    target = None if asked.latency_target is None else Target(asked.latency_target, asked.statistic)
    policy = create(asked.policy, target)
    snapshot = validate(asked.snapshot, Snapshot, place="body.snapshot")
    _check_size(snapshot)
    return DecisionView(**policy.decide(snapshot).as_dict())


@router.get("/jobs", tags=["jobs"], summary="The jobs that can be tuned", responses=error_responses())
def jobs(state: ServerStateDep, limit: LimitQuery = schemas.MAX_LISTED, cursor: CursorQuery = None) -> JobPage:
    listed = state.catalog.all()
    page, more = take_page(listed, [each.name for each in listed], limit, cursor)
    return JobPage(jobs=[_job(each) for each in page], next_cursor=more)


@router.get("/models", tags=["models"], summary="The stored benefit models", responses=error_responses())
def models(
    state: ServerStateDep,
    job: Annotated[schemas.JobFilter | None, Query()] = None,
    limit: LimitQuery = 20,
    cursor: CursorQuery = None,
) -> ModelPage:
    stored = state.library.versions(job)
    page, more = take_page(stored, [each.uri for each in stored], limit, cursor)
    return ModelPage(models=[ModelView(**_model(each)) for each in page], next_cursor=more)


@router.get("/models/{job}/{version}", tags=["models"], summary="Show a model", responses=error_responses(404))
def model(job: OfJob, version: Version, state: ServerStateDep) -> ModelDetail:
    stored, found = _find(state, job, version)
    samples = [SampleView(k=list(s.k), latency_seconds=s.latency, score=s.score) for s in found.samples]
    return ModelDetail(**_model(stored), floor=list(found.floor), p_max=list(found.p_max), samples=samples)


@router.post(
    "/models/{job}/{version}/predict", tags=["models"], summary="What a model expects", responses=error_responses(404)
)
async def predict(job: OfJob, version: Version, asked: PredictRequest, state: ServerStateDep) -> ScorePrediction:
    _, found = await state.in_thread(lambda: _find(state, job, version))
    _check_points(asked, found)
    mean, std = await state.compute(lambda: found.predict(asked.parallelism))
    return ScorePrediction(mean=mean.tolist(), std=std.tolist())


@router.post(
    "/models/{job}/{version}/deprecate",
    tags=["models"],
    summary="Let no run start from a model",
    responses=error_responses(404),
)
def deprecate(
    job: OfJob, version: Version, asked: DeprecateRequest, state: ServerStateDep, who: RequestedBy
) -> ModelView:
    """It is kept, and its runs explain as before. `undo` takes it back."""
    library, stored = state.library, _stored(state, job, version)
    changed = library.restore(stored, who) if asked.undo else library.deprecate(stored, asked.why, who)
    server_log.info("asked", who=who, what="restore" if asked.undo else "deprecate", model=stored.uri)
    return ModelView(**_model(changed))


@router.delete(
    "/models/{job}/{version}",
    status_code=204,
    tags=["models"],
    summary="Remove a model",
    responses=error_responses(404),
)
def remove(job: OfJob, version: Version, state: ServerStateDep, who: RequestedBy) -> None:
    """From the library for good. The run that it learned from stays."""
    stored = _stored(state, job, version)
    state.library.remove(stored, who)
    server_log.info("asked", who=who, what="remove", model=stored.uri)


def _check_points(asked: PredictRequest, found: BenefitModel) -> None:
    for i, point in enumerate(asked.parallelism):
        if len(point) != len(found.floor):
            raise InputError(
                f"body.parallelism.{i}",
                f"has not the model's {len(found.floor)} operators",
                seen=point,
                remedy="give one number for each",
            )
        if any(not low <= k <= high for low, k, high in zip(found.floor, point, found.p_max, strict=True)):
            raise InputError(
                f"body.parallelism.{i}",
                "lies outside of the model's bounds",
                seen=point,
                remedy=f"stay between {list(found.floor)} and {list(found.p_max)}",
            )


def _check_size(snapshot: Snapshot) -> None:
    """Some policies look at every parallelism of every operator: for a client's pleasure, not at too many."""
    for place, size, most in (
        ("p_max", snapshot.p_max, schemas.MAX_P_MAX),
        ("operators", len(snapshot.operators), schemas.MAX_OPERATORS),
    ):
        if size > most:
            raise InputError(
                f"body.snapshot.{place}",
                f"is beyond what is decided over HTTP, {most}",
                seen=size,
                remedy="use the command line",
            )


def _find(state: ServerState, job: str, version: int) -> tuple[StoredModel, BenefitModel]:
    stored = _stored(state, job, version)
    return stored, state.library.load(stored)


def _stored(state: ServerState, job: str, version: int) -> StoredModel:
    stored = next((each for each in state.library.versions(job) if each.version == version), None)
    if stored is None:
        raise HTTPException(404, f"there is no model {version} of job {job}")
    return stored


def _job(listed: CatalogEntry) -> JobView:
    file = listed.file
    if file is None:
        return JobView(name=listed.name, problem=listed.problem)
    return JobView(
        name=listed.name,
        job=file.job,
        engines=[name for name in ("spark", "simulator") if getattr(file, name)],
        rate=sum(file.source_rates.values()),
        latency_target=file.target.latency_seconds,
        statistic=file.target.statistic,
        p_max=file.p_max,
        total_trials=file.tuning.total_trials,
    )


def _model(stored: StoredModel) -> dict[str, Any]:
    answer = {
        "uri": stored.uri,
        "version": stored.version,
        "aliases": list(stored.aliases),
        "deprecated": stored.deprecated,
    }
    if not isinstance(stored.card, ModelCard):
        return {**answer, "job": stored.name.removeprefix(PREFIX), "problem": str(stored.card)}
    card = asdict(stored.card)
    return {**answer, **{name: card[name] for name in card if name in ModelView.model_fields}}


def take_page(items: Sequence[T], names: Sequence[str], limit: int, cursor: str | None) -> tuple[list[T], str | None]:
    """Those after the one that the cursor names; what was added or taken away meanwhile shifts nothing."""
    start = 0
    if cursor is not None:
        if cursor not in names:
            raise InputError(
                "cursor",
                "is none that this server gave, or what it names is gone",
                seen=cursor,
                remedy="start without one",
            )
        start = names.index(cursor) + 1
    page = list(items[start : start + limit])
    return page, names[start + limit - 1] if start + limit < len(items) else None
