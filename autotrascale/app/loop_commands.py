"""Commands to a running control loop: pause, resume, pin and apply, from the terminal and over HTTP.

A command travels through the decision journal. The loop, in whichever process, reads it with its next observation.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from autotrascale.domain import checks
from autotrascale.domain.errors import CommandRefusedError, InputError, NoLoopError
from autotrascale.knowledge.decision_journal import commands
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.decision_journal.sessions import PastSession
from autotrascale.plan.control.commands import CommandKind, LoopCommand
from autotrascale.plan.formatting import format_seconds, join_names

MAX_NEAREST = 3  # names to propose for a misspelled one
MAX_LISTED = 10


def check_loop_known(decisions: DecisionJournal, job: str) -> None:
    """Raise NoLoopError, with the nearest names, if the job never had a control loop."""
    known = decisions.jobs()
    if job not in known:
        remedy = _suggest(job, known) if known else "start one with: autotrascale autoscale JOB.yaml"
        raise NoLoopError("job", "has no control loop in this journal", seen=job, remedy=remedy)


def find_loop_for(decisions: DecisionJournal, job: str, what: CommandKind) -> PastSession:
    """Return the loop that receives the command: the one that acts, else the one that advises.

    Raises:
        NoLoopError: the job never had a loop.
        CommandRefusedError: no loop runs, or the loop cannot carry out the command.
    """
    check_loop_known(decisions, job)
    sessions = decisions.latest_sessions(job)
    alive = sorted((each for each in sessions if each.is_alive), key=lambda each: each.header.advise)
    if not alive:
        age = format_seconds(max(0.0, decisions.clock() - max(each.written for each in sessions)))
        raise CommandRefusedError(
            f"job {job}",
            f"has no running control loop; the last sign of life was {age} ago",
            remedy="start the loop, and send the command again",
        )
    session = alive[0]
    if what == "apply":
        _check_apply(decisions, session)
    elif session.header.advise:
        raise CommandRefusedError(
            f"job {job}",
            "has a loop that only advises, so there is nothing to pause or pin",
            remedy=f"carry out its recommendation with: autotrascale apply {job}",
        )
    return session


def send_command(
    decisions: DecisionJournal, job: str, what: CommandKind, asked_by: str, parallelism: Mapping[str, int] | None = None
) -> LoopCommand:
    """Send a command and return it. It is on the disk then.

    Args:
        decisions: the journal of the loop.
        job: name of the job.
        what: the command.
        asked_by: name of the requester.
        parallelism: instances by operator, for `pin`.

    Raises:
        NoLoopError, CommandRefusedError: see `find_loop_for`.
        InputError: the pinned parallelism is outside its bounds.
    """
    session = find_loop_for(decisions, job, what)
    check_pin(session, parallelism or {})
    return commands.append_command(
        decisions,
        job,
        advises=session.header.advise,
        what=what,
        asked_by=asked_by,
        at=decisions.clock(),
        parallelism=parallelism,
        taken=session.state.commands.last_number,
    )


def check_pin(session: PastSession, parallelism: Mapping[str, int]) -> None:
    """Raise InputError if an operator does not exist, or its parallelism is outside its bounds."""
    bounds = session.header.operators
    names = list(bounds or session.state.observed or {})
    for name, k in parallelism.items():
        place = f"parallelism.{name}"
        if names and name not in names:
            raise InputError(place, "names an operator that the job does not have", remedy=_suggest(name, names))
        checks.count(place, k)
        least, most = bounds.get(name, (1, k))
        if not least <= k <= most:
            raise InputError(place, f"is outside [{least}, {most}]", seen=k, remedy="pin it within these bounds")


def _check_apply(decisions: DecisionJournal, session: PastSession) -> None:
    # A loop that acts has nothing left to apply, unless it is paused or pinned.
    job, advises, state = session.header.job, session.header.advise, session.state.commands
    waiting = commands.read_commands(decisions, job, state.last_number, advises=advises)
    if not advises and state.accept_all(waiting).standing is None:
        raise CommandRefusedError(
            f"job {job}",
            "has a loop that carries out its decisions by itself",
            remedy=f"see its state with: autotrascale status {job}",
        )


def _suggest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=MAX_NEAREST, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"use one of {join_names(names, MAX_LISTED)}"
