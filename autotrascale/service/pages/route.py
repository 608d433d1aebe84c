"""A route of a page: what goes wrong on it is a page too."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from autotrascale.domain.errors import AuTraScaleError, InputError, RunStoreError
from autotrascale.service.pages.board import Board
from autotrascale.service.pages.html import page
from autotrascale.service.pages.live import Live
from autotrascale.service.queue import logs


class PageRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def shown(request: Request) -> Response:
            try:
                return await handler(request)
            except HTTPException as error:
                return sorry(error.status_code, str(error.detail))
            except RequestValidationError:
                return sorry(422, "the address holds something that this page does not understand")
            except InputError as error:
                return sorry(422, str(error))
            except RunStoreError as error:
                return sorry(503, str(error))
            except AuTraScaleError as error:
                return sorry(500, str(error))
            except Exception:
                logs.trace("page stumbled")
                return sorry(500, "This page cannot be shown: the server's log says why.")

        return shown


def sorry(status: int, why: str) -> Response:
    return page("error.html", status, title=HTTPStatus(status).phrase, why=why)


async def board_of(request: Request) -> Board:
    found: Board = request.app.state.board
    return found


async def live_of(request: Request) -> Live:
    found: Live = request.app.state.live
    return found


BoardOf = Annotated[Board, Depends(board_of)]
LiveOf = Annotated[Live, Depends(live_of)]
