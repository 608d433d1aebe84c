"""Decisions made again from the journal alone: the same looks, the same rules, and the entry that came of it then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from autotrascale.knowledge.decision_journal.journal import DecisionJournal, ReplayCheckpoint
from autotrascale.plan.control.loop_state import DecisionEntry, State, entry_to_dict
from autotrascale.plan.control.step import Event, step


@dataclass(frozen=True)
class ReplayedStep:
    """One step: what happened, the state before it, the entry that was written, and the one that it gives now."""

    number: int
    event: Event
    before: State
    written: dict[str, Any]
    now: dict[str, Any]

    @property
    def same(self) -> bool:
        return self.written == self.now


def replay(decisions: DecisionJournal, session: str, last: int | None = None) -> Iterator[ReplayedStep]:
    """From the earliest checkpoint that is kept, up to the entry of that number. Each checkpoint says anew what the
    state was: a process that was killed went on from what it had written, and so does this."""
    checkpoints = decisions.checkpoints(session)
    for at, checkpoint in enumerate(checkpoints):
        upto = checkpoints[at + 1].number if at + 1 < len(checkpoints) else None
        yield from _part(decisions, session, checkpoint, upto if last is None or (upto and upto < last) else last)


def _part(
    decisions: DecisionJournal, session: str, checkpoint: ReplayCheckpoint, upto: int | None
) -> Iterator[ReplayedStep]:
    state = checkpoint.state
    for number, event, written in decisions.looks(session, checkpoint.number, upto):
        before = state
        state, instructions = step(checkpoint.rules, state, event, event.at)
        [entry] = [each for each in instructions if isinstance(each, DecisionEntry)]
        yield ReplayedStep(number, event, before, written, json.loads(json.dumps(entry_to_dict(entry), default=str)))
