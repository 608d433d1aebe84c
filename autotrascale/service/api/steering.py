"""The control loops that keep their journal beside this store: how each stands, and orders to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Query

from autotrascale.domain.errors import NoLoopError
from autotrascale.knowledge.decisions.journal import Decisions
from autotrascale.knowledge.decisions.status import LoopStatus, statuses
from autotrascale.plan.control.orders import What
from autotrascale.service import orders
from autotrascale.service.api import schemas
from autotrascale.service.api.bodies import StrictRoute
from autotrascale.service.api.others import CursorQuery, OfJob, page_of
from autotrascale.service.api.problems import documented
from autotrascale.service.api.schemas import LoopPage, OrderView, PinRequest
from autotrascale.service.api.state import AskedBy, State, StateOf
from autotrascale.service.queue import logs

router = APIRouter(prefix="/v1/loops", tags=["loops"], route_class=StrictRoute)

_REFUSALS = documented(404, 409)


@router.get("", summary="The control loops, by name", responses=documented())
def ls(
    state: StateOf,
    limit: Annotated[schemas.Limit, Query()] = schemas.MOST_LISTED,
    cursor: CursorQuery = None,
    ended: Annotated[bool, Query(description="Those that have ended, too.")] = False,
) -> LoopPage:
    """Those that run, and those whose process died."""
    with decisions_of(state) as decisions:
        found = statuses(decisions, ended=ended)
    listed, more = page_of(found, [each.session for each in found], limit, cursor)
    return LoopPage(loops=list(listed), next_cursor=more)


@router.get("/{job}", summary="How the loop of a job stands", responses=documented(404))
def show(job: OfJob, state: StateOf) -> LoopStatus:
    """Of one that acts and one that only advises the former."""
    with decisions_of(state) as decisions:
        orders.check_known(decisions, job)
        return min(statuses(decisions, job), key=lambda each: (not each.lives, each.advises))


@router.post("/{job}/pause", status_code=202, summary="Rescale nothing until it is resumed", responses=_REFUSALS)
def pause(job: OfJob, state: StateOf, who: AskedBy) -> OrderView:
    """The loop goes on looking, and a program that died is still started again."""
    return _ask(state, job, "pause", who)


@router.post("/{job}/resume", status_code=202, summary="End a pause or a pin", responses=_REFUSALS)
def resume(job: OfJob, state: StateOf, who: AskedBy) -> OrderView:
    return _ask(state, job, "resume", who)


@router.post("/{job}/pin", status_code=202, summary="Hold a parallelism until it is resumed", responses=_REFUSALS)
def pin(job: OfJob, asked: PinRequest, state: StateOf, who: AskedBy) -> OrderView:
    """Of the operators that it names; the others go on being scaled."""
    return _ask(state, job, "pin", who, asked.parallelism)


@router.post("/{job}/apply", status_code=202, summary="Carry out once what is recommended", responses=_REFUSALS)
def apply(job: OfJob, state: StateOf, who: AskedBy) -> OrderView:
    """By a loop that only advises, or is paused."""
    return _ask(state, job, "apply", who)


def _ask(state: State, job: str, what: What, who: str, parallelism: Mapping[str, int] | None = None) -> OrderView:
    """It is on the disk before it is answered, and taken in at the loop's next look."""
    with decisions_of(state) as decisions:
        order = orders.ask(decisions, job, what, who, parallelism)
    logs.say("asked", who=who, what=order.in_words, job=job, order=order.number)
    return OrderView(
        job=job,
        number=order.number,
        what=order.what,
        parallelism=dict(order.parallelism),
        asked_by=order.asked_by,
        asked_seconds_ago=0.0,
    )


@contextmanager
def decisions_of(state: State) -> Iterator[Decisions]:
    """A connection of the request's own."""
    there = state.index.loops.decisions
    if there is None:
        raise NoLoopError("job", "has no control loop here: this server keeps no journal of them")
    decisions = Decisions(there.path)
    try:
        yield decisions
    finally:
        decisions.close()
