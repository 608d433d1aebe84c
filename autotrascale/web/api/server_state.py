"""The objects that the server holds while it runs, and their injection into routes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

import anyio
import anyio.to_thread
from fastapi import Depends, HTTPException, Path, Request

from autotrascale.app.run_queue.supervisor import RunQueue
from autotrascale.app.stores import open_decisions
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.model_library import ModelLibrary
from autotrascale.knowledge.run_history import RunSummary
from autotrascale.web.api.guard import ASKED_BY
from autotrascale.web.api.job_catalog import JobCatalog
from autotrascale.web.api.loop_board import LoopBoard
from autotrascale.web.api.prometheus import ServerMetrics
from autotrascale.web.api.run_cache import RunCache
from autotrascale.web.api.run_index import RunIndex

T = TypeVar("T")

THREADS = 8  # for requests that wait for the store
MAX_STREAMS = 200
PARALLEL_COMPUTATIONS = 2  # decisions, explanations, predictions: each blocks the interpreter for others
MAX_WAITING_COMPUTATIONS = 50


@dataclass
class ServerState:
    """The store, and the parts of the server that answer from it.

    Attributes:
        closing: set at shutdown, so that open streams end.
        streams: number of open event streams.
        computing: number of computations that run or wait.
    """

    store: MlflowStore
    catalog: JobCatalog
    queue: RunQueue
    index: RunIndex
    runs: RunCache
    loops: LoopBoard
    metrics: ServerMetrics = field(default_factory=ServerMetrics)
    closing: bool = False
    streams: int = 0
    computing: int = 0
    _computation_limit: anyio.CapacityLimiter | None = None

    @classmethod
    def of(
        cls, store: MlflowStore, catalog: JobCatalog, server: str, parallel_runs: int = 1, limit: int = 100
    ) -> ServerState:
        """Return the state of a server.

        Args:
            server: name under which the server's runs are stored.
            parallel_runs: tuning runs that run at the same time.
            limit: tuning runs that may wait.
        """
        index = RunIndex(store)
        queue = RunQueue(store, server, parallel_runs, limit, changed=index.put)
        return cls(store, catalog, queue, index, RunCache(store), LoopBoard(open_decisions(store)))

    @property
    def library(self) -> ModelLibrary:
        return ModelLibrary(self.store)

    def open(self) -> None:
        """Read the store, and continue the runs that an earlier server left."""
        self.index.open()
        self.queue.open()

    def close(self) -> None:
        self.closing = True
        self.queue.close()
        self.index.close()

    async def in_thread(self, action: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(action)

    async def compute(self, action: Callable[[], T]) -> T:
        """Run a computation in a thread outside the pool that waits for the store.

        Raises `HTTPException` 503 if too many computations wait.
        """
        if self.computing >= MAX_WAITING_COMPUTATIONS:
            raise HTTPException(503, f"{MAX_WAITING_COMPUTATIONS} computations wait already", {"Retry-After": "5"})
        self._computation_limit = self._computation_limit or anyio.CapacityLimiter(PARALLEL_COMPUTATIONS)
        self.computing += 1
        try:
            return await anyio.to_thread.run_sync(action, limiter=self._computation_limit)
        finally:
            self.computing -= 1


async def get_server_state(request: Request) -> ServerState:
    state: ServerState = request.app.state.service
    return state


async def get_requested_by(request: Request) -> str:
    """Return the client's name and address, as they are stored with a request."""
    return str(request.scope[ASKED_BY])


ServerStateDep = Annotated[ServerState, Depends(get_server_state)]
RequestedBy = Annotated[str, Depends(get_requested_by)]
RunId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="A run's id.", examples=["0" * 32])]


async def get_run(run_id: RunId, state: ServerStateDep) -> RunSummary:
    """Return a run, in most cases from memory. Raises `HTTPException` 404."""
    run = state.index.get_cached(run_id) or await state.in_thread(lambda: state.index.get(run_id))
    if run is None:
        raise HTTPException(404, f"run {run_id} is not in the store")
    return run


RunDep = Annotated[RunSummary, Depends(get_run)]
