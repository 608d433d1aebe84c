"""/sizes and /sizes/NAME: the applications with executor size changes, and each change with its reason."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.views.executor_size_text import describe_sizes, format_size_change
from autotrascale.web.api.server_state import ServerStateDep
from autotrascale.web.api.size_actions import latest_size_actions, read_size_actions
from autotrascale.web.pages.page_route import PageRoute
from autotrascale.web.pages.rendering import render_page

MAX_LISTED = 200

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ApplicationName = Annotated[str, Path(max_length=250)]


@router.get("/sizes")
def list_applications(request: Request, state: ServerStateDep) -> Response:
    rows = [{"application": name, **_row(last)} for name, last in latest_size_actions(state).items()]
    return render_page(request, "sizes.html", rows=rows)


@router.get("/sizes/{application:path}")
def show_application(request: Request, application: ApplicationName, state: ServerStateDep) -> Response:
    actions = read_size_actions(state, application)
    rows = [_row(each) for each in reversed(actions[-MAX_LISTED:])]
    return render_page(request, "application.html", application=application, rows=rows, more=len(actions) - len(rows))


def _row(action: SizeChange) -> dict[str, Any]:
    return {
        "number": action.number,
        "at": action.at,
        "what": action.what,
        "policy": action.policy,
        "change": format_size_change(action),
        "why": action.reason.text,
        "sizes": describe_sizes(action.after),
    }
