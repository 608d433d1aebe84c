"""`/runs` and `/runs/ID`: tuning runs, what each tried, why it ended where it did, and runs side by side."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Query, Request, Response
from starlette.responses import JSONResponse, StreamingResponse

from autotrascale.app import plot_sets as plots_of
from autotrascale.domain.errors import InputError
from autotrascale.domain.trial import Verdict
from autotrascale.knowledge import run_history
from autotrascale.knowledge.run_history import RunRecord, RunSummary
from autotrascale.plan.formatting import format_amount
from autotrascale.tuning import Outcome
from autotrascale.views.explanation import explain_operators
from autotrascale.views.plots import run_comparison
from autotrascale.views.verdict import summarize_outcome
from autotrascale.web.api.server_state import RunDep, ServerState, ServerStateDep
from autotrascale.web.pages.jobs import plot_as_data
from autotrascale.web.pages.live_updates import LiveTopics, Topic, TopicContent
from autotrascale.web.pages.overview import has_sign_in
from autotrascale.web.pages.page_route import LiveDep, PageRoute
from autotrascale.web.pages.rendering import render_page, render_template

LISTED = 50
BESIDE = 6  # runs side by side

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/runs")
async def ls(
    request: Request,
    state: ServerStateDep,
    job: Annotated[str | None, Query(max_length=250)] = None,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    found, more = state.index.page(job, None, cursor, LISTED)
    runs = await state.in_thread(lambda: [state.index.get(run_id) for run_id in found])
    return render_page(
        "runs.html", signed_in=has_sign_in(request), runs=[run for run in runs if run is not None], job=job, cursor=more
    )


@router.get("/runs/{run_id}")
async def run(request: Request, run: RunDep, state: ServerStateDep, live: LiveDep) -> Response:
    topic = await _topic(state, live, run.run_id)
    operators = await state.in_thread(lambda: _operators(state, run))
    slices = [(f"slice-{i}", f"Expected latency: {name}") for i, name in enumerate(operators[: plots_of.MAX_OPERATORS])]
    return render_page(
        "run.html",
        signed_in=has_sign_in(request),
        run=run,
        topic=topic,
        regions=topic.content.regions,
        plots=plots_of.RUN_PLOTS,
        slices=slices,
        waits=state.queue.knows(run.run_id),
    )


@router.get("/plots/runs/{run_id}")
async def plots(run: RunDep, state: ServerStateDep) -> Response:
    return JSONResponse(await state.compute(lambda: state.journals.kept("plots", run, lambda: _plots(state, run))))


@router.get("/live/runs/{run_id}")
async def follow(run: RunDep, state: ServerStateDep, live: LiveDep, since: str = "") -> StreamingResponse:
    return live.stream(state, await _topic(state, live, run.run_id), since)


@router.get("/compare")
async def side_by_side(request: Request, state: ServerStateDep, run: Annotated[list[str], Query()] = []) -> Response:  # noqa: B006
    chosen = await state.in_thread(lambda: _chosen(state, run))
    rows = await state.in_thread(lambda: [(each, _kept_told(state, each)) for each in chosen])
    address = "/plots/compare?" + urlencode([("run", each.run_id) for each in chosen])
    return render_page("compare.html", signed_in=has_sign_in(request), rows=rows, address=address)


@router.get("/plots/compare")
async def compared(state: ServerStateDep, run: Annotated[list[str], Query()] = []) -> Response:  # noqa: B006
    chosen = await state.in_thread(lambda: _chosen(state, run))
    tried = await state.in_thread(lambda: {_label(each): state.journals.evaluations(each) for each in chosen})
    plot = run_comparison.plot_trials_of_runs(tried, [each.latency_target or 0.0 for each in chosen])
    return JSONResponse({"upto": 0, "plots": [plot_as_data(plot)]})


async def _topic(state: ServerState, live: LiveTopics, run_id: str) -> Topic:
    def mark() -> Hashable:
        return state.index.known(run_id)

    return await live.topic(state, f"run {run_id}", mark, lambda: _content(state, run_id))


def _content(state: ServerState, run_id: str) -> TopicContent:
    run = state.index.get(run_id)
    if run is None:
        raise HTTPException(404, f"run {run_id} is not in the store")
    evaluations = state.journals.evaluations(run) if run.evaluations else ()
    values: dict[str, Mapping[str, Any]] = {
        "run_status": {"run": run, "next": _next(state, run)},
        "run_why": _kept_told(state, run),
        "evaluations": {"evaluations": evaluations, "run": run, "stable": Verdict.STABLE},
    }
    again = {"again": True}  # the plots of a run are few, and change with each evaluation
    return TopicContent({name: render_template(f"regions/{name}.html", **values[name]) for name in values}, again)


def _told(state: ServerState, run: RunSummary) -> dict[str, Any]:
    """Why this parallelism, in words; or why that cannot be said yet."""
    if not run.evaluations:
        return {"words": "", "operators": [], "remarks": [], "missing": "No evaluation is finished yet."}
    try:
        record, outcome = _outcome(state, run)
    except InputError as error:
        return {"words": "", "operators": [], "remarks": [], "missing": str(error)}
    remarks = [*outcome.remarks, *record.opening.warm_start]
    return {
        "words": summarize_outcome(outcome),
        "operators": explain_operators(outcome),
        "remarks": remarks,
        "missing": "",
    }


def _outcome(state: ServerState, run: RunSummary) -> tuple[RunRecord, Outcome]:
    def made() -> tuple[RunRecord, Outcome]:
        record = state.journals.record(run.run_id)
        return record, run_history.compute_outcome(record)

    return state.journals.kept("outcome", run, made)


def _next(state: ServerState, run: RunSummary) -> str:
    match run.state:
        case "queued":
            return "it waits for its turn"
        case "running":
            return "the next trial is under way"
        case "interrupted" | "crashed" if state.queue.knows(run.run_id):
            return "it goes on by itself"
        case "interrupted" | "crashed" | "failed":
            return "nothing by itself: resume it to go on after its last evaluation"
    if run.met_target:
        return "set this parallelism, or let autotrascale autoscale keep the job from here"
    return "nothing by itself: the verdict below says what to try"


def _operators(state: ServerState, run: RunSummary) -> list[str]:
    """None before there is anything to slice."""
    if not run.evaluations:
        return []
    try:
        _, outcome = _outcome(state, run)
    except InputError:
        return []
    return [] if outcome.model is None else list(outcome.job.topology)


def _plots(state: ServerState, run: RunSummary) -> dict[str, Any]:
    found = plots_of.plot_run(*_outcome(state, run)) if run.evaluations else plots_of.plot_empty_run()
    return {"upto": run.evaluations, "plots": [plot_as_data(plot) for plot in found]}


def _chosen(state: ServerState, run_ids: Sequence[str]) -> list[RunSummary]:
    if not 1 <= len(set(run_ids)) <= BESIDE:
        raise HTTPException(422, f"choose up to {BESIDE} runs to show side by side")
    found = [state.index.get(run_id) for run_id in dict.fromkeys(run_ids)]
    if None in found:
        raise HTTPException(404, "one of these runs is not in the store")
    return [each for each in found if each is not None]


def _label(run: RunSummary) -> str:
    rate = "" if run.rate is None else f" at {format_amount(run.rate)}/s"
    return f"{run.job}{rate} ({run.run_id[:6]})"


def _kept_told(state: ServerState, run: RunSummary) -> Mapping[str, Any]:
    return state.journals.kept("told", run, lambda: _told(state, run))
