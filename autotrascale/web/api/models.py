"""/v1/models: list, show and query benefit models, deprecate them, and remove them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query

from autotrascale.app.run_queue import server_log
from autotrascale.domain.errors import InputError
from autotrascale.knowledge.model_card import ModelCard, StoredModel
from autotrascale.knowledge.model_library import PREFIX
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.web.api import schemas
from autotrascale.web.api.paging import CursorQuery, JobName, LimitQuery, take_page
from autotrascale.web.api.problem_details import error_responses
from autotrascale.web.api.schemas import (
    DeprecateRequest,
    ModelDetail,
    ModelPage,
    ModelView,
    PredictRequest,
    SampleView,
    ScorePrediction,
)
from autotrascale.web.api.server_state import RequestedBy, ServerState, ServerStateDep
from autotrascale.web.api.strict_bodies import StrictRoute

router = APIRouter(prefix="/v1/models", tags=["models"], route_class=StrictRoute)

Version = Annotated[int, Path(ge=1, le=2**31 - 1, description="Version of the model.", examples=[1])]


@router.get("", summary="List the stored benefit models", responses=error_responses())
def list_models(
    state: ServerStateDep,
    job: Annotated[schemas.JobFilter | None, Query()] = None,
    limit: LimitQuery = 20,
    cursor: CursorQuery = None,
) -> ModelPage:
    stored = state.library.versions(job)
    page, more = take_page(stored, [each.uri for each in stored], limit, cursor)
    return ModelPage(models=[ModelView(**_card_as_data(each)) for each in page], next_cursor=more)


@router.get("/{job}/{version}", summary="Show a model", responses=error_responses(404))
def show_model(job: JobName, version: Version, state: ServerStateDep) -> ModelDetail:
    stored, model = load_model(state, job, version)
    samples = [SampleView(k=list(s.k), latency_seconds=s.latency, score=s.score) for s in model.samples]
    return ModelDetail(**_card_as_data(stored), floor=list(model.floor), p_max=list(model.p_max), samples=samples)


@router.post("/{job}/{version}/predict", summary="Predict scores with a model", responses=error_responses(404))
async def predict(job: JobName, version: Version, body: PredictRequest, state: ServerStateDep) -> ScorePrediction:
    _, model = await state.in_thread(lambda: load_model(state, job, version))
    _check_points(body, model)
    mean, std = await state.compute(lambda: model.predict(body.parallelism))
    return ScorePrediction(mean=mean.tolist(), std=std.tolist())


@router.post("/{job}/{version}/deprecate", summary="Deprecate a model", responses=error_responses(404))
def deprecate(
    job: JobName, version: Version, body: DeprecateRequest, state: ServerStateDep, who: RequestedBy
) -> ModelView:
    """No run starts from a deprecated model. The model is kept; `undo` makes it usable again."""
    library, stored = state.library, _find_stored(state, job, version)
    changed = library.restore(stored, who) if body.undo else library.deprecate(stored, body.why, who)
    server_log.info("request", who=who, what="restore" if body.undo else "deprecate", model=stored.uri)
    return ModelView(**_card_as_data(changed))


@router.delete("/{job}/{version}", status_code=204, summary="Remove a model", responses=error_responses(404))
def remove(job: JobName, version: Version, state: ServerStateDep, who: RequestedBy) -> None:
    """Remove the model from the library for good. The run that trained it stays."""
    stored = _find_stored(state, job, version)
    state.library.remove(stored, who)
    server_log.info("request", who=who, what="remove", model=stored.uri)


def load_model(state: ServerState, job: str, version: int) -> tuple[StoredModel, BenefitModel]:
    """Return a stored model with its content. Raises `HTTPException` 404."""
    stored = _find_stored(state, job, version)
    return stored, state.library.load(stored)


def _find_stored(state: ServerState, job: str, version: int) -> StoredModel:
    stored = next((each for each in state.library.versions(job) if each.version == version), None)
    if stored is None:
        raise HTTPException(404, f"job {job} has no model {version}")
    return stored


def _check_points(body: PredictRequest, model: BenefitModel) -> None:
    for i, point in enumerate(body.parallelism):
        if len(point) != len(model.floor):
            raise InputError(
                f"body.parallelism.{i}",
                f"does not have one number for each of the model's {len(model.floor)} operators",
                seen=point,
                remedy="give one number per operator",
            )
        if any(not low <= k <= high for low, k, high in zip(model.floor, point, model.p_max, strict=True)):
            raise InputError(
                f"body.parallelism.{i}",
                "is outside the model's bounds",
                seen=point,
                remedy=f"stay between {list(model.floor)} and {list(model.p_max)}",
            )


def _card_as_data(stored: StoredModel) -> dict[str, Any]:
    data = {
        "uri": stored.uri,
        "version": stored.version,
        "aliases": list(stored.aliases),
        "deprecated": stored.deprecated,
    }
    if not isinstance(stored.card, ModelCard):
        return {**data, "job": stored.name.removeprefix(PREFIX), "problem": str(stored.card)}
    card = asdict(stored.card)
    return {**data, **{name: card[name] for name in card if name in ModelView.model_fields}}
