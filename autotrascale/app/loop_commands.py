"""Asking a control loop to pause, to go on, to hold a parallelism, or to carry out what it recommends: who can be asked
what, for the terminal and for HTTP alike. The order travels in the journal of decisions."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from autotrascale.domain import checks
from autotrascale.domain.errors import CommandRefusedError, InputError, NoLoopError
from autotrascale.knowledge.decision_journal import commands
from autotrascale.knowledge.decision_journal.journal import DecisionJournal, PastSession
from autotrascale.plan.control.commands import CommandKind, LoopCommand
from autotrascale.plan.formatting import format_seconds, join_names

_NEAREST = 3
_SHOWN = 10


def check_loop_known(decisions: DecisionJournal, job: str) -> None:
    """Raises `NoLoopError` with the nearest names."""
    known = decisions.jobs()
    if job in known:
        return
    near = difflib.get_close_matches(job, known, n=_NEAREST, cutoff=0.5)
    remedy = f"did you mean {' or '.join(near)}?" if near else f"use one of {join_names(known, _SHOWN)}"
    raise NoLoopError(
        "job",
        "has no control loop that keeps its journal here",
        seen=job,
        remedy=remedy if known else "begin one with: autotrascale autoscale JOB.yaml",
    )


def find_loop_for(decisions: DecisionJournal, job: str, what: CommandKind) -> PastSession:
    """The loop that is asked: the one that acts. Where there is none, one that advises can only be asked to apply."""
    check_loop_known(decisions, job)
    past = decisions.latest(job)
    alive = sorted((each for each in past if each.lives), key=lambda each: each.opening.advise)
    if not alive:
        ago = format_seconds(max(0.0, decisions.clock() - max(each.written for each in past)))
        raise CommandRefusedError(
            f"job {job}",
            f"has no loop that runs now: the last one was last heard of {ago} ago",
            remedy="start it, and ask again",
        )
    found = alive[0]
    if what == "apply":
        _check_applies(decisions, found)
    elif found.opening.advise:
        raise CommandRefusedError(
            f"job {job}",
            "is only advised on: nothing is rescaled that could be held back",
            remedy=f"carry out what is recommended: autotrascale apply {job}",
        )
    return found


def send_command(
    decisions: DecisionJournal, job: str, what: CommandKind, asked_by: str, parallelism: Mapping[str, int] | None = None
) -> LoopCommand:
    """On the disk when it returns; it is taken in at the loop's next look."""
    past = find_loop_for(decisions, job, what)
    check_pin(past, parallelism or {})
    return commands.append_command(
        decisions,
        job,
        advises=past.opening.advise,
        what=what,
        asked_by=asked_by,
        at=decisions.clock(),
        parallelism=parallelism,
        taken=past.state.orders.taken,
    )


def check_pin(past: PastSession, parallelism: Mapping[str, int]) -> None:
    bounds = past.opening.operators
    names = list(bounds or past.state.observed or {})
    for name, k in parallelism.items():
        if names and name not in names:
            near = difflib.get_close_matches(name, names, n=_NEAREST, cutoff=0.5)
            remedy = f"did you mean {' or '.join(near)}?" if near else f"use one of {join_names(names, _SHOWN)}"
            raise InputError(f"parallelism.{name}", "names an operator that the job does not have", remedy=remedy)
        checks.count(f"parallelism.{name}", k)
        least, most = bounds.get(name, (1, k))
        if not least <= k <= most:
            raise InputError(f"parallelism.{name}", f"is outside of {least} to {most}", seen=k, remedy="pin it within")


def _check_applies(decisions: DecisionJournal, past: PastSession) -> None:
    """A loop that acts by itself has nothing left to carry out, unless somebody paused it."""
    asked = commands.read_commands(decisions, past.opening.job, past.state.orders.taken, advises=past.opening.advise)
    if not past.opening.advise and past.state.orders.taking_all(asked).standing is None:
        job = past.opening.job
        raise CommandRefusedError(
            f"job {job}",
            "is kept by a loop that carries out what it decides by itself",
            remedy=f"see what it does: autotrascale status {job}",
        )
