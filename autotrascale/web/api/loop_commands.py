"""The control loops that keep their journal beside this store: how each stands, and orders to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Query

from autotrascale.app import loop_commands
from autotrascale.app.run_queue import server_log
from autotrascale.domain.errors import NoLoopError
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.decision_journal.loop_status import LoopStatus, read_loop_statuses
from autotrascale.plan.control.commands import CommandKind
from autotrascale.web.api import schemas
from autotrascale.web.api.models import CursorQuery, OfJob, take_page
from autotrascale.web.api.problem_details import error_responses
from autotrascale.web.api.schemas import CommandView, LoopPage, PinRequest
from autotrascale.web.api.server_state import RequestedBy, ServerState, ServerStateDep
from autotrascale.web.api.strict_bodies import StrictRoute

router = APIRouter(prefix="/v1/loops", tags=["loops"], route_class=StrictRoute)

_REFUSALS = error_responses(404, 409)


@router.get("", summary="The control loops, by name", responses=error_responses())
def ls(
    state: ServerStateDep,
    limit: Annotated[schemas.PageLimit, Query()] = schemas.MAX_LISTED,
    cursor: CursorQuery = None,
    ended: Annotated[bool, Query(description="Those that have ended, too.")] = False,
) -> LoopPage:
    """Those that run, and those whose process died."""
    with open_journal(state) as decisions:
        found = read_loop_statuses(decisions, ended=ended)
    listed, more = take_page(found, [each.session for each in found], limit, cursor)
    return LoopPage(loops=list(listed), next_cursor=more)


@router.get("/{job}", summary="How the loop of a job stands", responses=error_responses(404))
def show(job: OfJob, state: ServerStateDep) -> LoopStatus:
    """Of one that acts and one that only advises the former."""
    with open_journal(state) as decisions:
        loop_commands.check_loop_known(decisions, job)
        return min(read_loop_statuses(decisions, job), key=lambda each: (not each.lives, each.advises))


@router.post("/{job}/pause", status_code=202, summary="Rescale nothing until it is resumed", responses=_REFUSALS)
def pause(job: OfJob, state: ServerStateDep, who: RequestedBy) -> CommandView:
    """The loop goes on looking, and a program that died is still started again."""
    return _ask(state, job, "pause", who)


@router.post("/{job}/resume", status_code=202, summary="End a pause or a pin", responses=_REFUSALS)
def resume(job: OfJob, state: ServerStateDep, who: RequestedBy) -> CommandView:
    return _ask(state, job, "resume", who)


@router.post("/{job}/pin", status_code=202, summary="Hold a parallelism until it is resumed", responses=_REFUSALS)
def pin(job: OfJob, asked: PinRequest, state: ServerStateDep, who: RequestedBy) -> CommandView:
    """Of the operators that it names; the others go on being scaled."""
    return _ask(state, job, "pin", who, asked.parallelism)


@router.post("/{job}/apply", status_code=202, summary="Carry out once what is recommended", responses=_REFUSALS)
def apply(job: OfJob, state: ServerStateDep, who: RequestedBy) -> CommandView:
    """By a loop that only advises, or is paused."""
    return _ask(state, job, "apply", who)


def _ask(
    state: ServerState, job: str, what: CommandKind, who: str, parallelism: Mapping[str, int] | None = None
) -> CommandView:
    """It is on the disk before it is answered, and taken in at the loop's next look."""
    with open_journal(state) as decisions:
        order = loop_commands.send_command(decisions, job, what, who, parallelism)
    server_log.info("asked", who=who, what=order.in_words, job=job, order=order.number)
    return CommandView(
        job=job,
        number=order.number,
        what=order.what,
        parallelism=dict(order.parallelism),
        asked_by=order.asked_by,
        asked_seconds_ago=0.0,
    )


@contextmanager
def open_journal(state: ServerState) -> Iterator[DecisionJournal]:
    """A connection of the request's own."""
    there = state.index.loops.decisions
    if there is None:
        raise NoLoopError("job", "has no control loop here: this server keeps no journal of them")
    decisions = DecisionJournal(there.path)
    try:
        yield decisions
    finally:
        decisions.close()
