"""The pages of an application: their routes, and what they hold while it runs."""

from __future__ import annotations

from fastapi import FastAPI

from autotrascale.app.loop_session import open_decisions
from autotrascale.web.api.server_state import ServerState
from autotrascale.web.api.tokens import Tokens
from autotrascale.web.pages import api_docs, jobs, models, overview, sign_in, size_actions, static_files, tuning_runs
from autotrascale.web.pages.live_updates import LiveTopics
from autotrascale.web.pages.loop_board import LoopBoard

ROUTERS = tuple(
    each.router for each in (overview, jobs, tuning_runs, models, size_actions, api_docs, sign_in, static_files)
)


def install_pages(app: FastAPI, state: ServerState, tokens: Tokens | None) -> LoopBoard:
    """The board is for the caller to have looked at, again and again."""
    app.state.tokens, app.state.live = tokens, LiveTopics()
    app.state.board = board = LoopBoard(open_decisions(state.store))
    for router in ROUTERS:
        app.include_router(router)
    return board
