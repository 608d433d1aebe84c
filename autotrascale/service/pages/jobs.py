"""`/jobs/NAME`: one job that is kept, over its time; what was decided and why; what it runs at, is asked for, costs."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from starlette.responses import JSONResponse, StreamingResponse

from autotrascale.plan.control.loop_state import State as LoopState
from autotrascale.service import plots as plots_of
from autotrascale.service.api.sizes import applications
from autotrascale.service.api.state import State, StateOf
from autotrascale.service.pages.board import Board, Session
from autotrascale.service.pages.html import page, render
from autotrascale.service.pages.live import Content, Live, Topic
from autotrascale.service.pages.overview import signed_in
from autotrascale.service.pages.route import BoardOf, LiveOf, PageRoute
from autotrascale.views.decisions import accuracy, bill, clock, holds, moved, why
from autotrascale.views.jobs import line
from autotrascale.views.plots import job as job_plots
from autotrascale.views.plots.job import Seen
from autotrascale.views.plots.plot import Plot
from autotrascale.views.plots.plotly import figure, more

DECISIONS = 30  # in the table
SESSIONS = 10
STEERING = "/v1/loops/{job}/pause"

router = APIRouter(route_class=PageRoute, include_in_schema=False)

OfJob = Annotated[str, Path(max_length=250)]
OfSession = Annotated[str | None, Query(max_length=40)]


@router.get("/jobs/{job:path}")
async def job(
    job: OfJob, request: Request, state: StateOf, board: BoardOf, live: LiveOf, session: OfSession = None
) -> Response:
    shown = await _session(state, board, job, session)
    topic = await _topic(state, board, live, shown)
    sized = job in await state.in_thread(lambda: applications(state))
    steered = shown.lives and STEERING in request.app.openapi()["paths"]
    return page(
        "job.html",
        signed_in=signed_in(request),
        session=shown,
        topic=topic,
        regions=topic.content.regions,
        running=shown.past.state.observed or {},
        steered=steered,
        plots=plots_of.titles(shown.past.state),
        sessions=board.marks.get(job, [])[:SESSIONS],
        runs=state.index.page(job, None, None, 1)[0],
        again=session,
        sized=sized,
    )


@router.get("/plots/jobs/{job:path}")
async def plots(job: OfJob, state: StateOf, board: BoardOf, session: OfSession = None) -> Response:
    shown = await _session(state, board, job, session)
    return JSONResponse(await state.compute(lambda: _plots(board, shown)))


@router.get("/live/jobs/{job:path}")
async def follow(
    job: OfJob, state: StateOf, board: BoardOf, live: LiveOf, session: OfSession = None, since: str = ""
) -> StreamingResponse:
    shown = await _session(state, board, job, session)
    return live.stream(state, await _topic(state, board, live, shown), since)


async def _session(state: State, board: Board, job: str, id: str | None) -> Session:
    found = board.session(job) if id is None else await state.in_thread(lambda: board.session(job, id))
    if found is None:
        raise HTTPException(404, f"no control loop has kept a job called {job} here")
    return found


async def _topic(state: State, board: Board, live: Live, shown: Session) -> Topic:
    job, id, news = shown.mark.job, shown.mark.id, _News()

    def now() -> Session:
        return board.session(job, id) or shown

    def mark() -> Hashable:
        current = board.session(job)
        return None if current is None or current.mark.id != id else (current.mark, current.lives)

    return await live.topic(state, f"job {id}", mark, lambda: _content(board, now(), news))


class _News:
    """Up to which look the plots of an open page have been told."""

    def __init__(self) -> None:
        self.last: Seen | None = None


def _content(board: Board, shown: Session, news: _News) -> Content:
    before, looks = news.last, board.looks(shown, news.last)
    news.last = looks[-1] if looks else before
    values: dict[str, dict[str, Any]] = {
        "status": {"session": shown, "line": line(shown.loop)},
        "operators": {"rows": _operators(shown.past.state), "simulated": shown.past.opening.simulated},
        "decisions": {"rows": _decisions(board, shown), "simulated": shown.past.opening.simulated},
        "sums": {"holds": holds(shown.past.state), "accuracy": accuracy(shown.past.state.checked)},
    }
    added = None
    if before is not None and looks:
        plots = {plot.name: {"says": plot.says, "traces": more(plot)} for plot in _history(shown, looks)}
        added = {"after": before.number, "upto": looks[-1].number, "plots": plots}
    return Content({name: render(f"regions/{name}.html", **values[name]) for name in values}, added)


def _history(shown: Session, looks: list[Seen]) -> list[Plot]:
    return job_plots.plots(shown.kept, looks)


def _plots(board: Board, shown: Session) -> dict[str, Any]:
    looks = board.looks(shown)
    found = plots_of.of_loop(shown.kept, shown.past.state, looks, board.snapshot(shown))
    return {"upto": looks[-1].number if looks else 0, "plots": [as_data(plot) for plot in found]}


def as_data(plot: Plot) -> dict[str, Any]:
    """For the page's script."""
    told = {"name": plot.name, "title": plot.title, "says": plot.says, "missing": plot.missing}
    return told if plot.missing else {**told, **figure(plot)}


def _operators(state: LoopState) -> list[tuple[str, int | None, int | None, int | None]]:
    """Operator, running, requested, recommended."""
    observed, requested, planned = state.observed or {}, state.requested or {}, state.planned or {}
    names = dict.fromkeys([*observed, *requested, *planned])
    return [(name, observed.get(name), requested.get(name), planned.get(name)) for name in names]


def _decisions(board: Board, shown: Session) -> list[dict[str, Any]]:
    opening = shown.past.opening
    return [
        {
            "number": each.number,
            "at": each.at,
            "clock": clock(each.entry["at"]),
            "action": each.entry["action"],
            "moved": moved(each.entry),
            "why": why(each.entry),
            "bill": bill(each.entry, opening.executor),
        }
        for each in board.decisions_of(shown, DECISIONS)
    ]
