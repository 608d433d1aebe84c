"""The action log of executor sizes: what was asked for of each application, when and why, and what came of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Query

from autotrascale.knowledge.decision_journal import size_action_log
from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.views.executor_size_text import action_as_data
from autotrascale.web.api import schemas
from autotrascale.web.api.loop_commands import open_journal
from autotrascale.web.api.models import CursorQuery, take_page
from autotrascale.web.api.problem_details import error_responses
from autotrascale.web.api.schemas import ApplicationPage, ApplicationView, SizeAction, SizeActionPage
from autotrascale.web.api.server_state import ServerState, ServerStateDep
from autotrascale.web.api.strict_bodies import StrictRoute

router = APIRouter(prefix="/v1/sizes", tags=["sizes"], route_class=StrictRoute)

OfApplication = Annotated[str, Path(max_length=250, description="An application's name in Spark.", examples=["orders"])]
LimitQuery = Annotated[schemas.PageLimit, Query()]


@router.get("", summary="The applications whose executor sizes were ever changed", responses=error_responses())
def ls(state: ServerStateDep, limit: LimitQuery = schemas.MAX_LISTED, cursor: CursorQuery = None) -> ApplicationPage:
    """With what was done to each of them last."""
    found = latest_size_actions(state)
    page, more = take_page(list(found.items()), list(found), limit, cursor)
    views = [ApplicationView(application=name, last=SizeAction(**action_as_data(last))) for name, last in page]
    return ApplicationPage(applications=views, next_cursor=more)


@router.get("/{application:path}", summary="All that was done to one, the oldest first", responses=error_responses(404))
def show(
    application: OfApplication,
    state: ServerStateDep,
    limit: LimitQuery = schemas.MAX_LISTED,
    cursor: CursorQuery = None,
) -> SizeActionPage:
    found = size_actions_of(state, application)
    names = [f"{each.number}-{each.what}" for each in found]
    page, more = take_page(found, names, limit, cursor)
    return SizeActionPage(actions=[SizeAction(**action_as_data(each)) for each in page], next_cursor=more)


def latest_size_actions(state: ServerState) -> dict[str, SizeChange]:
    """With what was done to each of them last."""
    if state.index.loops.decisions is None:  # a server that keeps no journal
        return {}
    with open_journal(state) as decisions:
        return size_action_log.read_latest_actions(decisions)


def size_actions_of(state: ServerState, application: str) -> tuple[SizeChange, ...]:
    if application in latest_size_actions(state):
        with open_journal(state) as decisions:
            return size_action_log.read_actions(decisions, application)
    raise HTTPException(404, f"no executor sizes of an application called {application} were ever changed")
