"""The action log: what was asked of an application's sizes, when and why, and what came of it, in the journal's file.

A row for each event of an action, added and never changed: on the disk when `append` returns. People read it by
`autotrascale sizes`; policies by `recalled` of `plan/executor_size/steps.py`, which makes a state of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict

from autotrascale.domain.errors import DecisionJournalError, InputError
from autotrascale.knowledge.decisions.file import DecisionsFile
from autotrascale.plan.executor_size.actions import Action
from autotrascale.reading import validate


def append(file: DecisionsFile, application: str, actions: Iterable[Action]) -> int:
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


def actions(file: DecisionsFile, application: str) -> tuple[Action, ...]:
    """In the order in which they were written."""
    rows = file.read("SELECT entry FROM sizing WHERE application = ? ORDER BY row", (application,))
    return tuple(_action(application, entry) for (entry,) in rows)


def applications(file: DecisionsFile) -> list[str]:
    return [name for (name,) in file.read("SELECT DISTINCT application FROM sizing ORDER BY application", ())]


def latest(file: DecisionsFile) -> dict[str, Action]:
    """What was last done to each application, by its name."""
    rows = file.read(
        "SELECT application, entry FROM sizing WHERE row IN (SELECT MAX(row) FROM sizing GROUP BY application)"
        " ORDER BY application",
        (),
    )
    return {name: _action(name, entry) for name, entry in rows}


def asked_by_others(file: DecisionsFile, application: str, since: float) -> tuple[float, ...]:
    """When changes were asked for of other applications."""
    query = "SELECT at FROM sizing WHERE application != ? AND what = 'asked' AND at >= ? ORDER BY at"
    return tuple(at for (at,) in file.read(query, (application, since)))


def _action(application: str, entry: str) -> Action:
    try:
        return validate(json.loads(entry), Action, place=f"sizes of {application}")
    except (ValueError, InputError) as error:
        raise DecisionJournalError(f"an action on the sizes of {application} cannot be read: {error}") from error
