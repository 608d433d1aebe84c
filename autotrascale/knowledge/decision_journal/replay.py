"""Replay: every decision made again from the journal alone, beside the decision that was written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from autotrascale.knowledge.decision_journal.journal_file import JournalFile, decompress_text
from autotrascale.knowledge.decision_journal.serialization import event_from_json, rules_from_json, state_from_json
from autotrascale.plan.control.events import Event
from autotrascale.plan.control.loop_state import DecisionEntry, Rules, State, entry_to_dict
from autotrascale.plan.control.step import step

_ALL = 2**62  # more than any number of an entry


@dataclass(frozen=True)
class ReplayCheckpoint:
    """The rules of the steps after `number`, and the state before them."""

    number: int
    rules: Rules
    state: State


@dataclass(frozen=True)
class ReplayedStep:
    """A repeated step: the event, the state before it, the written entry, and the entry of the repeated step."""

    number: int
    event: Event
    before: State
    written: dict[str, Any]
    now: dict[str, Any]

    @property
    def same(self) -> bool:
        return self.written == self.now


def replay(journal: JournalFile, session: str, last: int | None = None) -> Iterator[ReplayedStep]:
    """Repeat all steps from the earliest checkpoint, up to the entry `last` if given.

    Each checkpoint sets the state anew, as a process that was killed and started again read it from the journal.
    """
    checkpoints = read_checkpoints(journal, session)
    ends = [each.number for each in checkpoints[1:]] + [_ALL]
    for checkpoint, end in zip(checkpoints, ends, strict=True):
        state = checkpoint.state
        for number, event, written in read_events(journal, session, checkpoint.number, min(end, last or _ALL)):
            before = state
            state, instructions = step(checkpoint.rules, state, event, event.at)
            [entry] = [each for each in instructions if isinstance(each, DecisionEntry)]
            yield ReplayedStep(
                number, event, before, written, json.loads(json.dumps(entry_to_dict(entry), default=str))
            )


def read_checkpoints(journal: JournalFile, session: str) -> list[ReplayCheckpoint]:
    rows = journal.read("SELECT number, rules, state FROM checkpoint WHERE session = ? ORDER BY number", (session,))
    return [
        ReplayCheckpoint(number, rules_from_json(decompress_text(rules)), state_from_json(decompress_text(state)))
        for number, rules, state in rows
    ]


def read_events(
    journal: JournalFile, session: str, after: int, upto: int = _ALL
) -> Iterator[tuple[int, Event, dict[str, Any]]]:
    """Yield number, event and written entry of each step after `after`, up to `upto`."""
    for number, text, entry in read_event_texts(journal, session, after, upto):
        yield number, event_from_json(text), json.loads(entry)


def read_event_texts(
    journal: JournalFile, session: str, after: int, upto: int = _ALL
) -> Iterator[tuple[int, str, str]]:
    """Yield number, event and entry as JSON texts. `after` may stand within a part.

    Events are left out if the event that compresses them is missing: it was lost while the file could not be written.
    """
    query = (
        "SELECT number, dictionary, body, entry FROM event JOIN decision USING (session, number) "
        "WHERE session = ? AND number > ? AND number <= ? ORDER BY number"
    )
    dictionaries: dict[int, bytes] = {}
    for number, key, body, entry in journal.read(query, (session, after, upto)):
        if key is None:
            text = decompress_text(body)
            dictionaries = {number: text.encode()}
        else:
            if key not in dictionaries:
                dictionaries = {key: _read_dictionary(journal, session, key)}
            if not dictionaries[key]:
                continue
            text = decompress_text(body, dictionaries[key])
        yield number, text, entry


def _read_dictionary(journal: JournalFile, session: str, number: int) -> bytes:
    rows = journal.read("SELECT body FROM event WHERE session = ? AND number = ?", (session, number))
    return decompress_text(rows[0][0]).encode() if rows else b""
