"""The action log: what was asked of an application's sizes, when and why, and what came of it, in the journal's file.

A row for each event of an action, added and never changed: on the disk when `append` returns. People read it by
`autotrascale sizes`; policies by `recalled` of `plan/executor_size/steps.py`, which makes a state of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict

from autotrascale.domain.errors import DecisionJournalError, InputError
from autotrascale.knowledge.decision_journal.journal_file import JournalFile
from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.validation import validate


def append_actions(file: JournalFile, application: str, actions: Iterable[SizeChange]) -> int:
    """How many of them were new: one that is there already is not written twice, so that a log of windows may be read
    again."""
    written = 0
    with file.changing() as connection:
        for action in actions:
            cursor = connection.execute(
                "INSERT OR IGNORE INTO sizing (application, number, what, at, entry) VALUES (?, ?, ?, ?, ?)",
                (application, action.number, action.what, action.at, json.dumps(asdict(action), ensure_ascii=False)),
            )
            written += cursor.rowcount
            cursor.close()
    return written


def read_actions(file: JournalFile, application: str) -> tuple[SizeChange, ...]:
    """In the order in which they were written."""
    rows = file.read("SELECT entry FROM sizing WHERE application = ? ORDER BY row", (application,))
    return tuple(_action(application, entry) for (entry,) in rows)


def list_applications(file: JournalFile) -> list[str]:
    return [name for (name,) in file.read("SELECT DISTINCT application FROM sizing ORDER BY application", ())]


def read_latest_actions(file: JournalFile) -> dict[str, SizeChange]:
    """What was last done to each application, by its name."""
    rows = file.read(
        "SELECT application, entry FROM sizing WHERE row IN (SELECT MAX(row) FROM sizing GROUP BY application)"
        " ORDER BY application",
        (),
    )
    return {name: _action(name, entry) for name, entry in rows}


def requests_of_other_applications(file: JournalFile, application: str, since: float) -> tuple[float, ...]:
    """When changes were asked for of other applications."""
    query = "SELECT at FROM sizing WHERE application != ? AND what = 'asked' AND at >= ? ORDER BY at"
    return tuple(at for (at,) in file.read(query, (application, since)))


def _action(application: str, entry: str) -> SizeChange:
    try:
        return validate(json.loads(entry), SizeChange, place=f"sizes of {application}")
    except (ValueError, InputError) as error:
        raise DecisionJournalError(f"an action on the sizes of {application} cannot be read: {error}") from error
