"""The journal of decisions as a page reads it: what has changed, the last entries, and what was measured with them.

All of it is bounded, however long a session has lasted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

from autotrascale.domain.errors import DecisionJournalError, InputError
from autotrascale.domain.snapshot import CriticalShares, Snapshot
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.decision_journal.journal_file import decompress_text
from autotrascale.knowledge.decision_journal.serialization import event_from_json
from autotrascale.plan.control.step import ObservationTaken
from autotrascale.validation import validate

_LOOKED_THROUGH = 50  # looks, for the last that measured something
_AMONG = 5000  # entries, for those that did something
_STAYS = '"action": "stay"'  # as the journal writes it


@dataclass(frozen=True)
class SessionMark:
    """A session, and when it was last written. Wall clock, in seconds since 1970."""

    id: str
    job: str
    begun: float
    written: float
    ended: str | None
    advises: bool


@dataclass(frozen=True)
class JournalEntry:
    """An entry, and when it was written."""

    number: int
    at: float
    entry: dict[str, Any]


@dataclass(frozen=True)
class RecordedMeasurement:
    """What a look measured that its entry has no room for."""

    throughput: float | None = None
    critical: CriticalShares | None = None


def list_sessions(decisions: DecisionJournal) -> list[SessionMark]:
    """Of all sessions, the newest first; their states are not read."""
    rows = decisions.read(
        "SELECT id, job, begun, written, ended, json_extract(opening, '$.advise') FROM session ORDER BY begun DESC", ()
    )
    return [SessionMark(id, job, begun, at, ended, bool(advises)) for id, job, begun, at, ended, advises in rows]


def read_entries(decisions: DecisionJournal, session: str, last: int, after: int = 0) -> list[JournalEntry]:
    """In order: the `last` so many of those after that number."""
    rows = decisions.read(
        "SELECT number, written, entry FROM decision WHERE session = ? AND number > ? ORDER BY number DESC LIMIT ?",
        (session, after, last),
    )
    return [JournalEntry(number, at, json.loads(entry)) for number, at, entry in reversed(rows)]


def read_changes(decisions: DecisionJournal, session: str, last: int) -> list[JournalEntry]:
    """The latest first: the `last` so many, among recent ones, of those that did more than stay. Advice that is given
    again and again is told once, as of when it was first given."""
    rows = decisions.read(
        "SELECT number, written, entry FROM decision WHERE session = ? ORDER BY number DESC LIMIT ?", (session, _AMONG)
    )
    found = (JournalEntry(number, at, json.loads(entry)) for number, at, entry in rows if _STAYS not in entry)
    first = (list(again)[-1] for _, again in groupby(found, lambda each: (each.entry["action"], each.entry["wanted"])))
    return list(islice(first, last))


def read_measurements(decisions: DecisionJournal, session: str, after: int) -> dict[int, RecordedMeasurement]:
    """By the number of the entry, of the looks that are still kept. The fields are read as they stand: a look that is
    validated takes ten times as long, and there are hundreds."""
    found = {}
    for number, text in _looks(decisions, session, after):
        each = _told(text)
        if each != RecordedMeasurement():
            found[number] = each
    return found


def _told(text: str) -> RecordedMeasurement:
    look = json.loads(text).get("look") or {}
    snapshot = (look.get("look") or {}).get("snapshot") or {}
    carried = snapshot.get("throughput")
    return RecordedMeasurement(
        float(carried) if isinstance(carried, int | float) else None, _critical(snapshot.get("critical"))
    )


def _critical(told: object) -> CriticalShares | None:
    """None where another version wrote something else."""
    try:
        return None if told is None else validate(told, CriticalShares, place="critical")
    except InputError:
        return None


def read_last_snapshot(decisions: DecisionJournal, session: str, upto: int) -> Snapshot | None:
    """Of the last looks; None where none of them measured anything, or they were written by another version."""
    for _, text in reversed(_looks(decisions, session, upto - _LOOKED_THROUGH)):
        try:
            event = event_from_json(text)
        except InputError:
            return None
        if isinstance(event, ObservationTaken) and event.look.snapshot is not None:
            return event.look.snapshot
    return None


def _looks(decisions: DecisionJournal, session: str, after: int) -> list[tuple[int, str]]:
    """Each with the first look of its part as its dictionary, which may stand further back."""
    rows = decisions.read(
        "SELECT number, sample, body FROM look WHERE session = ? AND number > ? ORDER BY number", (session, after)
    )
    samples = _samples(decisions, session, sorted({sample for _, sample, _ in rows if sample is not None}))
    found = []
    for number, sample, body in rows:
        if sample is None or sample in samples:
            found.append((number, decompress_text(body, samples.get(sample, b""))))
    return found


def _samples(decisions: DecisionJournal, session: str, numbers: Sequence[int]) -> dict[int, bytes]:
    found = {}
    for number in numbers:
        rows = decisions.read("SELECT sample, body FROM look WHERE session = ? AND number = ?", (session, number))
        for sample, body in rows:
            if sample is not None:
                raise DecisionJournalError(f"look {number} of session {session} is no first of a part")
            found[number] = decompress_text(body).encode()
    return found
