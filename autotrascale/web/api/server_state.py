"""What the application holds while it runs, and how routes get at it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

import anyio
import anyio.to_thread
from fastapi import Depends, HTTPException, Path, Request

from autotrascale.app.run_queue.supervisor import RunQueue
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.model_library import ModelLibrary
from autotrascale.knowledge.run_history import RunSummary
from autotrascale.web.api.guard import ASKED_BY
from autotrascale.web.api.job_catalog import JobCatalog
from autotrascale.web.api.prometheus import ServerMetrics
from autotrascale.web.api.run_cache import RunCache
from autotrascale.web.api.run_index import RunIndex

T = TypeVar("T")

THREADS = 8  # that may wait for the store at a time
MAX_STREAMS = 200
PARALLEL_COMPUTATIONS = 2  # decisions, explanations, predictions: a computation keeps the others waiting
MAX_WAITING_COMPUTATIONS = 50  # that may wait for their turn


@dataclass
class ServerState:
    store: MlflowStore
    catalog: JobCatalog
    queue: RunQueue
    index: RunIndex
    journals: RunCache
    metrics: ServerMetrics = field(default_factory=ServerMetrics)
    closing: bool = False  # streams end, so that the server can
    streams: int = 0
    computing: int = 0  # under way, or waiting for it
    began: float = field(default_factory=time.monotonic)
    _turns: anyio.CapacityLimiter | None = None

    @classmethod
    def of(
        cls, store: MlflowStore, catalog: JobCatalog, server: str, parallel_runs: int = 1, limit: int = 100
    ) -> ServerState:
        index = RunIndex(store)
        queue = RunQueue(store, server, parallel_runs, limit, changed=index.put)
        return cls(store, catalog, queue, index, RunCache(store))

    @property
    def library(self) -> ModelLibrary:
        return ModelLibrary(self.store)

    def open(self) -> None:
        """Reads the store, and carries on what an earlier server left."""
        self.index.open()
        self.queue.open()

    def close(self) -> None:
        self.closing = True
        self.queue.close()
        self.index.close()

    async def in_thread(self, action: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(action)

    async def compute(self, action: Callable[[], T]) -> T:
        """In a thread of its own kind: what computes takes none of those that others wait for."""
        if self.computing >= MAX_WAITING_COMPUTATIONS:
            raise HTTPException(503, f"{MAX_WAITING_COMPUTATIONS} computations wait already", {"Retry-After": "5"})
        self._turns = self._turns or anyio.CapacityLimiter(PARALLEL_COMPUTATIONS)
        self.computing += 1
        try:
            return await anyio.to_thread.run_sync(action, limiter=self._turns)
        finally:
            self.computing -= 1


async def get_server_state(request: Request) -> ServerState:
    found: ServerState = request.app.state.service
    return found


async def get_requested_by(request: Request) -> str:
    """For the journal: whose token it was, and from where."""
    return str(request.scope[ASKED_BY])


ServerStateDep = Annotated[ServerState, Depends(get_server_state)]
RequestedBy = Annotated[str, Depends(get_requested_by)]
RunId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="A run's id.", examples=["0" * 32])]


async def get_run(run_id: RunId, state: ServerStateDep) -> RunSummary:
    """From memory in most cases, which is worth no thread."""
    found = state.index.known(run_id) or await state.in_thread(lambda: state.index.get(run_id))
    if found is None:
        raise HTTPException(404, f"run {run_id} is not in the store")
    return found


RunDep = Annotated[RunSummary, Depends(get_run)]
