"""What the application holds while it runs, and how routes get at it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

import anyio
import anyio.to_thread
from fastapi import Depends, HTTPException, Path, Request

from autotrascale.knowledge.history import Summary
from autotrascale.knowledge.library import Library
from autotrascale.knowledge.store import Store
from autotrascale.service.api.catalog import Catalog
from autotrascale.service.api.guard import ASKED_BY
from autotrascale.service.api.index import RunIndex
from autotrascale.service.api.journals import Journals
from autotrascale.service.api.metrics import Metrics
from autotrascale.service.queue.keeper import Queue

T = TypeVar("T")

THREADS = 8  # that may wait for the store at a time
MOST_STREAMS = 200
COMPUTED_AT_ONCE = 2  # decisions, explanations, predictions: a computation keeps the others waiting
MOST_TO_COMPUTE = 50  # that may wait for their turn


@dataclass
class State:
    store: Store
    catalog: Catalog
    queue: Queue
    index: RunIndex
    journals: Journals
    metrics: Metrics = field(default_factory=Metrics)
    closing: bool = False  # streams end, so that the server can
    streams: int = 0
    computing: int = 0  # under way, or waiting for it
    began: float = field(default_factory=time.monotonic)
    _turns: anyio.CapacityLimiter | None = None

    @classmethod
    def of(cls, store: Store, catalog: Catalog, server: str, parallel_runs: int = 1, limit: int = 100) -> State:
        index = RunIndex(store)
        queue = Queue(store, server, parallel_runs, limit, changed=index.put)
        return cls(store, catalog, queue, index, Journals(store))

    @property
    def library(self) -> Library:
        return Library(self.store)

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
        if self.computing >= MOST_TO_COMPUTE:
            raise HTTPException(503, f"{MOST_TO_COMPUTE} computations wait already", {"Retry-After": "5"})
        self._turns = self._turns or anyio.CapacityLimiter(COMPUTED_AT_ONCE)
        self.computing += 1
        try:
            return await anyio.to_thread.run_sync(action, limiter=self._turns)
        finally:
            self.computing -= 1


async def state_of(request: Request) -> State:
    found: State = request.app.state.service
    return found


async def asked_by(request: Request) -> str:
    """For the journal: whose token it was, and from where."""
    return str(request.scope[ASKED_BY])


StateOf = Annotated[State, Depends(state_of)]
AskedBy = Annotated[str, Depends(asked_by)]
RunId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="A run's id.", examples=["0" * 32])]


async def run_of(run_id: RunId, state: StateOf) -> Summary:
    """From memory in most cases, which is worth no thread."""
    found = state.index.known(run_id) or await state.in_thread(lambda: state.index.get(run_id))
    if found is None:
        raise HTTPException(404, f"run {run_id} is not in the store")
    return found


RunOf = Annotated[Summary, Depends(run_of)]
