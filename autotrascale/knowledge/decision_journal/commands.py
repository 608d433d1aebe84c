"""Commands of people to control loops, in the decision journal: any process appends them, the loop reads them.

A loop reads its commands with its next observation. Rows are never deleted, so that the journal shows who asked for
what. A command is addressed to a job and to its loop that acts or its loop that advises. A loop that dies before it has
read a command reads it after it is started again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from autotrascale.domain.errors import CommandRefusedError, DecisionJournalError
from autotrascale.knowledge.decision_journal.journal_file import JournalFile
from autotrascale.plan.control.commands import CommandKind, CommandsInForce, LoopCommand

MAX_WAITING_COMMANDS = 100  # per loop: more than it can read before its next observation is of no use
_MAX_NAME_LENGTH = 120
_COLUMNS = "number, what, asked_by, asked_at, parallelism"


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
    """Write a command for a loop, and return it with its number. The command is on the disk when this returns.

    Args:
        advises: whether the loop only advises.
        asked_by: name of the person, shown to others; unprintable characters are removed.
        at: wall clock, seconds since 1970.
        parallelism: for a pin, instances by operator.
        taken: number of the last command that the loop has read.

    Raises:
        InputError: the command makes no sense.
        CommandRefusedError: the loop has too many unread commands.
    """
    name = "".join(c for c in asked_by if c.isprintable())[:_MAX_NAME_LENGTH]
    pins = dict(parallelism or {})
    LoopCommand(1, what, name, at, pins)  # raises before anything is written
    with file.transaction() as connection:
        query = "SELECT count(*) FROM command WHERE job = ? AND advises = ? AND number > ?"
        with closing(connection.execute(query, (job, advises, taken))) as cursor:
            (waiting,) = cursor.fetchone()
        if waiting >= MAX_WAITING_COMMANDS:
            raise CommandRefusedError(
                f"job {job}",
                f"has {waiting} commands that its loop has not read yet",
                remedy=f"wait for the next observation; autotrascale status {job} shows why it is late",
            )
        insert = "INSERT INTO command (job, advises, what, asked_by, asked_at, parallelism) VALUES (?, ?, ?, ?, ?, ?)"
        with closing(connection.execute(insert, (job, advises, what, name, at, json.dumps(pins)))) as cursor:
            number = int(cursor.lastrowid or 0)
    return LoopCommand(number, what, name, at, pins)


def read_commands(file: JournalFile, job: str, number: int, *, advises: bool) -> tuple[LoopCommand, ...]:
    """Return the commands after `number`, the earliest first."""
    rows = file.read(
        f"SELECT {_COLUMNS} FROM command WHERE job = ? AND advises = ? AND number > ? ORDER BY number",
        (job, advises, number),
    )
    return tuple(_parse(row) for row in rows)


def read_commands_in_force(file: JournalFile, job: str, *, advises: bool) -> CommandsInForce:
    """Return the pause or pin that past commands leave for a new session. No past `apply` is carried out again."""
    return CommandsInForce().accept_all(read_commands(file, job, 0, advises=advises)).end_apply()


def _parse(row: tuple[Any, ...]) -> LoopCommand:
    number, what, asked_by, asked_at, parallelism = row
    try:
        return LoopCommand(number, what, asked_by, asked_at, json.loads(parallelism))
    except ValueError as error:
        raise DecisionJournalError(f"command {number} in the journal cannot be read: {error}") from error
