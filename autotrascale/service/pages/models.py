"""`/models` and `/models/JOB/VERSION`: what was learned, of which run, and what it expects."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from starlette.responses import JSONResponse

from autotrascale.knowledge.cards import Card, Stored
from autotrascale.knowledge.library import PREFIX
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.service.api.state import State, StateOf
from autotrascale.service.pages.html import page
from autotrascale.service.pages.jobs import as_data
from autotrascale.service.pages.overview import signed_in
from autotrascale.service.pages.route import PageRoute
from autotrascale.views.plots import search

LISTED = 100
PLOTS = (("predictions", "Prediction against outcome"), ("acquisition", "Where another run would be worth most"))

router = APIRouter(route_class=PageRoute, include_in_schema=False)

OfJob = Annotated[str, Path(max_length=250)]
Version = Annotated[int, Path(ge=1, le=2**31 - 1)]


@router.get("/models")
def ls(request: Request, state: StateOf, job: Annotated[str | None, Query(max_length=250)] = None) -> Response:
    stored = state.library.versions(job)
    rows = [_row(each) for each in reversed(stored[-LISTED:])]
    return page("models.html", signed_in=signed_in(request), rows=rows, more=len(stored) - len(rows), job=job)


@router.get("/models/{job}/{version}")
def model(request: Request, job: OfJob, version: Version, state: StateOf) -> Response:
    stored, found = _find(state, job, version)
    operators = _operators(stored, found)
    slices = [(f"slice-{i}", f"Expected latency: {name}") for i, name in enumerate(operators)]
    samples = sorted(found.samples, key=lambda sample: -sample.score)
    return page(
        "model.html",
        signed_in=signed_in(request),
        row=_row(stored),
        model=found,
        operators=operators,
        samples=samples,
        plots=PLOTS,
        slices=slices,
    )


@router.get("/plots/models/{job}/{version}")
async def plots(job: OfJob, version: Version, state: StateOf) -> Response:
    stored, found = await state.in_thread(lambda: _find(state, job, version))
    return JSONResponse(await state.compute(lambda: _plots(stored, found)))


def _plots(stored: Stored, found: BenefitModel) -> dict[str, Any]:
    operators = _operators(stored, found)
    best = max(found.samples, key=lambda sample: sample.score)
    centre = dict(zip(operators, best.k, strict=True))
    drawn = [
        *search.slices(found, operators, centre),
        search.acquisition(found, operators, centre),
        search.predictions(found, operators),
    ]
    return {"upto": 0, "plots": [as_data(plot) for plot in drawn]}


def _operators(stored: Stored, found: BenefitModel) -> list[str]:
    if isinstance(stored.card, Card):
        return list(stored.card.operators)
    return [f"operator {i + 1}" for i in range(len(found.floor))]


def _row(stored: Stored) -> dict[str, Any]:
    card = stored.card if isinstance(stored.card, Card) else None
    return {
        "job": stored.name.removeprefix(PREFIX),
        "version": stored.version,
        "card": card,
        "problem": None if card is not None else str(stored.card),
        "deprecated": stored.deprecated,
        "aliases": ", ".join(stored.aliases),
    }


def _find(state: State, job: str, version: int) -> tuple[Stored, BenefitModel]:
    stored = next((each for each in state.library.versions(job) if each.version == version), None)
    if stored is None:
        raise HTTPException(404, f"there is no model {version} of job {job}")
    return stored, state.library.load(stored)
