"""`/jobs/NAME`: one job that is kept, over its time; what was decided and why; what it runs at, is asked for, costs."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from starlette.responses import JSONResponse, StreamingResponse

from autotrascale.app import plot_sets as plots_of
from autotrascale.plan.control.loop_state import State as LoopState
from autotrascale.views.decision_text import (
    describe_accuracy,
    describe_holds,
    format_change,
    format_clock,
    format_cost_change,
    format_reasons,
)
from autotrascale.views.loop_line import describe_loop
from autotrascale.views.plots import loop_history as job_plots
from autotrascale.views.plots.loop_history import PlottedObservation
from autotrascale.views.plots.plot import Plot
from autotrascale.views.plots.plotly import build_extension, build_figure
from autotrascale.web.api.server_state import ServerState, ServerStateDep
from autotrascale.web.api.size_actions import latest_size_actions
from autotrascale.web.pages.live_updates import LiveTopics, Topic, TopicContent
from autotrascale.web.pages.loop_board import LoopBoard, ShownSession
from autotrascale.web.pages.overview import has_sign_in
from autotrascale.web.pages.page_route import BoardDep, LiveDep, PageRoute
from autotrascale.web.pages.rendering import render_page, render_template

DECISIONS = 30  # in the table
SESSIONS = 10
STEERING = "/v1/loops/{job}/pause"

router = APIRouter(route_class=PageRoute, include_in_schema=False)

OfJob = Annotated[str, Path(max_length=250)]
OfSession = Annotated[str | None, Query(max_length=40)]


@router.get("/jobs/{job:path}")
async def job(
    job: OfJob, request: Request, state: ServerStateDep, board: BoardDep, live: LiveDep, session: OfSession = None
) -> Response:
    shown = await _session(state, board, job, session)
    topic = await _topic(state, board, live, shown)
    sized = job in await state.in_thread(lambda: latest_size_actions(state))
    steered = shown.lives and STEERING in request.app.openapi()["paths"]
    return render_page(
        "job.html",
        signed_in=has_sign_in(request),
        session=shown,
        topic=topic,
        regions=topic.content.regions,
        running=shown.past.state.observed or {},
        steered=steered,
        plots=plots_of.list_loop_plots(shown.past.state),
        sessions=board.marks.get(job, [])[:SESSIONS],
        runs=state.index.page(job, None, None, 1)[0],
        again=session,
        sized=sized,
    )


@router.get("/plots/jobs/{job:path}")
async def plots(job: OfJob, state: ServerStateDep, board: BoardDep, session: OfSession = None) -> Response:
    shown = await _session(state, board, job, session)
    return JSONResponse(await state.compute(lambda: _plots(board, shown)))


@router.get("/live/jobs/{job:path}")
async def follow(
    job: OfJob, state: ServerStateDep, board: BoardDep, live: LiveDep, session: OfSession = None, since: str = ""
) -> StreamingResponse:
    shown = await _session(state, board, job, session)
    return live.stream(state, await _topic(state, board, live, shown), since)


async def _session(state: ServerState, board: LoopBoard, job: str, id: str | None) -> ShownSession:
    found = board.session(job) if id is None else await state.in_thread(lambda: board.session(job, id))
    if found is None:
        raise HTTPException(404, f"no control loop has kept a job called {job} here")
    return found


async def _topic(state: ServerState, board: LoopBoard, live: LiveTopics, shown: ShownSession) -> Topic:
    job, id, news = shown.mark.job, shown.mark.id, _News()

    def now() -> ShownSession:
        return board.session(job, id) or shown

    def mark() -> Hashable:
        current = board.session(job)
        return None if current is None or current.mark.id != id else (current.mark, current.lives)

    return await live.topic(state, f"job {id}", mark, lambda: _content(board, now(), news))


class _News:
    """Up to which look the plots of an open page have been told."""

    def __init__(self) -> None:
        self.last: PlottedObservation | None = None


def _content(board: LoopBoard, shown: ShownSession, news: _News) -> TopicContent:
    before, looks = news.last, board.looks(shown, news.last)
    news.last = looks[-1] if looks else before
    values: dict[str, dict[str, Any]] = {
        "status": {"session": shown, "line": describe_loop(shown.loop)},
        "operators": {"rows": _operators(shown.past.state), "simulated": shown.past.opening.simulated},
        "decisions": {"rows": _decisions(board, shown), "simulated": shown.past.opening.simulated},
        "sums": {"holds": describe_holds(shown.past.state), "accuracy": describe_accuracy(shown.past.state.checked)},
    }
    added = None
    if before is not None and looks:
        plots = {plot.name: {"says": plot.says, "traces": build_extension(plot)} for plot in _history(shown, looks)}
        added = {"after": before.number, "upto": looks[-1].number, "plots": plots}
    return TopicContent({name: render_template(f"regions/{name}.html", **values[name]) for name in values}, added)


def _history(shown: ShownSession, looks: list[PlottedObservation]) -> list[Plot]:
    return job_plots.plot_loop(shown.kept, looks)


def _plots(board: LoopBoard, shown: ShownSession) -> dict[str, Any]:
    looks = board.looks(shown)
    found = plots_of.plot_loop(shown.kept, shown.past.state, looks, board.snapshot(shown))
    return {"upto": looks[-1].number if looks else 0, "plots": [plot_as_data(plot) for plot in found]}


def plot_as_data(plot: Plot) -> dict[str, Any]:
    """For the page's script."""
    told = {"name": plot.name, "title": plot.title, "says": plot.says, "missing": plot.missing}
    return told if plot.missing else {**told, **build_figure(plot)}


def _operators(state: LoopState) -> list[tuple[str, int | None, int | None, int | None]]:
    """Operator, running, requested, recommended."""
    observed, requested, planned = state.observed or {}, state.requested or {}, state.planned or {}
    names = dict.fromkeys([*observed, *requested, *planned])
    return [(name, observed.get(name), requested.get(name), planned.get(name)) for name in names]


def _decisions(board: LoopBoard, shown: ShownSession) -> list[dict[str, Any]]:
    opening = shown.past.opening
    return [
        {
            "number": each.number,
            "at": each.at,
            "clock": format_clock(each.entry["at"]),
            "action": each.entry["action"],
            "moved": format_change(each.entry),
            "why": format_reasons(each.entry),
            "bill": format_cost_change(each.entry, opening.executor),
        }
        for each in board.decisions_of(shown, DECISIONS)
    ]
