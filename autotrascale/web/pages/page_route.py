"""A route of a page: what goes wrong on it is a page too."""

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
from autotrascale.web.pages.loop_board import LoopBoard
from autotrascale.web.pages.rendering import render_page


class PageRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def shown(request: Request) -> Response:
            try:
                return await handler(request)
            except HTTPException as error:
                return error_page(error.status_code, str(error.detail))
            except RequestValidationError:
                return error_page(422, "the address holds something that this page does not understand")
            except InputError as error:
                return error_page(422, str(error))
            except RunStoreError as error:
                return error_page(503, str(error))
            except AuTraScaleError as error:
                return error_page(500, str(error))
            except Exception:
                server_log.exception("page stumbled")
                return error_page(500, "This page cannot be shown: the server's log says why.")

        return shown


def error_page(status: int, why: str) -> Response:
    return render_page("error.html", status, title=HTTPStatus(status).phrase, why=why)


async def board_of(request: Request) -> LoopBoard:
    found: LoopBoard = request.app.state.board
    return found


async def live_of(request: Request) -> LiveTopics:
    found: LiveTopics = request.app.state.live
    return found


BoardDep = Annotated[LoopBoard, Depends(board_of)]
LiveDep = Annotated[LiveTopics, Depends(live_of)]
