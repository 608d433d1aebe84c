"""A run's progress as server-sent events: `state` when it changes, `evaluation` for each finished one, then `end`.

The id of an event is the number of its evaluation. A client that reconnects with `Last-Event-ID` gets the later
evaluations, from this server or another. Events are read from the journal, so that a crash takes none of them back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated

import anyio
from fastapi import APIRouter, Header, HTTPException
from fastapi.sse import EventSourceResponse, ServerSentEvent

from autotrascale.knowledge.run_history import RunSummary
from autotrascale.web.api.problem_details import RETRY_SECONDS, error_responses
from autotrascale.web.api.server_state import MAX_STREAMS, RunDep, ServerState, ServerStateDep

REFRESH_SECONDS = 0.5
_FINAL_STATES = {"finished", "failed"}

router = APIRouter(prefix="/v1/runs", tags=["runs"])


@router.get(
    "/{run_id}/events",
    summary="Follow a run",
    response_class=EventSourceResponse,
    responses={
        **error_responses(404),
        200: {"description": "Until the run ends.", "content": {"text/event-stream": {}}},
    },
)
async def follow(
    run: RunDep,
    state: ServerStateDep,
    last_event_id: Annotated[
        str | None, Header(max_length=20, description="Number of the last evaluation that the client has.")
    ] = None,
) -> AsyncIterator[ServerSentEvent]:
    seen = int(last_event_id) if last_event_id is not None and last_event_id.isdecimal() else 0
    async for event in _events(state, run, seen):
        yield event


async def check_stream_limit(state: ServerStateDep) -> None:
    if state.streams >= MAX_STREAMS:
        raise HTTPException(503, f"{MAX_STREAMS} streams are open already", {"Retry-After": str(RETRY_SECONDS)})


async def _events(state: ServerState, run: RunSummary, seen: int) -> AsyncIterator[ServerSentEvent]:
    state.streams += 1
    sent_state = ""
    try:
        while not state.closing:
            if run.state != sent_state:
                sent_state = run.state
                yield ServerSentEvent(event="state", data={"state": sent_state, "why": run.why})
            if run.evaluations > seen:
                summary = run
                for each in await state.in_thread(lambda s=summary: state.runs.evaluations(s)):  # type: ignore[misc]
                    if each.number > seen:
                        seen = each.number
                        yield ServerSentEvent(event="evaluation", id=str(seen), data=asdict(each))
            if has_ended(state, run):
                yield ServerSentEvent(event="end", data=asdict(run))
                return
            await anyio.sleep(REFRESH_SECONDS)
            current = await state.in_thread(lambda: state.index.get(run.run_id))  # noqa: B023 - awaited here
            if current is None:
                return
            run = current
    finally:
        state.streams -= 1


def has_ended(state: ServerState, run: RunSummary) -> bool:
    """Return whether nothing more will happen. An interrupted run that waits in the queue goes on by itself."""
    return run.state in _FINAL_STATES or (run.state in ("interrupted", "crashed") and not state.queue.knows(run.run_id))
