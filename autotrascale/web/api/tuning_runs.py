"""/v1/runs: submit tuning runs, list and show them, cancel and resume them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, HTTPException, Query, Response

from autotrascale.app.job_file import JobFile
from autotrascale.app.run_queue import server_log
from autotrascale.app.run_queue.run_requests import QueueRequest
from autotrascale.domain.errors import InputError
from autotrascale.knowledge import requested_by, run_history, tags
from autotrascale.knowledge.model_library import registered_model_name
from autotrascale.knowledge.run_history import RunState, RunSummary
from autotrascale.plan.policies.registry import OURS
from autotrascale.views.explanation import explain_operators
from autotrascale.views.verdict import summarize_outcome
from autotrascale.web.api import schemas
from autotrascale.web.api.job_catalog import CatalogEntry
from autotrascale.web.api.paging import CursorQuery, LimitQuery
from autotrascale.web.api.problem_details import error_responses
from autotrascale.web.api.schemas import EvaluationPage, Explanation, ResumeRequest, RunPage, RunRequest
from autotrascale.web.api.server_state import RequestedBy, RunDep, ServerState, ServerStateDep
from autotrascale.web.api.strict_bodies import StrictRoute

router = APIRouter(prefix="/v1/runs", tags=["runs"], route_class=StrictRoute)

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="Requests with the same key and body start one run.",
    ),
]


@router.post(
    "",
    status_code=202,
    summary="Start a tuning run",
    responses={
        **error_responses(404),
        200: {"model": RunSummary, "description": "A run with this Idempotency-Key exists already."},
    },
)
def submit(
    body: RunRequest,
    state: ServerStateDep,
    who: RequestedBy,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> RunSummary:
    """The run is stored before the answer. A server that dies starts the run after its own next start."""
    entry, file = _find_job(state, body.job)
    request = QueueRequest(
        str(entry.path),
        file.choose_engine(body.engine),
        body.rate,
        body.total_trials,
        body.max_seconds,
        body.seed,
        body.warm_start,
        who,
        body.policy,
    )
    _check_request(request, file)
    text = json.dumps(body.model_dump(), sort_keys=True)
    run, is_new = state.queue.submit(request, file, entry.digest, idempotency_key, text)
    if is_new:
        server_log.info("request", who=who, what="start", run=run.info.run_id)
    else:
        response.status_code = 200
    response.headers["Location"] = f"/v1/runs/{run.info.run_id}"
    return _summarise(state, run)


@router.get("", summary="List the runs, the latest first", responses=error_responses())
async def list_runs(
    state: ServerStateDep,
    job: Annotated[schemas.JobFilter | None, Query()] = None,
    status: Annotated[RunState | None, Query(description="Only runs in this state.")] = None,
    limit: LimitQuery = 20,
    cursor: CursorQuery = None,
) -> RunPage:
    run_ids, more = state.index.page(job, status, cursor, limit)
    runs = [state.index.get_cached(run_id) for run_id in run_ids]
    if None in runs:
        runs = await state.in_thread(lambda: [state.index.get(run_id) for run_id in run_ids])
    return RunPage.model_construct(runs=[run for run in runs if run is not None], next_cursor=more)


@router.get("/{run_id}", summary="Show a run", responses=error_responses(404))
async def show_run(run: RunDep) -> RunSummary:
    return run


@router.get("/{run_id}/evaluations", summary="List the evaluations of a run", responses=error_responses(404))
def list_evaluations(
    run: RunDep,
    state: ServerStateDep,
    after: Annotated[int, Query(ge=0, le=schemas.MAX_TRIALS, description="Only evaluations with a higher number.")] = 0,
    limit: LimitQuery = schemas.MAX_LISTED,
) -> EvaluationPage:
    left = [each for each in state.runs.evaluations(run) if each.number > after]
    more = left[limit - 1].number if len(left) > limit else None
    return EvaluationPage.model_construct(evaluations=left[:limit], next_after=more)


@router.get("/{run_id}/explanation", summary="Explain the chosen parallelism", responses=error_responses(404, 409))
async def explain(run: RunDep, state: ServerStateDep) -> Explanation:
    if not run.evaluations:
        raise HTTPException(409, f"run {run.run_id} has no finished evaluation yet")
    return await state.compute(lambda: state.runs.get("explanation", run, lambda: _explain(state, run.run_id)))


@router.post("/{run_id}/cancel", status_code=202, summary="Cancel a run", responses=error_responses(404, 409))
def cancel(run: RunDep, state: ServerStateDep, who: RequestedBy) -> RunSummary:
    """A waiting run ends at once, a running run before its next trial. Cancelled runs can be resumed."""
    try:
        cancelled = state.queue.cancel(run.run_id)
    except InputError as error:
        raise HTTPException(409, str(error)) from None
    return _record_request(state, cancelled, who, "cancel")


@router.post("/{run_id}/resume", status_code=202, summary="Resume a run", responses=error_responses(404, 409))
def resume(
    run: RunDep, state: ServerStateDep, who: RequestedBy, body: Annotated[ResumeRequest | None, Body()] = None
) -> RunSummary:
    """Continue an interrupted run, or a run with a larger budget, after its last finished evaluation."""
    budget = body or ResumeRequest()
    try:
        path, engine = _find_start(state, run)
        request = QueueRequest(str(path), engine, total_trials=budget.total_trials, max_seconds=budget.max_seconds)
        resumed = state.queue.resume(run.run_id, request)
    except InputError as error:
        raise HTTPException(409, str(error)) from None
    return _record_request(state, resumed, who, "resume")


def _find_job(state: ServerState, name: str) -> tuple[CatalogEntry, JobFile]:
    entry = state.catalog.find(name)
    if entry is None:
        raise HTTPException(404, f"job {name} is unknown to this server: GET /v1/jobs lists its jobs")
    if entry.file is None:
        raise InputError("body.job", f"has a job file that cannot be used: {entry.problem}", remedy="correct the file")
    return entry, entry.file


def _check_request(request: QueueRequest, file: JobFile) -> None:
    """Raise the `InputError` that the worker process would raise later."""
    request.settings(file)
    try:
        policy = file.choose_policy(request.policy)
    except InputError as error:
        raise error.with_prefix("body.") from None
    if policy.name != OURS and request.warm_start not in ("auto", "none"):
        raise InputError(
            "body.warm_start",
            f"works with the policy {OURS} only: {policy.name} starts from no model",
            seen=request.warm_start,
            remedy="leave it out",
        )
    own = f"models:/{registered_model_name(file.job)}/"
    if request.warm_start.startswith("models:") and not request.warm_start.startswith(own):
        raise InputError(
            "body.warm_start",
            "names a model of another job",
            seen=request.warm_start,
            remedy=f"use auto, none, rate-R or {own}VERSION",
        )
    if request.rate is None and sum(file.source_rates.values()) == 0:
        raise InputError("body.rate", "is missing, and the job file's own rate is zero", remedy="give a rate")


def _find_start(state: ServerState, run: RunSummary) -> tuple[Path, Any]:
    """Return job file and engine of a run. Raises `InputError` if the file is not one of this server's."""
    stored = run_history.find_run(state.store, run.run_id)
    try:
        opening = run_history.read_opening(state.store, run.run_id)
    except InputError:
        if not stored.data.tags.get(tags.REQUEST):
            raise
        request = QueueRequest.read(stored)  # the run was cancelled before it began
        path, engine = Path(request.path), request.engine
    else:
        path, engine = Path(opening.job_path), opening.engine  # type: ignore[assignment]
    if not state.catalog.holds(path):
        raise InputError(
            f"run {run.run_id}",
            "was not started from a job file of this server",
            seen=str(path),
            remedy=f"on its machine: autotrascale runs resume {run.run_id}",
        )
    return path, engine


def _record_request(state: ServerState, run: Any, who: str, what: str) -> RunSummary:
    server_log.info("request", who=who, what=what, run=run.info.run_id)
    requested_by.record_request(state.store, run.info.run_id, who, what)
    return _summarise(state, run)


def _summarise(state: ServerState, run: Any) -> RunSummary:
    return state.index.put(run) or run_history.summarise_run(state.store, run)


def _explain(state: ServerState, run_id: str) -> Explanation:
    record = state.runs.record(run_id)
    outcome = run_history.compute_outcome(record)
    return Explanation(
        run_id=run_id,
        job=outcome.job.name,
        state=record.summary.state,
        rate=outcome.job.rate,
        simulated=outcome.simulated,
        met_target=outcome.met_target,
        stop_reason=outcome.stop_reason,
        operators=explain_operators(outcome),
        remarks=list(outcome.remarks),
        warm_start=list(record.opening.warm_start),
        summary=summarize_outcome(outcome),
    )
