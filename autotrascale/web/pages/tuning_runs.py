"""/runs, /runs/ID and /compare: tuning runs, their trials and verdicts, and runs side by side."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Query, Request, Response
from starlette.responses import JSONResponse, StreamingResponse

from autotrascale.app import plot_sets
from autotrascale.domain.errors import InputError
from autotrascale.knowledge import run_history
from autotrascale.knowledge.run_history import RunRecord, RunSummary
from autotrascale.plan.formatting import format_amount
from autotrascale.tuning import Outcome
from autotrascale.views.explanation import explain_operators
from autotrascale.views.plots.run_comparison import plot_trials_of_runs
from autotrascale.views.verdict import summarize_outcome
from autotrascale.web.api.server_state import RunDep, ServerState, ServerStateDep
from autotrascale.web.pages.jobs import plot_as_data
from autotrascale.web.pages.live_updates import RELOAD_PLOTS, LiveTopics, Topic, TopicContent
from autotrascale.web.pages.page_route import LiveDep, PageRoute
from autotrascale.web.pages.rendering import render_page, render_template

MAX_LISTED = 50
MAX_COMPARED = 6

router = APIRouter(route_class=PageRoute, include_in_schema=False)

RunIds = Annotated[list[str], Query()]


@router.get("/runs")
async def list_runs(
    request: Request,
    state: ServerStateDep,
    job: Annotated[str | None, Query(max_length=250)] = None,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    run_ids, more = state.index.page(job, None, cursor, MAX_LISTED)
    runs = await state.in_thread(lambda: [state.index.get(run_id) for run_id in run_ids])
    return render_page(request, "runs.html", runs=[run for run in runs if run is not None], job=job, cursor=more)


@router.get("/runs/{run_id}")
async def show_run(request: Request, run: RunDep, state: ServerStateDep, live: LiveDep) -> Response:
    topic = await _topic(state, live, run.run_id)
    operators = await state.in_thread(lambda: _sliced_operators(state, run))
    slices = [(f"slice-{i}", f"Expected latency: {name}") for i, name in enumerate(operators)]
    return render_page(
        request,
        "run.html",
        run=run,
        topic=topic,
        regions=topic.content.regions,
        plots=plot_sets.RUN_PLOTS,
        slices=slices,
        is_queued=state.queue.knows(run.run_id),
    )


@router.get("/plots/runs/{run_id}")
async def send_plots(run: RunDep, state: ServerStateDep) -> Response:
    return JSONResponse(await state.compute(lambda: state.runs.get("plots", run, lambda: _plots(state, run))))


@router.get("/live/runs/{run_id}")
async def follow_run(run: RunDep, state: ServerStateDep, live: LiveDep, since: str = "") -> StreamingResponse:
    return live.stream(state, await _topic(state, live, run.run_id), since)


@router.get("/compare")
async def compare_runs(request: Request, state: ServerStateDep, run: RunIds = []) -> Response:  # noqa: B006
    chosen = await state.in_thread(lambda: _find_chosen(state, run))
    rows = await state.in_thread(lambda: [(each, _cached_explanation(state, each)) for each in chosen])
    address = "/plots/compare?" + urlencode([("run", each.run_id) for each in chosen])
    return render_page(request, "compare.html", rows=rows, address=address)


@router.get("/plots/compare")
async def send_comparison(state: ServerStateDep, run: RunIds = []) -> Response:  # noqa: B006
    chosen = await state.in_thread(lambda: _find_chosen(state, run))
    tried = await state.in_thread(lambda: {_label(each): state.runs.evaluations(each) for each in chosen})
    plot = plot_trials_of_runs(tried, [each.latency_target or 0.0 for each in chosen])
    return JSONResponse({"upto": 0, "plots": [plot_as_data(plot)]})


async def _topic(state: ServerState, live: LiveTopics, run_id: str) -> Topic:
    def version_of() -> Hashable:
        return state.index.get_cached(run_id)

    return await live.topic(state, f"run {run_id}", version_of, lambda: _content(state, run_id))


def _content(state: ServerState, run_id: str) -> TopicContent:
    run = state.index.get(run_id)
    if run is None:
        raise HTTPException(404, f"run {run_id} is not in the store")
    evaluations = state.runs.evaluations(run) if run.evaluations else ()
    values: dict[str, Mapping[str, Any]] = {
        "run_status": {"run": run, "next_step": _next_step(state, run)},
        "run_why": _cached_explanation(state, run),
        "evaluations": {"evaluations": evaluations, "run": run},
    }
    regions = {name: render_template(f"regions/{name}.html", **values[name]) for name in values}
    return TopicContent(regions, RELOAD_PLOTS)


def _cached_explanation(state: ServerState, run: RunSummary) -> Mapping[str, Any]:
    return state.runs.get("page", run, lambda: _explain(state, run))


def _explain(state: ServerState, run: RunSummary) -> dict[str, Any]:
    """Return the verdict and the reason for each operator, or why they are missing."""
    empty: dict[str, Any] = {"verdict": "", "operators": [], "remarks": []}
    if not run.evaluations:
        return {**empty, "missing": "No trial is finished yet."}
    try:
        record, outcome = _outcome(state, run)
    except InputError as error:
        return {**empty, "missing": str(error)}
    remarks = [*outcome.remarks, *record.opening.warm_start]
    operators = explain_operators(outcome)
    return {"verdict": summarize_outcome(outcome), "operators": operators, "remarks": remarks, "missing": ""}


def _outcome(state: ServerState, run: RunSummary) -> tuple[RunRecord, Outcome]:
    def compute() -> tuple[RunRecord, Outcome]:
        record = state.runs.record(run.run_id)
        return record, run_history.compute_outcome(record)

    return state.runs.get("outcome", run, compute)


def _next_step(state: ServerState, run: RunSummary) -> str:
    match run.state:
        case "queued":
            return "The run waits for its turn."
        case "running":
            return "The next trial runs."
        case "interrupted" | "crashed" if state.queue.knows(run.run_id):
            return "The run continues by itself."
        case "interrupted" | "crashed" | "failed":
            return "Nothing by itself. Resume the run to continue after its last trial."
    if run.met_target:
        return "Set this parallelism, or scale the job from here with: autotrascale autoscale"
    return "Nothing by itself. The verdict below says what to try."


def _sliced_operators(state: ServerState, run: RunSummary) -> list[str]:
    if not run.evaluations:
        return []
    try:
        _, outcome = _outcome(state, run)
    except InputError:
        return []
    return [] if outcome.model is None else list(outcome.job.topology)[: plot_sets.MAX_OPERATORS]


def _plots(state: ServerState, run: RunSummary) -> dict[str, Any]:
    plots = plot_sets.plot_run(*_outcome(state, run)) if run.evaluations else plot_sets.plot_empty_run()
    return {"upto": run.evaluations, "plots": [plot_as_data(plot) for plot in plots]}


def _find_chosen(state: ServerState, run_ids: Sequence[str]) -> list[RunSummary]:
    if not 1 <= len(set(run_ids)) <= MAX_COMPARED:
        raise HTTPException(422, f"choose one to {MAX_COMPARED} runs to compare")
    runs = [state.index.get(run_id) for run_id in dict.fromkeys(run_ids)]
    if None in runs:
        raise HTTPException(404, "one of these runs is not in the store")
    return [each for each in runs if each is not None]


def _label(run: RunSummary) -> str:
    rate = "" if run.rate is None else f" at {format_amount(run.rate)}/s"
    return f"{run.job}{rate} ({run.run_id[:6]})"
