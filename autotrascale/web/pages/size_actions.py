"""`/sizes` and `/sizes/NAME`: the applications whose executors were ever sized anew, and each action with why."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.views.executor_size_text import describe_sizes, format_size_change
from autotrascale.web.api.server_state import ServerStateDep
from autotrascale.web.api.size_actions import latest_size_actions, size_actions_of
from autotrascale.web.pages.overview import has_sign_in
from autotrascale.web.pages.page_route import PageRoute
from autotrascale.web.pages.rendering import render_page

LISTED = 200  # actions, the latest

router = APIRouter(route_class=PageRoute, include_in_schema=False)

OfApplication = Annotated[str, Path(max_length=250)]


@router.get("/sizes")
def ls(request: Request, state: ServerStateDep) -> Response:
    rows = [{"application": name, **_row(last)} for name, last in latest_size_actions(state).items()]
    return render_page("sizes.html", signed_in=has_sign_in(request), rows=rows)


@router.get("/sizes/{application:path}")
def show(request: Request, application: OfApplication, state: ServerStateDep) -> Response:
    found = size_actions_of(state, application)
    rows = [_row(each) for each in reversed(found[-LISTED:])]
    return render_page(
        "application.html",
        signed_in=has_sign_in(request),
        application=application,
        rows=rows,
        more=len(found) - len(rows),
    )


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
