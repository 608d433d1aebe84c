"""The application: routes, checks, errors and the OpenAPI document, put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi

from autotrascale import __version__
from autotrascale.web.api import health, loop_commands, models, problem_details, run_events, size_actions, tuning_runs
from autotrascale.web.api.guard import OPEN_PATH, RequestGuard
from autotrascale.web.api.periodic_refresh import PeriodicRefresh
from autotrascale.web.api.problem_details import ProblemDetails
from autotrascale.web.api.prometheus import CountRequests
from autotrascale.web.api.server_state import THREADS, ServerState
from autotrascale.web.api.tokens import Tokens
from autotrascale.web.pages import install_pages as pages

TITLE = "AuTraScale"
ABOUT = "Finds the least parallelism that holds a streaming job's latency target. docs/http-api.md shows how."


def create_app(state: ServerState, tokens: Tokens | None = None, *, loopback: bool = True) -> FastAPI:
    """Opening it reads the store; closing it ends the runs under way, which go on at the next start."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        await anyio.to_thread.run_sync(state.open)
        await anyio.to_thread.run_sync(rereading.open)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(rereading.close)
                await anyio.to_thread.run_sync(state.close)

    # FastAPI's own pages load their scripts from elsewhere: ours, at /docs, from here.
    app = FastAPI(
        title=TITLE,
        version=__version__,
        description=ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.service = state
    state.metrics.look_up(lambda: health.collect_gauges(state))
    problem_details.install(app)
    app.include_router(run_events.router, dependencies=[Depends(run_events.check_stream_limit)])
    for router in (tuning_runs.router, models.router, loop_commands.router, size_actions.router, health.router):
        app.include_router(router)
    board = pages.install_pages(app, state, tokens)
    rereading = PeriodicRefresh([state.catalog.all, board.look, *([] if tokens is None else [tokens.reread])])
    app.add_middleware(RequestGuard, tokens=tokens, loopback=loopback)
    app.add_middleware(CountRequests, metrics=state.metrics)
    app.openapi = lambda: _openapi(app, tokens is not None)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI, secured: bool) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = document["components"]["schemas"]
        problem = ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update({**problem.pop("$defs"), "Problem": problem})
        if secured:
            document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"token": []}]
            document["paths"][OPEN_PATH]["get"]["security"] = []
        app.openapi_schema = document
    return app.openapi_schema
