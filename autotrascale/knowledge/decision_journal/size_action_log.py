"""The log of executor size changes, in the decision journal: each request, the reason for it, and its outcome.

Rows are added and never changed. A row is on the disk when `append_actions` returns. `autotrascale sizes` shows the log
to people; `plan/executor_size/size_step.py` restores a policy's state from it.
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
    """Write the actions that the log does not have yet, and return how many were new."""
    written = 0
    with file.transaction() as connection:
        for action in actions:
            cursor = connection.execute(
                "INSERT OR IGNORE INTO size_change (application, number, what, at, entry) VALUES (?, ?, ?, ?, ?)",
                (application, action.number, action.what, action.at, json.dumps(asdict(action), ensure_ascii=False)),
            )
            written += cursor.rowcount
            cursor.close()
    return written


def read_actions(file: JournalFile, application: str) -> tuple[SizeChange, ...]:
    """Return all actions on an application, in the order of writing."""
    rows = file.read("SELECT entry FROM size_change WHERE application = ? ORDER BY row", (application,))
    return tuple(_parse(application, entry) for (entry,) in rows)


def list_applications(file: JournalFile) -> list[str]:
    return [name for (name,) in file.read("SELECT DISTINCT application FROM size_change ORDER BY application")]


def read_latest_actions(file: JournalFile) -> dict[str, SizeChange]:
    """Return the last action on each application, by the application's name."""
    rows = file.read(
        "SELECT application, entry FROM size_change"
        " WHERE row IN (SELECT MAX(row) FROM size_change GROUP BY application) ORDER BY application"
    )
    return {name: _parse(name, entry) for name, entry in rows}


def requests_of_other_applications(file: JournalFile, application: str, since: float) -> tuple[float, ...]:
    """Return the times of requests for other applications since `since`, in seconds since 1970."""
    query = "SELECT at FROM size_change WHERE application != ? AND what = 'asked' AND at >= ? ORDER BY at"
    return tuple(at for (at,) in file.read(query, (application, since)))


def _parse(application: str, entry: str) -> SizeChange:
    try:
        return validate(json.loads(entry), SizeChange, place=f"sizes of {application}")
    except (ValueError, InputError) as error:
        raise DecisionJournalError(f"a size change of {application} in the journal cannot be read: {error}") from error
