"""The route class of pages: errors become pages, too."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from autotrascale.app.run_queue import server_log
from autotrascale.domain.errors import AuTraScaleError, InputError, RunStoreError
from autotrascale.web.pages.live_updates import LiveTopics
from autotrascale.web.pages.rendering import render_page


class PageRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except Exception as error:
                return _error_page(request, *_explain(error))

        return handle


def _explain(error: Exception) -> tuple[int, str]:
    if isinstance(error, HTTPException):
        return error.status_code, str(error.detail)
    if isinstance(error, RequestValidationError):
        return 422, "The address has a part that this page does not understand."
    if isinstance(error, AuTraScaleError):
        status = 422 if isinstance(error, InputError) else 503 if isinstance(error, RunStoreError) else 500
        return status, str(error)
    server_log.exception("page failed")
    return 500, "This page cannot be shown. The server's log has the details."


def _error_page(request: Request, status: int, why: str) -> Response:
    return render_page(request, "error.html", status, title=HTTPStatus(status).phrase, why=why)


async def get_live_topics(request: Request) -> LiveTopics:
    topics: LiveTopics = request.app.state.live
    return topics


LiveDep = Annotated[LiveTopics, Depends(get_live_topics)]
