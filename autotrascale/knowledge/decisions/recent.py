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
from autotrascale.domain.snapshot import Critical, Snapshot
from autotrascale.knowledge.decisions.file import inflated
from autotrascale.knowledge.decisions.forms import event_from_json
from autotrascale.knowledge.decisions.journal import Decisions
from autotrascale.plan.control.step import LookTaken
from autotrascale.reading import validate

_LOOKED_THROUGH = 50  # looks, for the last that measured something
_AMONG = 5000  # entries, for those that did something
_STAYS = '"action": "stay"'  # as the journal writes it


@dataclass(frozen=True)
class Mark:
    """A session, and when it was last written. Wall clock, in seconds since 1970."""

    id: str
    job: str
    begun: float
    written: float
    ended: str | None
    advises: bool


@dataclass(frozen=True)
class Written:
    """An entry, and when it was written."""

    number: int
    at: float
    entry: dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """What a look measured that its entry has no room for."""

    throughput: float | None = None
    critical: Critical | None = None


def marks(decisions: Decisions) -> list[Mark]:
    """Of all sessions, the newest first; their states are not read."""
    rows = decisions.read(
        "SELECT id, job, begun, written, ended, json_extract(opening, '$.advise') FROM session ORDER BY begun DESC", ()
    )
    return [Mark(id, job, begun, at, ended, bool(advises)) for id, job, begun, at, ended, advises in rows]


def entries(decisions: Decisions, session: str, last: int, after: int = 0) -> list[Written]:
    """In order: the `last` so many of those after that number."""
    rows = decisions.read(
        "SELECT number, written, entry FROM decision WHERE session = ? AND number > ? ORDER BY number DESC LIMIT ?",
        (session, after, last),
    )
    return [Written(number, at, json.loads(entry)) for number, at, entry in reversed(rows)]


def changes(decisions: Decisions, session: str, last: int) -> list[Written]:
    """The latest first: the `last` so many, among recent ones, of those that did more than stay. Advice that is given
    again and again is told once, as of when it was first given."""
    rows = decisions.read(
        "SELECT number, written, entry FROM decision WHERE session = ? ORDER BY number DESC LIMIT ?", (session, _AMONG)
    )
    found = (Written(number, at, json.loads(entry)) for number, at, entry in rows if _STAYS not in entry)
    first = (list(again)[-1] for _, again in groupby(found, lambda each: (each.entry["action"], each.entry["wanted"])))
    return list(islice(first, last))


def measured(decisions: Decisions, session: str, after: int) -> dict[int, Measured]:
    """By the number of the entry, of the looks that are still kept. The fields are read as they stand: a look that is
    validated takes ten times as long, and there are hundreds."""
    found = {}
    for number, text in _looks(decisions, session, after):
        each = _told(text)
        if each != Measured():
            found[number] = each
    return found


def _told(text: str) -> Measured:
    look = json.loads(text).get("look") or {}
    snapshot = (look.get("look") or {}).get("snapshot") or {}
    carried = snapshot.get("throughput")
    return Measured(float(carried) if isinstance(carried, int | float) else None, _critical(snapshot.get("critical")))


def _critical(told: object) -> Critical | None:
    """None where another version wrote something else."""
    try:
        return None if told is None else validate(told, Critical, place="critical")
    except InputError:
        return None


def last_snapshot(decisions: Decisions, session: str, upto: int) -> Snapshot | None:
    """Of the last looks; None where none of them measured anything, or they were written by another version."""
    for _, text in reversed(_looks(decisions, session, upto - _LOOKED_THROUGH)):
        try:
            event = event_from_json(text)
        except InputError:
            return None
        if isinstance(event, LookTaken) and event.look.snapshot is not None:
            return event.look.snapshot
    return None


def _looks(decisions: Decisions, session: str, after: int) -> list[tuple[int, str]]:
    """Each with the first look of its part as its dictionary, which may stand further back."""
    rows = decisions.read(
        "SELECT number, sample, body FROM look WHERE session = ? AND number > ? ORDER BY number", (session, after)
    )
    samples = _samples(decisions, session, sorted({sample for _, sample, _ in rows if sample is not None}))
    found = []
    for number, sample, body in rows:
        if sample is None or sample in samples:
            found.append((number, inflated(body, samples.get(sample, b""))))
    return found


def _samples(decisions: Decisions, session: str, numbers: Sequence[int]) -> dict[int, bytes]:
    found = {}
    for number in numbers:
        rows = decisions.read("SELECT sample, body FROM look WHERE session = ? AND number = ?", (session, number))
        for sample, body in rows:
            if sample is not None:
                raise DecisionJournalError(f"look {number} of session {session} is no first of a part")
            found[number] = inflated(body).encode()
    return found
