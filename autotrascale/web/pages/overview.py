"""`/`: the jobs that are kept, the runs that tuned them, the job files, and whether the server does what it is for."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from autotrascale.knowledge.run_history import RunSummary
from autotrascale.views.loop_line import describe_loop
from autotrascale.web.api.health import check_health
from autotrascale.web.api.server_state import ServerState, ServerStateDep
from autotrascale.web.pages.live_updates import LiveTopics, Topic, TopicContent
from autotrascale.web.pages.loop_board import LoopBoard
from autotrascale.web.pages.page_route import BoardDep, LiveDep, PageRoute
from autotrascale.web.pages.rendering import render_page, render_template

RUNS = 10
JOBS = 50  # that a loop keeps or kept
REGIONS = ("health", "loops", "runs", "files")

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/")
async def overview(request: Request, state: ServerStateDep, board: BoardDep, live: LiveDep) -> Response:
    topic = await _topic(state, board, live)
    return render_page("overview.html", signed_in=has_sign_in(request), topic=topic, regions=topic.content.regions)


@router.get("/live/overview")
async def follow(state: ServerStateDep, board: BoardDep, live: LiveDep, since: str = "") -> StreamingResponse:
    return live.stream(state, await _topic(state, board, live), since)


def has_sign_in(request: Request) -> bool:
    """Whether there is anything to sign out of."""
    return request.app.state.tokens is not None


async def _topic(state: ServerState, board: LoopBoard, live: LiveTopics) -> Topic:
    return await live.topic(state, "overview", lambda: _mark(state, board), lambda: _content(state, board))


def _mark(state: ServerState, board: LoopBoard) -> Hashable:
    loops = tuple((each.mark, each.lives) for each in list(board.sessions.values()))
    now = check_health(state)
    return loops, board.problem, _runs(state), tuple(now.problems), now.queued, state.catalog.counted


def _runs(state: ServerState) -> tuple[RunSummary | None, ...]:
    found, _ = state.index.page(None, None, None, RUNS)
    return tuple(state.index.known(run_id) for run_id in found)


def _content(state: ServerState, board: LoopBoard) -> TopicContent:
    sessions = sorted(board.sessions.values(), key=lambda each: (not each.lives, -each.mark.written))
    rows = [(each, describe_loop(each.loop)) for each in sessions[:JOBS]]
    found, more = state.index.page(None, None, None, RUNS)
    runs = [run for run in (state.index.get(run_id) for run_id in found) if run is not None]
    values: dict[str, dict[str, Any]] = {
        "health": {"health": check_health(state)},
        "loops": {"rows": rows, "problem": board.problem, "more": len(sessions) - len(rows)},
        "runs": {"runs": runs, "more": more is not None, "paths": None},
        "files": {"files": state.catalog.all(), "folder": state.catalog.folder},
    }
    return TopicContent({name: render_template(f"regions/{name}.html", **values[name]) for name in REGIONS})
