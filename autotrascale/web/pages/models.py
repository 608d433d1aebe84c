"""`/models` and `/models/JOB/VERSION`: what was learned, of which run, and what it expects."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from starlette.responses import JSONResponse

from autotrascale.knowledge.model_card import ModelCard, StoredModel
from autotrascale.knowledge.model_library import PREFIX
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.views.plots import benefit_model
from autotrascale.web.api.server_state import ServerState, ServerStateDep
from autotrascale.web.pages.jobs import plot_as_data
from autotrascale.web.pages.overview import has_sign_in
from autotrascale.web.pages.page_route import PageRoute
from autotrascale.web.pages.rendering import render_page

LISTED = 100
PLOTS = (("predictions", "Prediction against outcome"), ("acquisition", "Where another run would be worth most"))

router = APIRouter(route_class=PageRoute, include_in_schema=False)

OfJob = Annotated[str, Path(max_length=250)]
Version = Annotated[int, Path(ge=1, le=2**31 - 1)]


@router.get("/models")
def ls(request: Request, state: ServerStateDep, job: Annotated[str | None, Query(max_length=250)] = None) -> Response:
    stored = state.library.versions(job)
    rows = [_row(each) for each in reversed(stored[-LISTED:])]
    return render_page("models.html", signed_in=has_sign_in(request), rows=rows, more=len(stored) - len(rows), job=job)


@router.get("/models/{job}/{version}")
def model(request: Request, job: OfJob, version: Version, state: ServerStateDep) -> Response:
    stored, found = _find(state, job, version)
    operators = _operators(stored, found)
    slices = [(f"slice-{i}", f"Expected latency: {name}") for i, name in enumerate(operators)]
    samples = sorted(found.samples, key=lambda sample: -sample.score)
    return render_page(
        "model.html",
        signed_in=has_sign_in(request),
        row=_row(stored),
        model=found,
        operators=operators,
        samples=samples,
        plots=PLOTS,
        slices=slices,
    )


@router.get("/plots/models/{job}/{version}")
async def plots(job: OfJob, version: Version, state: ServerStateDep) -> Response:
    stored, found = await state.in_thread(lambda: _find(state, job, version))
    return JSONResponse(await state.compute(lambda: _plots(stored, found)))


def _plots(stored: StoredModel, found: BenefitModel) -> dict[str, Any]:
    operators = _operators(stored, found)
    best = max(found.samples, key=lambda sample: sample.score)
    centre = dict(zip(operators, best.k, strict=True))
    drawn = [
        *benefit_model.plot_slices(found, operators, centre),
        benefit_model.plot_acquisition(found, operators, centre),
        benefit_model.plot_predictions(found, operators),
    ]
    return {"upto": 0, "plots": [plot_as_data(plot) for plot in drawn]}


def _operators(stored: StoredModel, found: BenefitModel) -> list[str]:
    if isinstance(stored.card, ModelCard):
        return list(stored.card.operators)
    return [f"operator {i + 1}" for i in range(len(found.floor))]


def _row(stored: StoredModel) -> dict[str, Any]:
    card = stored.card if isinstance(stored.card, ModelCard) else None
    return {
        "job": stored.name.removeprefix(PREFIX),
        "version": stored.version,
        "card": card,
        "problem": None if card is not None else str(stored.card),
        "deprecated": stored.deprecated,
        "aliases": ", ".join(stored.aliases),
    }


def _find(state: ServerState, job: str, version: int) -> tuple[StoredModel, BenefitModel]:
    stored = next((each for each in state.library.versions(job) if each.version == version), None)
    if stored is None:
        raise HTTPException(404, f"there is no model {version} of job {job}")
    return stored, state.library.load(stored)
