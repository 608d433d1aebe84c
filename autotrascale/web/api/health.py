"""Whether the server does what it is for, and since when it knows: `/healthz` and `/metrics`.

A server that answers while its queue stands still, its store is away or its runs are silent is not healthy.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from fastapi import APIRouter, Response

from autotrascale.knowledge.process_identity import LEASE_SECONDS
from autotrascale.web.api import prometheus
from autotrascale.web.api.problem_details import error_responses
from autotrascale.web.api.prometheus import Gauge, LabelledValues
from autotrascale.web.api.schemas import Health
from autotrascale.web.api.server_state import ServerState, ServerStateDep

STORE_SECONDS = 15.0  # without an answer of the store
QUEUE_SECONDS = 30.0  # without a look at the queue

router = APIRouter(tags=["health"])


@router.get(
    "/healthz",
    summary="Whether all is well",
    responses={**error_responses(), 503: {"model": Health, "description": "Something is not; `problems` says what."}},
)
async def healthz(state: ServerStateDep, response: Response) -> Health:
    """Needs no token, and no thread: it is told from memory, whatever the others wait for."""
    found = check_health(state)
    if found.status != "ok":
        response.status_code = 503
    return found


@router.get(
    "/metrics",
    summary="For Prometheus",
    response_class=Response,
    responses={
        **error_responses(),
        200: {"description": "Text exposition format.", "content": {prometheus.MEDIA_TYPE: {}}},
    },
)
def get_metrics(state: ServerStateDep) -> Response:
    return Response(state.metrics.text(), media_type=prometheus.MEDIA_TYPE)


def check_health(state: ServerState) -> Health:
    now, index, queue = time.monotonic(), state.index, state.queue
    store = _ago(now, index.looked)
    silent = index.silent_longest(queue.under_way)
    jobs, broken = state.catalog.counted
    problems = []
    if store is None or store > STORE_SECONDS:
        problems.append(f"the store does not answer: {index.error or 'it has not yet'}")
    if now - queue.beat > QUEUE_SECONDS:
        problems.append(f"the queue has stood still for {now - queue.beat:.0f} s")
    if silent is not None and silent > LEASE_SECONDS:
        problems.append(f"a run under way has said nothing for {silent:.0f} s")
    return Health(
        status="failing" if problems else "ok",
        problems=problems,
        store_reachable=index.error is None and store is not None,
        store_seconds_ago=store,
        queue_seconds_ago=round(now - queue.beat, 3),
        evaluation_seconds_ago=_ago(now, index.measured),
        heartbeat_seconds_ago=silent,
        queued=queue.waiting,
        running=len(queue.under_way),
        jobs=jobs,
        broken_jobs=broken,
        loops=list(index.loops.now),
    )


def collect_gauges(state: ServerState) -> Iterable[Gauge]:
    found = check_health(state)
    by_state: LabelledValues = {(name,): float(count) for name, count in state.index.states().items()}
    yield "up", "1 when /healthz says ok.", (), _one(float(found.status == "ok"))
    yield "runs", "Runs of the store.", ("state",), by_state
    yield "queue_length", "Runs that wait for their turn.", (), _one(float(found.queued))
    yield "queue_limit", "Runs that may wait.", (), _one(float(state.queue.limit))
    yield "runs_under_way", "Processes of runs.", (), _one(float(found.running))
    yield "streams", "Clients that follow a run.", (), _one(float(state.streams))
    yield "store_seconds_ago", "Since the store answered.", (), _one(found.store_seconds_ago)
    yield "evaluation_seconds_ago", "Since an evaluation finished.", (), _one(found.evaluation_seconds_ago)
    yield "heartbeat_seconds_ago", "Of the most silent run.", (), _one(found.heartbeat_seconds_ago)
    yield "broken_jobs", "Job files that cannot be used.", (), _one(float(found.broken_jobs))
    yield from state.index.loops.readings()


def _one(value: float | None) -> LabelledValues:
    return {(): value}


def _ago(now: float, then: float | None) -> float | None:
    return None if then is None else round(now - then, 3)
