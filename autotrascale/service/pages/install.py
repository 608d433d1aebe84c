"""The pages of an application: their routes, and what they hold while it runs."""

from __future__ import annotations

from fastapi import FastAPI

from autotrascale.service.api.state import State
from autotrascale.service.api.tokens import Tokens
from autotrascale.service.keeping import decisions_beside
from autotrascale.service.pages import api_docs, jobs, models, overview, runs, signing_in, sizes, static
from autotrascale.service.pages.board import Board
from autotrascale.service.pages.live import Live

ROUTERS = tuple(each.router for each in (overview, jobs, runs, models, sizes, api_docs, signing_in, static))


def install(app: FastAPI, state: State, tokens: Tokens | None) -> Board:
    """The board is for the caller to have looked at, again and again."""
    app.state.tokens, app.state.live = tokens, Live()
    app.state.board = board = Board(decisions_beside(state.store))
    for router in ROUTERS:
        app.include_router(router)
    return board
