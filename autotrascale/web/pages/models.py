"""/models and /models/JOB/VERSION: benefit models, the runs that trained them, and their predictions."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.responses import JSONResponse

from autotrascale.knowledge.model_card import ModelCard, StoredModel
from autotrascale.knowledge.model_library import PREFIX
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.views.plots import benefit_model
from autotrascale.web.api.models import load_model
from autotrascale.web.api.server_state import ServerStateDep
from autotrascale.web.pages.jobs import plot_as_data
from autotrascale.web.pages.page_route import PageRoute
from autotrascale.web.pages.rendering import render_page

MAX_LISTED = 100
PLOTS = (("predictions", "Prediction against measurement"), ("acquisition", "Expected gain of another trial"))

router = APIRouter(route_class=PageRoute, include_in_schema=False)

JobName = Annotated[str, Path(max_length=250)]
Version = Annotated[int, Path(ge=1, le=2**31 - 1)]


@router.get("/models")
def list_models(
    request: Request, state: ServerStateDep, job: Annotated[str | None, Query(max_length=250)] = None
) -> Response:
    stored = state.library.versions(job)
    rows = [_row(each) for each in reversed(stored[-MAX_LISTED:])]
    return render_page(request, "models.html", rows=rows, more=len(stored) - len(rows), job=job)


@router.get("/models/{job}/{version}")
def show_model(request: Request, job: JobName, version: Version, state: ServerStateDep) -> Response:
    stored, model = load_model(state, job, version)
    operators = _operators(stored, model)
    return render_page(
        request,
        "model.html",
        row=_row(stored),
        model=model,
        operators=operators,
        samples=sorted(model.samples, key=lambda sample: -sample.score),
        plots=PLOTS,
        slices=[(f"slice-{i}", f"Expected latency: {name}") for i, name in enumerate(operators)],
    )


@router.get("/plots/models/{job}/{version}")
async def send_plots(job: JobName, version: Version, state: ServerStateDep) -> Response:
    stored, model = await state.in_thread(lambda: load_model(state, job, version))
    return JSONResponse(await state.compute(lambda: _plots(stored, model)))


def _plots(stored: StoredModel, model: BenefitModel) -> dict[str, Any]:
    operators = _operators(stored, model)
    best = max(model.samples, key=lambda sample: sample.score)
    centre = dict(zip(operators, best.k, strict=True))
    plots = [
        *benefit_model.plot_slices(model, operators, centre),
        benefit_model.plot_acquisition(model, operators, centre),
        benefit_model.plot_predictions(model, operators),
    ]
    return {"upto": 0, "plots": [plot_as_data(plot) for plot in plots]}


def _operators(stored: StoredModel, model: BenefitModel) -> list[str]:
    if isinstance(stored.card, ModelCard):
        return list(stored.card.operators)
    return [f"operator {i + 1}" for i in range(len(model.floor))]


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
