"""/healthz and /metrics: whether the server does its work.

A server that answers is not healthy while its queue stands still, its store is away or its runs are silent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from fastapi import APIRouter, Response

from autotrascale.knowledge.process_identity import LEASE_SECONDS
from autotrascale.web.api import prometheus
from autotrascale.web.api.loop_metrics import collect_loop_gauges, list_loop_health
from autotrascale.web.api.problem_details import error_responses
from autotrascale.web.api.prometheus import Gauge, LabelledValues
from autotrascale.web.api.schemas import Health
from autotrascale.web.api.server_state import ServerState, ServerStateDep

STORE_SECONDS = 15.0  # the longest time without an answer of the store
QUEUE_SECONDS = 30.0  # the longest time without a check of the queue

router = APIRouter(tags=["health"])


@router.get(
    "/healthz",
    summary="Check the server's health",
    responses={**error_responses(), 503: {"model": Health, "description": "`problems` lists the causes."}},
)
async def healthz(state: ServerStateDep, response: Response) -> Health:
    """Needs no token and waits for nothing: the answer comes from memory."""
    health = check_health(state)
    if health.status != "ok":
        response.status_code = 503
    return health


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
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
    store_age = _seconds_since(now, index.answered_at)
    silent = index.longest_silence(queue.under_way)
    jobs, broken = state.catalog.counts
    problems = []
    if store_age is None or store_age > STORE_SECONDS:
        problems.append(f"the store does not answer: {index.error or 'no answer yet'}")
    if now - queue.beat > QUEUE_SECONDS:
        problems.append(f"the queue has not been checked for {now - queue.beat:.0f} s")
    if silent is not None and silent > LEASE_SECONDS:
        problems.append(f"a running tuning run has been silent for {silent:.0f} s")
    return Health(
        status="failing" if problems else "ok",
        problems=problems,
        store_reachable=index.error is None and store_age is not None,
        store_seconds_ago=store_age,
        queue_seconds_ago=round(now - queue.beat, 3),
        evaluation_seconds_ago=_seconds_since(now, index.evaluated_at),
        heartbeat_seconds_ago=silent,
        queued=queue.waiting,
        running=len(queue.under_way),
        jobs=jobs,
        broken_jobs=broken,
        loops=list_loop_health(state.loops.list_reported()),
    )


def collect_gauges(state: ServerState) -> Iterable[Gauge]:
    health = check_health(state)
    by_state: LabelledValues = {(name,): float(count) for name, count in state.index.states().items()}
    yield "up", "1 while /healthz says ok.", (), _one(float(health.status == "ok"))
    yield "runs", "Runs in the store.", ("state",), by_state
    yield "queue_length", "Runs that wait for their turn.", (), _one(float(health.queued))
    yield "queue_limit", "Runs that may wait.", (), _one(float(state.queue.limit))
    yield "runs_under_way", "Processes of runs.", (), _one(float(health.running))
    yield "streams", "Clients that follow a run.", (), _one(float(state.streams))
    yield "store_seconds_ago", "Time since the store answered.", (), _one(health.store_seconds_ago)
    yield "evaluation_seconds_ago", "Time since an evaluation finished.", (), _one(health.evaluation_seconds_ago)
    yield "heartbeat_seconds_ago", "Longest silence of a running run.", (), _one(health.heartbeat_seconds_ago)
    yield "broken_jobs", "Job files that cannot be used.", (), _one(float(health.broken_jobs))
    yield from collect_loop_gauges(state.loops.list_reported())


def _one(value: float | None) -> LabelledValues:
    return {(): value}


def _seconds_since(now: float, then: float | None) -> float | None:
    return None if then is None else round(now - then, 3)
