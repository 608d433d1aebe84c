"""The web application: routes, checks, errors, pages and the OpenAPI document."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi

from autotrascale import __version__
from autotrascale.web.api import (
    decide,
    health,
    jobs,
    loop_commands,
    models,
    problem_details,
    run_events,
    size_actions,
    tuning_runs,
)
from autotrascale.web.api.guard import OPEN_PATH, RequestGuard
from autotrascale.web.api.periodic_refresh import PeriodicRefresh
from autotrascale.web.api.problem_details import ProblemDetails
from autotrascale.web.api.prometheus import CountRequests
from autotrascale.web.api.server_state import THREADS, ServerState
from autotrascale.web.api.tokens import Tokens
from autotrascale.web.pages.live_updates import LiveTopics
from autotrascale.web.pages.routers import PAGE_ROUTERS

TITLE = "AuTraScale"
DESCRIPTION = "Finds the least parallelism that meets a streaming job's latency target. Guide: docs/how-to/http-api.md."
API_ROUTERS = tuple(each.router for each in (tuning_runs, decide, jobs, models, loop_commands, size_actions, health))


def create_app(state: ServerState, tokens: Tokens | None = None, *, loopback: bool = True) -> FastAPI:
    """Return the application.

    Its start reads the store. Its end stops the tuning runs, which continue at the next start.

    Args:
        tokens: tokens that clients must send; None: no token is needed.
        loopback: the server listens on a loopback address, so that the Host header must name one.
    """
    files = [] if tokens is None else [tokens.reread]
    refresh = PeriodicRefresh([state.catalog.all, state.loops.refresh, *files])

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        await anyio.to_thread.run_sync(state.open)
        await anyio.to_thread.run_sync(refresh.open)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(refresh.close)
                await anyio.to_thread.run_sync(state.close)

    # FastAPI's own documentation pages load scripts from other hosts; the page at /docs does not.
    app = FastAPI(
        title=TITLE,
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.service, app.state.tokens, app.state.live = state, tokens, LiveTopics()
    state.metrics.collect_with(lambda: health.collect_gauges(state))
    problem_details.install(app)
    app.include_router(run_events.router, dependencies=[Depends(run_events.check_stream_limit)])
    for router in (*API_ROUTERS, *PAGE_ROUTERS):
        app.include_router(router)
    app.add_middleware(RequestGuard, tokens=tokens, loopback=loopback)
    app.add_middleware(CountRequests, metrics=state.metrics)
    app.openapi = lambda: _openapi(app, tokens is not None)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI, needs_token: bool) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = document["components"]["schemas"]
        problem = ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update({**problem.pop("$defs"), "Problem": problem})
        if needs_token:
            document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"token": []}]
            document["paths"][OPEN_PATH]["get"]["security"] = []
        app.openapi_schema = document
    return app.openapi_schema
