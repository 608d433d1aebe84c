"""/: the jobs with a control loop, the latest tuning runs, the job files, and the health of the server."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from autotrascale.knowledge.run_history import RunSummary
from autotrascale.web.api.health import check_health
from autotrascale.web.api.server_state import ServerState, ServerStateDep
from autotrascale.web.pages.jobs import loop_values
from autotrascale.web.pages.live_updates import LiveTopics, Topic, TopicContent
from autotrascale.web.pages.page_route import LiveDep, PageRoute
from autotrascale.web.pages.rendering import render_page, render_template

MAX_RUNS = 10
MAX_JOBS = 50

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/")
async def show_overview(request: Request, state: ServerStateDep, live: LiveDep) -> Response:
    topic = await _topic(state, live)
    return render_page(request, "overview.html", topic=topic, regions=topic.content.regions)


@router.get("/live/overview")
async def follow_overview(state: ServerStateDep, live: LiveDep, since: str = "") -> StreamingResponse:
    return live.stream(state, await _topic(state, live), since)


async def _topic(state: ServerState, live: LiveTopics) -> Topic:
    return await live.topic(state, "overview", lambda: _version(state), lambda: _content(state))


def _version(state: ServerState) -> Hashable:
    loops = tuple((state.loops.mark(each), each.is_alive) for each in list(state.loops.loops.values()))
    health = check_health(state)
    return loops, state.loops.problem, _runs(state), tuple(health.problems), health.queued, state.catalog.counts


def _runs(state: ServerState) -> tuple[RunSummary | None, ...]:
    run_ids, _ = state.index.page(None, None, None, MAX_RUNS)
    return tuple(state.index.get_cached(run_id) for run_id in run_ids)


def _content(state: ServerState) -> TopicContent:
    loops = sorted(state.loops.loops.values(), key=lambda each: (not each.is_alive, -each.session.written))
    run_ids, more = state.index.page(None, None, None, MAX_RUNS)
    runs = [run for run in (state.index.get(run_id) for run_id in run_ids) if run is not None]
    values: dict[str, dict[str, Any]] = {
        "health": {"health": check_health(state)},
        "loops": {
            "rows": [loop_values(each) for each in loops[:MAX_JOBS]],
            "problem": state.loops.problem,
            "more": max(0, len(loops) - MAX_JOBS),
        },
        "runs": {"runs": runs, "more": more is not None},
        "files": {"files": state.catalog.all(), "folder": state.catalog.folder},
    }
    return TopicContent({name: render_template(f"regions/{name}.html", **values[name]) for name in values})
