"""Orders of people to control loops, in the journal's file: written by whoever asks, in whatever process, and taken in
by the loop at its next look. A row's number is the order's; rows stay, so that it is known later who asked for what.

An order is for a job, and for its loop that acts or its loop that advises: one that dies before it took the order in,
and is started again, takes it in then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from autotrascale.domain.errors import CommandRefusedError, DecisionJournalError
from autotrascale.knowledge.decision_journal.journal_file import JournalFile
from autotrascale.plan.control.commands import CommandKind, CommandsInForce, LoopCommand

MAX_WAITING_COMMANDS = 100  # of one loop: whoever asks more often than it looks asks in vain
_LONGEST = 120  # characters of a name
_ROW = "number, what, asked_by, asked_at, parallelism"


def append_command(
    file: JournalFile,
    job: str,
    *,
    advises: bool,
    what: CommandKind,
    asked_by: str,
    at: float,
    parallelism: Mapping[str, int] | None = None,
    taken: int = 0,
) -> LoopCommand:
    """On the disk when it returns. `taken`: the number of the last one that the loop has taken in."""
    who = "".join(c for c in asked_by if c.isprintable())[:_LONGEST]
    pins = dict(parallelism or {})
    LoopCommand(1, what, who, at, pins)  # what cannot be one is not written
    with file.changing() as connection:
        query = "SELECT count(*) FROM orders WHERE job = ? AND advises = ? AND number > ?"
        with closing(connection.execute(query, (job, advises, taken))) as cursor:
            (waiting,) = cursor.fetchone()
        if waiting >= MAX_WAITING_COMMANDS:
            raise CommandRefusedError(
                f"job {job}",
                f"has {waiting} orders that its loop has not taken in yet",
                remedy="wait for its next look, and see why it is late",
            )
        with closing(
            connection.execute(
                "INSERT INTO orders (job, advises, what, asked_by, asked_at, parallelism) VALUES (?, ?, ?, ?, ?, ?)",
                (job, advises, what, who, at, json.dumps(pins)),
            )
        ) as cursor:
            number = int(cursor.lastrowid or 0)
    return LoopCommand(number, what, who, at, pins)


def read_commands(file: JournalFile, job: str, number: int, *, advises: bool) -> tuple[LoopCommand, ...]:
    """In the order in which they were asked."""
    rows = file.read(
        f"SELECT {_ROW} FROM orders WHERE job = ? AND advises = ? AND number > ? ORDER BY number",
        (job, advises, number),
    )
    return tuple(_order(row) for row in rows)


def commands_in_force(file: JournalFile, job: str, *, advises: bool) -> CommandsInForce:
    """What the orders of the past come to, for a loop that begins: nothing of them is carried out once more."""
    return CommandsInForce().taking_all(read_commands(file, job, 0, advises=advises)).applied()


def _order(row: tuple[Any, ...]) -> LoopCommand:
    number, what, asked_by, asked_at, parallelism = row
    try:
        return LoopCommand(number, what, asked_by, asked_at, json.loads(parallelism))
    except ValueError as error:
        raise DecisionJournalError(f"order {number} cannot be read: {error}") from error
