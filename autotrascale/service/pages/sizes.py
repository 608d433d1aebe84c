"""`/sizes` and `/sizes/NAME`: the applications whose executors were ever sized anew, and each action with why."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from autotrascale.plan.executor_size.actions import Action
from autotrascale.service.api.sizes import applications, history
from autotrascale.service.api.state import StateOf
from autotrascale.service.pages.html import page
from autotrascale.service.pages.overview import signed_in
from autotrascale.service.pages.route import PageRoute
from autotrascale.views.sizes import change, in_words

LISTED = 200  # actions, the latest

router = APIRouter(route_class=PageRoute, include_in_schema=False)

OfApplication = Annotated[str, Path(max_length=250)]


@router.get("/sizes")
def ls(request: Request, state: StateOf) -> Response:
    rows = [{"application": name, **_row(last)} for name, last in applications(state).items()]
    return page("sizes.html", signed_in=signed_in(request), rows=rows)


@router.get("/sizes/{application:path}")
def show(request: Request, application: OfApplication, state: StateOf) -> Response:
    found = history(state, application)
    rows = [_row(each) for each in reversed(found[-LISTED:])]
    return page(
        "application.html",
        signed_in=signed_in(request),
        application=application,
        rows=rows,
        more=len(found) - len(rows),
    )


def _row(action: Action) -> dict[str, Any]:
    return {
        "number": action.number,
        "at": action.at,
        "what": action.what,
        "policy": action.policy,
        "change": change(action),
        "why": action.reason.text,
        "sizes": in_words(action.after),
    }
