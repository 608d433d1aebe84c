"""/jobs/NAME: one job with its control loop: its state, its history, the decisions with reasons, and commands."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from starlette.responses import JSONResponse, StreamingResponse

from autotrascale.app import plot_sets
from autotrascale.knowledge.decision_journal.loop_status import JournaledLoop
from autotrascale.plan.control.loop_state import State
from autotrascale.views.decision_text import (
    describe_accuracy,
    describe_holds,
    format_change,
    format_clock,
    format_cost_change,
    format_reasons,
)
from autotrascale.views.loop_status_text import describe_loop
from autotrascale.views.plots.loop_history import PlottedLoop, PlottedObservation, plot_loop
from autotrascale.views.plots.plot import Plot
from autotrascale.views.plots.plotly import build_extension, build_figure
from autotrascale.web.api.server_state import ServerState, ServerStateDep
from autotrascale.web.api.size_actions import latest_size_actions
from autotrascale.web.pages.live_updates import LiveTopics, Topic, TopicContent
from autotrascale.web.pages.page_route import LiveDep, PageRoute
from autotrascale.web.pages.rendering import render_page, render_template

MAX_DECISIONS = 30
MAX_SESSIONS = 10

router = APIRouter(route_class=PageRoute, include_in_schema=False)

JobName = Annotated[str, Path(max_length=250)]
SessionId = Annotated[str | None, Query(max_length=40)]


@router.get("/jobs/{job:path}")
async def show_job(
    job: JobName, request: Request, state: ServerStateDep, live: LiveDep, session: SessionId = None
) -> Response:
    shown = await _find_loop(state, job, session)
    topic = await _topic(state, live, shown)
    has_sizes = job in await state.in_thread(lambda: latest_size_actions(state))
    return render_page(
        request,
        "job.html",
        job=job,
        session=shown.session,
        chosen_session=session,
        topic=topic,
        regions=topic.content.regions,
        accepts_commands=shown.is_alive,
        running=shown.session.state.observed or {},
        plots=plot_sets.list_loop_plots(shown.session.state),
        sessions=state.loops.marks.get(job, [])[:MAX_SESSIONS],
        has_runs=bool(state.index.page(job, None, None, 1)[0]),
        has_sizes=has_sizes,
    )


@router.get("/plots/jobs/{job:path}")
async def send_plots(job: JobName, state: ServerStateDep, session: SessionId = None) -> Response:
    shown = await _find_loop(state, job, session)
    return JSONResponse(await state.compute(lambda: _plots(state, shown)))


@router.get("/live/jobs/{job:path}")
async def follow_job(
    job: JobName, state: ServerStateDep, live: LiveDep, session: SessionId = None, since: str = ""
) -> StreamingResponse:
    shown = await _find_loop(state, job, session)
    return live.stream(state, await _topic(state, live, shown), since)


def loop_values(loop: JournaledLoop) -> dict[str, Any]:
    """Return the values of a loop that templates show."""
    return {
        "job": loop.job,
        "text": describe_loop(loop),
        "statistic": loop.session.header.statistic,
        "simulated": loop.session.header.simulated,
        "advises": loop.session.header.advise,
        "measured_at": None if loop.measured is None else loop.measured.at,
        "observed_at": loop.session.written,
    }


def plot_as_data(plot: Plot) -> dict[str, Any]:
    """Return a plot for the page's script."""
    data = {"name": plot.name, "title": plot.title, "caption": plot.caption, "missing": plot.missing}
    return data if plot.missing else {**data, **build_figure(plot)}


async def _find_loop(state: ServerState, job: str, id: str | None) -> JournaledLoop:
    loop = state.loops.loop(job) if id is None else await state.in_thread(lambda: state.loops.loop(job, id))
    if loop is None:
        raise HTTPException(404, f"no control loop of this store has scaled a job called {job}")
    return loop


class _PlotProgress:
    """The last observation that the plots of an open page show."""

    def __init__(self) -> None:
        self.last: PlottedObservation | None = None


async def _topic(state: ServerState, live: LiveTopics, shown: JournaledLoop) -> Topic:
    job, id, progress = shown.job, shown.session.id, _PlotProgress()

    def version_of() -> Hashable:
        current = state.loops.loop(job)
        if current is None or current.session.id != id:
            return None
        return state.loops.mark(current), current.is_alive

    def make() -> TopicContent:
        return _content(state, state.loops.loop(job, id) or shown, progress)

    return await live.topic(state, f"job {id}", version_of, make)


def _content(state: ServerState, shown: JournaledLoop, progress: _PlotProgress) -> TopicContent:
    before, observations = progress.last, state.loops.observations(shown, progress.last)
    progress.last = observations[-1] if observations else before
    loop_state, simulated = shown.session.state, shown.session.header.simulated
    values: dict[str, dict[str, Any]] = {
        "status": loop_values(shown),
        "operators": {"rows": _operators(loop_state)},
        "decisions": {"rows": _decisions(state, shown), "simulated": simulated},
        "sums": {"holds": describe_holds(loop_state), "accuracy": describe_accuracy(loop_state.checked)},
    }
    added = None
    if before is not None and observations:
        new = plot_loop(PlottedLoop(shown.session.header.target, simulated), observations)
        plots = {plot.name: {"caption": plot.caption, "traces": build_extension(plot)} for plot in new}
        added = {"after": before.number, "upto": observations[-1].number, "plots": plots}
    return TopicContent({name: render_template(f"regions/{name}.html", **values[name]) for name in values}, added)


def _plots(state: ServerState, shown: JournaledLoop) -> dict[str, Any]:
    observations, header = state.loops.observations(shown), shown.session.header
    plots = plot_sets.plot_loop(
        PlottedLoop(header.target, header.simulated), shown.session.state, observations, state.loops.snapshot(shown)
    )
    return {"upto": observations[-1].number if observations else 0, "plots": [plot_as_data(plot) for plot in plots]}


def _operators(state: State) -> list[tuple[str, int | None, int | None, int | None]]:
    """Return operator, running, requested and recommended instances."""
    observed, requested, planned = state.observed or {}, state.requested or {}, state.planned or {}
    names = dict.fromkeys([*observed, *requested, *planned])
    return [(name, observed.get(name), requested.get(name), planned.get(name)) for name in names]


def _decisions(state: ServerState, shown: JournaledLoop) -> list[dict[str, Any]]:
    return [
        {
            "at": each.at,
            "clock": format_clock(each.entry["at"]),
            "action": each.entry["action"],
            "change": format_change(each.entry),
            "why": format_reasons(each.entry),
            "cost": format_cost_change(each.entry, shown.session.header.executor),
        }
        for each in state.loops.decisions(shown, MAX_DECISIONS)
    ]
