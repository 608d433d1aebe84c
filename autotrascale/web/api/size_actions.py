"""/v1/sizes: the log of executor size changes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Path

from autotrascale.knowledge.decision_journal import size_action_log
from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.views.executor_size_text import action_as_data
from autotrascale.web.api import schemas
from autotrascale.web.api.loop_commands import open_journal
from autotrascale.web.api.paging import CursorQuery, LimitQuery, take_page
from autotrascale.web.api.problem_details import error_responses
from autotrascale.web.api.schemas import ApplicationPage, ApplicationView, SizeAction, SizeActionPage
from autotrascale.web.api.server_state import ServerState, ServerStateDep
from autotrascale.web.api.strict_bodies import StrictRoute

router = APIRouter(prefix="/v1/sizes", tags=["sizes"], route_class=StrictRoute)

ApplicationName = Annotated[
    str, Path(max_length=250, description="An application's name in Spark.", examples=["orders"])
]


@router.get("", summary="List the applications with executor size changes", responses=error_responses())
def list_applications(
    state: ServerStateDep, limit: LimitQuery = schemas.MAX_LISTED, cursor: CursorQuery = None
) -> ApplicationPage:
    """Each application with the last action on its sizes."""
    latest = latest_size_actions(state)
    page, more = take_page(list(latest.items()), list(latest), limit, cursor)
    views = [ApplicationView(application=name, last=SizeAction(**action_as_data(last))) for name, last in page]
    return ApplicationPage(applications=views, next_cursor=more)


@router.get("/{application:path}", summary="List the size changes of an application", responses=error_responses(404))
def list_size_actions(
    application: ApplicationName,
    state: ServerStateDep,
    limit: LimitQuery = schemas.MAX_LISTED,
    cursor: CursorQuery = None,
) -> SizeActionPage:
    """The oldest first."""
    actions = read_size_actions(state, application)
    names = [f"{each.number}-{each.what}" for each in actions]
    page, more = take_page(actions, names, limit, cursor)
    return SizeActionPage(actions=[SizeAction(**action_as_data(each)) for each in page], next_cursor=more)


def latest_size_actions(state: ServerState) -> dict[str, SizeChange]:
    """Return the last size change of each application, by the application's name."""
    if state.loops.journal is None:
        return {}
    with open_journal(state) as journal:
        return size_action_log.read_latest_actions(journal)


def read_size_actions(state: ServerState, application: str) -> tuple[SizeChange, ...]:
    """Return all size changes of an application. Raises `HTTPException` 404 if there is none."""
    if application in latest_size_actions(state):
        with open_journal(state) as journal:
            return size_action_log.read_actions(journal, application)
    raise HTTPException(404, f"application {application} has no executor size changes")
