"""The application: routes, checks, errors and the OpenAPI document, put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi

from autotrascale import __version__
from autotrascale.service.api import events, health, others, problems, runs, sizes, steering
from autotrascale.service.api.guard import OPEN_PATH, Guard
from autotrascale.service.api.metrics import Counting
from autotrascale.service.api.problems import Problem
from autotrascale.service.api.rereading import Rereading
from autotrascale.service.api.state import THREADS, State
from autotrascale.service.api.tokens import Tokens
from autotrascale.service.pages import install as pages

TITLE = "AuTraScale"
ABOUT = "Finds the least parallelism that holds a streaming job's latency target. docs/http-api.md shows how."


def create_app(state: State, tokens: Tokens | None = None, *, loopback: bool = True) -> FastAPI:
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
    state.metrics.look_up(lambda: health.readings(state))
    problems.install(app)
    app.include_router(events.router, dependencies=[Depends(events.room)])
    for router in (runs.router, others.router, steering.router, sizes.router, health.router):
        app.include_router(router)
    board = pages.install(app, state, tokens)
    rereading = Rereading([state.catalog.all, board.look, *([] if tokens is None else [tokens.reread])])
    app.add_middleware(Guard, tokens=tokens, loopback=loopback)
    app.add_middleware(Counting, metrics=state.metrics)
    app.openapi = lambda: _openapi(app, tokens is not None)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI, secured: bool) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = document["components"]["schemas"]
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update({**problem.pop("$defs"), "Problem": problem})
        if secured:
            document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"token": []}]
            document["paths"][OPEN_PATH]["get"]["security"] = []
        app.openapi_schema = document
    return app.openapi_schema
