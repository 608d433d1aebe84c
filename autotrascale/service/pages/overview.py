"""`/`: the jobs that are kept, the runs that tuned them, the job files, and whether the server does what it is for."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from autotrascale.knowledge.history import Summary
from autotrascale.service.api.health import health
from autotrascale.service.api.state import State, StateOf
from autotrascale.service.pages.board import Board
from autotrascale.service.pages.html import page, render
from autotrascale.service.pages.live import Content, Live, Topic
from autotrascale.service.pages.route import BoardOf, LiveOf, PageRoute
from autotrascale.views.jobs import line

RUNS = 10
JOBS = 50  # that a loop keeps or kept
REGIONS = ("health", "loops", "runs", "files")

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/")
async def overview(request: Request, state: StateOf, board: BoardOf, live: LiveOf) -> Response:
    topic = await _topic(state, board, live)
    return page("overview.html", signed_in=signed_in(request), topic=topic, regions=topic.content.regions)


@router.get("/live/overview")
async def follow(state: StateOf, board: BoardOf, live: LiveOf, since: str = "") -> StreamingResponse:
    return live.stream(state, await _topic(state, board, live), since)


def signed_in(request: Request) -> bool:
    """Whether there is anything to sign out of."""
    return request.app.state.tokens is not None


async def _topic(state: State, board: Board, live: Live) -> Topic:
    return await live.topic(state, "overview", lambda: _mark(state, board), lambda: _content(state, board))


def _mark(state: State, board: Board) -> Hashable:
    loops = tuple((each.mark, each.lives) for each in list(board.sessions.values()))
    now = health(state)
    return loops, board.problem, _runs(state), tuple(now.problems), now.queued, state.catalog.counted


def _runs(state: State) -> tuple[Summary | None, ...]:
    found, _ = state.index.page(None, None, None, RUNS)
    return tuple(state.index.known(run_id) for run_id in found)


def _content(state: State, board: Board) -> Content:
    sessions = sorted(board.sessions.values(), key=lambda each: (not each.lives, -each.mark.written))
    rows = [(each, line(each.loop)) for each in sessions[:JOBS]]
    found, more = state.index.page(None, None, None, RUNS)
    runs = [run for run in (state.index.get(run_id) for run_id in found) if run is not None]
    values: dict[str, dict[str, Any]] = {
        "health": {"health": health(state)},
        "loops": {"rows": rows, "problem": board.problem, "more": len(sessions) - len(rows)},
        "runs": {"runs": runs, "more": more is not None, "paths": None},
        "files": {"files": state.catalog.all(), "folder": state.catalog.folder},
    }
    return Content({name: render(f"regions/{name}.html", **values[name]) for name in REGIONS})
