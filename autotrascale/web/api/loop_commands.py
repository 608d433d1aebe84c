"""/v1/loops: the state of control loops, and commands to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Query

from autotrascale.app import loop_commands
from autotrascale.app.run_queue import server_log
from autotrascale.domain.errors import NoLoopError
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.decision_journal.loop_status import LoopStatus, choose_loops, read_loops
from autotrascale.plan.control.commands import CommandKind
from autotrascale.web.api import schemas
from autotrascale.web.api.paging import CursorQuery, JobName, LimitQuery, take_page
from autotrascale.web.api.problem_details import error_responses
from autotrascale.web.api.schemas import CommandView, LoopPage, PinRequest
from autotrascale.web.api.server_state import RequestedBy, ServerState, ServerStateDep
from autotrascale.web.api.strict_bodies import StrictRoute

router = APIRouter(prefix="/v1/loops", tags=["loops"], route_class=StrictRoute)

_REFUSALS = error_responses(404, 409)


@router.get("", summary="List the control loops", responses=error_responses())
def list_loops(
    state: ServerStateDep,
    limit: LimitQuery = schemas.MAX_LISTED,
    cursor: CursorQuery = None,
    ended: Annotated[bool, Query(description="List loops that have ended, too.")] = False,
) -> LoopPage:
    """Loops that run and loops whose process died, by the name of the job."""
    with open_journal(state) as journal:
        loops = [each.status() for each in read_loops(journal, include_ended=ended)]
    page, more = take_page(loops, [each.session for each in loops], limit, cursor)
    return LoopPage(loops=page, next_cursor=more)


@router.get("/{job}", summary="Show the control loop of a job", responses=error_responses(404))
def show_loop(job: JobName, state: ServerStateDep) -> LoopStatus:
    """The loop that acts, if the job also has a loop that only advises."""
    with open_journal(state) as journal:
        loop_commands.check_loop_known(journal, job)
        return choose_loops(read_loops(journal, job))[job].status()


@router.post("/{job}/pause", status_code=202, summary="Pause a loop", responses=_REFUSALS)
def pause(job: JobName, state: ServerStateDep, who: RequestedBy) -> CommandView:
    """Nothing is rescaled until the loop is resumed. The loop observes the job and starts it again if it dies."""
    return _send(state, job, "pause", who)


@router.post("/{job}/resume", status_code=202, summary="End a pause or a pin", responses=_REFUSALS)
def resume(job: JobName, state: ServerStateDep, who: RequestedBy) -> CommandView:
    return _send(state, job, "resume", who)


@router.post("/{job}/pin", status_code=202, summary="Pin operators to a parallelism", responses=_REFUSALS)
def pin(job: JobName, body: PinRequest, state: ServerStateDep, who: RequestedBy) -> CommandView:
    """The named operators keep this parallelism until the loop is resumed. Other operators are still scaled."""
    return _send(state, job, "pin", who, body.parallelism)


@router.post("/{job}/apply", status_code=202, summary="Apply the recommendation once", responses=_REFUSALS)
def apply(job: JobName, state: ServerStateDep, who: RequestedBy) -> CommandView:
    """The loop only advises, or is paused."""
    return _send(state, job, "apply", who)


def _send(
    state: ServerState, job: str, what: CommandKind, who: str, parallelism: Mapping[str, int] | None = None
) -> CommandView:
    # The command is on the disk before the answer. The loop reads it with its next observation.
    with open_journal(state) as journal:
        command = loop_commands.send_command(journal, job, what, who, parallelism)
    server_log.info("request", who=who, what=command.description, job=job, command=command.number)
    return CommandView(
        job=job,
        number=command.number,
        what=command.what,
        parallelism=dict(command.parallelism),
        asked_by=command.asked_by,
        asked_seconds_ago=0.0,
    )


@contextmanager
def open_journal(state: ServerState) -> Iterator[DecisionJournal]:
    """Open a connection to the journal for one request. Raises `NoLoopError` if the server has no journal."""
    if state.loops.journal is None:
        raise NoLoopError("job", "has no control loop here: this server has no decision journal")
    journal = DecisionJournal(state.loops.journal.path)
    try:
        yield journal
    finally:
        journal.close()
