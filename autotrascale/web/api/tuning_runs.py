"""Runs: ask for one, list them, look at one, end it, go on with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, HTTPException, Query, Response

from autotrascale.app.job_file import JobFile
from autotrascale.app.run_queue import server_log
from autotrascale.app.run_queue.run_requests import QueueRequest
from autotrascale.domain.errors import InputError
from autotrascale.knowledge import requested_by, run_history
from autotrascale.knowledge.model_library import registered_model_name
from autotrascale.knowledge.run_history import RunState as RunState
from autotrascale.knowledge.run_history import RunSummary
from autotrascale.plan.policies import OURS
from autotrascale.views.explanation import explain_operators
from autotrascale.views.verdict import summarize_outcome as in_words
from autotrascale.web.api import schemas
from autotrascale.web.api.job_catalog import CatalogEntry
from autotrascale.web.api.problem_details import error_responses
from autotrascale.web.api.schemas import EvaluationPage, Explanation, ResumeRequest, RunPage, RunRequest
from autotrascale.web.api.server_state import RequestedBy, RunDep, ServerState, ServerStateDep
from autotrascale.web.api.strict_bodies import StrictRoute

router = APIRouter(prefix="/v1/runs", tags=["runs"], route_class=StrictRoute)

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="The same key and body name the same run, however often they are sent.",
    ),
]


@router.post(
    "",
    status_code=202,
    summary="Ask for a tuning run",
    responses={
        **error_responses(404),
        200: {"model": RunSummary, "description": "It was asked for before, with this Idempotency-Key."},
    },
)
def submit(
    asked: RunRequest, state: ServerStateDep, who: RequestedBy, response: Response, idempotency_key: Key = None
) -> RunSummary:
    """It is kept before it is answered: a server that dies runs it after its next start."""
    listed, file = _job(state, asked.job)
    request = QueueRequest(
        str(listed.path),
        file.engine_name(asked.engine),
        asked.rate,
        asked.total_trials,
        asked.max_seconds,
        asked.seed,
        asked.warm_start,
        who,
        asked.policy,
    )
    _check(request, file)
    body = json.dumps(asked.model_dump(), sort_keys=True)
    run, new = state.queue.submit(request, file, listed.digest, idempotency_key, body)
    if new:
        server_log.info("asked", who=who, what="start", run=run.info.run_id)
    else:
        response.status_code = 200
    response.headers["Location"] = f"/v1/runs/{run.info.run_id}"
    return _summary(state, run)


@router.get("", summary="List the runs, the latest first", responses=error_responses())
async def ls(
    state: ServerStateDep,
    job: Annotated[schemas.JobFilter | None, Query()] = None,
    status: Annotated[RunState | None, Query()] = None,
    limit: Annotated[schemas.PageLimit, Query()] = 20,
    cursor: Annotated[schemas.PageCursor | None, Query()] = None,
) -> RunPage:
    found, more = state.index.page(job, status, cursor, limit)
    runs = [state.index.known(run_id) for run_id in found]
    if None in runs:
        runs = await state.in_thread(lambda: [state.index.get(run_id) for run_id in found])
    return RunPage.model_construct(runs=[run for run in runs if run is not None], next_cursor=more)


@router.get("/{run_id}", summary="Show a run", responses=error_responses(404))
async def show(run: RunDep) -> RunSummary:
    return run


@router.get("/{run_id}/evaluations", summary="What a run has measured", responses=error_responses(404))
def evaluations(
    run: RunDep,
    state: ServerStateDep,
    after: Annotated[int, Query(ge=0, le=schemas.MAX_TRIALS, description="Only those of a higher number.")] = 0,
    limit: Annotated[schemas.PageLimit, Query()] = schemas.MAX_LISTED,
) -> EvaluationPage:
    left = [each for each in state.journals.evaluations(run) if each.number > after]
    more = left[limit - 1].number if len(left) > limit else None
    return EvaluationPage.model_construct(evaluations=left[:limit], next_after=more)


@router.get("/{run_id}/explanation", summary="Why this parallelism", responses=error_responses(404, 409))
async def explanation(run: RunDep, state: ServerStateDep) -> Explanation:
    if not run.evaluations:
        raise HTTPException(409, f"run {run.run_id} has no finished evaluation yet to explain it by")
    return await state.compute(lambda: state.journals.kept("explanation", run, lambda: _explain(state, run.run_id)))


@router.post("/{run_id}/cancel", status_code=202, summary="End a run", responses=error_responses(404, 409))
def cancel(run: RunDep, state: ServerStateDep, who: RequestedBy) -> RunSummary:
    """At once when it waits, else before its next trial. It can be resumed."""
    try:
        cancelled = state.queue.cancel(run.run_id)
    except InputError as error:
        raise HTTPException(409, str(error)) from None
    return _noted(state, cancelled, who, "cancel")


@router.post("/{run_id}/resume", status_code=202, summary="Go on with a run", responses=error_responses(404, 409))
def resume(
    run: RunDep, state: ServerStateDep, who: RequestedBy, asked: Annotated[ResumeRequest | None, Body()] = None
) -> RunSummary:
    """After its last finished evaluation: one that was interrupted, or whose budget was too small."""
    budget = asked or ResumeRequest()
    try:
        path, engine = _started_from(state, run)
        request = QueueRequest(str(path), engine, total_trials=budget.total_trials, max_seconds=budget.max_seconds)
        resumed = state.queue.resume(run.run_id, request)
    except InputError as error:
        raise HTTPException(409, str(error)) from None
    return _noted(state, resumed, who, "resume")


def _job(state: ServerState, name: str) -> tuple[CatalogEntry, JobFile]:
    listed = state.catalog.find(name)
    if listed is None:
        raise HTTPException(404, f"job {name} is none of this server's: GET /v1/jobs lists them")
    if listed.file is None:
        raise InputError("body.job", f"has a job file that cannot be used: {listed.problem}", remedy="correct the file")
    return listed, listed.file


def _check(request: QueueRequest, file: JobFile) -> None:
    """What the worker would refuse is refused now."""
    request.settings(file)
    try:
        policy = file.policy_named(request.policy)
    except InputError as error:
        raise error.under("body.") from None
    if policy.name != OURS and request.warm_start not in ("auto", "none"):
        raise InputError(
            "body.warm_start",
            f"is for the policy {OURS}: {policy.name} starts from no model",
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
        raise InputError("body.rate", "is missing, and the job file's own rate is zero", remedy="give one")


def _started_from(state: ServerState, run: RunSummary) -> tuple[Path, Any]:
    """Only what was started from one of this server's own job files is run by it."""
    found = run_history.find_run(state.store, run.run_id)
    try:
        opening = run_history.read_opening(state.store, run.run_id)
    except InputError:
        if not found.data.tags.get("autotrascale.request"):
            raise
        request = QueueRequest.read(found)  # it never began: what was asked for stands
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


def _noted(state: ServerState, run: Any, who: str, what: str) -> RunSummary:
    server_log.info("asked", who=who, what=what, run=run.info.run_id)
    requested_by.record_request(state.store, run.info.run_id, who, what)
    return _summary(state, run)


def _summary(state: ServerState, run: Any) -> RunSummary:
    return state.index.put(run) or run_history.summarise_run(state.store, run)


def _explain(state: ServerState, run_id: str) -> Explanation:
    record = state.journals.record(run_id)
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
        summary=in_words(outcome),
    )
