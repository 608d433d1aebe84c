"""The last entries of a session, and the measurements that belong to them. Every query is bounded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import CriticalShares, Snapshot
from autotrascale.knowledge.decision_journal.journal_file import JournalFile
from autotrascale.knowledge.decision_journal.replay import read_event_texts
from autotrascale.knowledge.decision_journal.serialization import event_from_json
from autotrascale.plan.control.events import ObservationTaken
from autotrascale.validation import validate

_EVENTS_SEARCHED = 50  # for the last snapshot
_ENTRIES_SEARCHED = 5000  # for the last changes
_NO_CHANGE = '"action": "stay"'  # as `json.dumps` writes it


@dataclass(frozen=True)
class JournalEntry:
    """An entry as plain data, with the time at which it was written (wall clock, seconds since 1970)."""

    number: int
    at: float
    entry: dict[str, Any]


@dataclass(frozen=True)
class RecordedMeasurement:
    """Measured values of an observation that its entry does not hold. `throughput` in records per second."""

    throughput: float | None = None
    critical: CriticalShares | None = None


def read_entries(journal: JournalFile, session: str, last: int, after: int = 0) -> list[JournalEntry]:
    """Return the `last` entries with a number above `after`, in order."""
    rows = journal.read(
        "SELECT number, written, entry FROM decision WHERE session = ? AND number > ? ORDER BY number DESC LIMIT ?",
        (session, after, last),
    )
    return [JournalEntry(number, at, json.loads(entry)) for number, at, entry in reversed(rows)]


def read_changes(journal: JournalFile, session: str, last: int) -> list[JournalEntry]:
    """Return the `last` entries that changed something or advised a change, the latest first.

    Advice that is repeated counts once, with the time of its first entry.
    """
    rows = journal.read(
        "SELECT number, written, entry FROM decision WHERE session = ? ORDER BY number DESC LIMIT ?",
        (session, _ENTRIES_SEARCHED),
    )
    changes = (JournalEntry(number, at, json.loads(entry)) for number, at, entry in rows if _NO_CHANGE not in entry)
    repeated = groupby(changes, lambda each: (each.entry["action"], each.entry["wanted"]))
    return list(islice((list(group)[-1] for _, group in repeated), last))


def read_measurements(journal: JournalFile, session: str, after: int) -> dict[int, RecordedMeasurement]:
    """Return the measurements after entry `after`, by the number of the entry."""
    measured = {number: _parse_measurement(text) for number, text, _ in read_event_texts(journal, session, after)}
    return {number: each for number, each in measured.items() if each != RecordedMeasurement()}


def read_last_snapshot(journal: JournalFile, session: str, upto: int) -> Snapshot | None:
    """Return the snapshot of the last observation that has one, or None."""
    for _, text, _ in reversed(list(read_event_texts(journal, session, upto - _EVENTS_SEARCHED))):
        try:
            event = event_from_json(text)
        except InputError:
            return None
        if isinstance(event, ObservationTaken) and event.observation.snapshot is not None:
            return event.observation.snapshot
    return None


def _parse_measurement(text: str) -> RecordedMeasurement:
    # Plain JSON access: validating hundreds of whole events would take ten times as long.
    taken = json.loads(text).get("observation_taken") or {}
    snapshot = (taken.get("observation") or {}).get("snapshot") or {}
    throughput = snapshot.get("throughput")
    return RecordedMeasurement(
        float(throughput) if isinstance(throughput, int | float) else None, _parse_critical(snapshot.get("critical"))
    )


def _parse_critical(data: object) -> CriticalShares | None:
    try:
        return None if data is None else validate(data, CriticalShares, place="critical")
    except InputError:
        return None
