"""The action log of executor sizes: what was asked for of each application, when and why, and what came of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Query

from autotrascale.knowledge.decisions import sizes
from autotrascale.plan.executor_size.actions import Action
from autotrascale.service.api import schemas
from autotrascale.service.api.bodies import StrictRoute
from autotrascale.service.api.others import CursorQuery, page_of
from autotrascale.service.api.problems import documented
from autotrascale.service.api.schemas import ApplicationPage, ApplicationView, SizeAction, SizeActionPage
from autotrascale.service.api.state import State, StateOf
from autotrascale.service.api.steering import decisions_of
from autotrascale.views.sizes import action_as_data

router = APIRouter(prefix="/v1/sizes", tags=["sizes"], route_class=StrictRoute)

OfApplication = Annotated[str, Path(max_length=250, description="An application's name in Spark.", examples=["orders"])]
LimitQuery = Annotated[schemas.Limit, Query()]


@router.get("", summary="The applications whose executor sizes were ever changed", responses=documented())
def ls(state: StateOf, limit: LimitQuery = schemas.MOST_LISTED, cursor: CursorQuery = None) -> ApplicationPage:
    """With what was done to each of them last."""
    found = applications(state)
    page, more = page_of(list(found.items()), list(found), limit, cursor)
    views = [ApplicationView(application=name, last=SizeAction(**action_as_data(last))) for name, last in page]
    return ApplicationPage(applications=views, next_cursor=more)


@router.get("/{application:path}", summary="All that was done to one, the oldest first", responses=documented(404))
def show(
    application: OfApplication, state: StateOf, limit: LimitQuery = schemas.MOST_LISTED, cursor: CursorQuery = None
) -> SizeActionPage:
    found = history(state, application)
    names = [f"{each.number}-{each.what}" for each in found]
    page, more = page_of(found, names, limit, cursor)
    return SizeActionPage(actions=[SizeAction(**action_as_data(each)) for each in page], next_cursor=more)


def applications(state: State) -> dict[str, Action]:
    """With what was done to each of them last."""
    if state.index.loops.decisions is None:  # a server that keeps no journal
        return {}
    with decisions_of(state) as decisions:
        return sizes.latest(decisions)


def history(state: State, application: str) -> tuple[Action, ...]:
    if application in applications(state):
        with decisions_of(state) as decisions:
            return sizes.actions(decisions, application)
    raise HTTPException(404, f"no executor sizes of an application called {application} were ever changed")
