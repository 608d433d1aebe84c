"""The writing side of a session: one row per step, on the disk before the loop goes on.

`JournalSession.record` writes the entry, the event and the state after the step in one transaction. If the file cannot
be written, the rows wait in memory and are written later; scaling goes on meanwhile.

Events are kept for some days, in parts of `EVENTS_PER_PART`. A part begins with a checkpoint: the rules, and the state
before the part. The events of a part are compressed with its first event as dictionary. `replay.py` repeats every step
from a checkpoint on.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass

from autotrascale.domain.errors import DecisionJournalError, RunLostError
from autotrascale.knowledge.decision_journal import commands
from autotrascale.knowledge.decision_journal.journal_file import JournalFile, compress_text
from autotrascale.knowledge.decision_journal.serialization import event_to_json, rules_to_json, state_to_json
from autotrascale.knowledge.decision_journal.sessions import SessionHeader
from autotrascale.knowledge.process_identity import ProcessIdentity
from autotrascale.plan.control.commands import LoopCommand
from autotrascale.plan.control.events import Event
from autotrascale.plan.control.loop_state import DecisionEntry, Rules, State, entry_to_dict

DAY_SECONDS = 86_400.0
KEEP_EVENTS_DAYS = 7.0
EVENTS_PER_PART = 256
MAX_SPOOLED_ROWS = 10_000  # in memory while the file cannot be written; beyond that the oldest rows are lost


@dataclass(frozen=True)
class _Rows:
    """The rows that one step adds to the file."""

    decision: tuple[int, float, str]
    event: tuple[int, int | None, bytes] | None
    checkpoint: tuple[int, float, bytes, bytes] | None


class JournalSession:
    """The journal of one control loop.

    Attributes:
        state: the state to go on from.
        unrecorded: rows that are not on the disk yet.
        lost: number of rows that were dropped because too many were waiting.
        trouble: why rows cannot be written at present, or "".
        renewed: why this session begins anew although the job has an earlier one, or "".
    """

    def __init__(
        self,
        decisions: JournalFile,
        id: str,
        owner: ProcessIdentity,
        state: State,
        keep_events_days: float = KEEP_EVENTS_DAYS,
        renewed: str = "",
        *,
        header: SessionHeader,
    ) -> None:
        self.decisions, self.id, self.owner, self.state, self.header = decisions, id, owner, state, header
        self.keep_events_days, self.renewed = keep_events_days, renewed
        self.unrecorded: list[_Rows] = []
        self.lost = 0
        self.trouble = ""
        self._rules: Rules | None = None
        self._part_number: int | None = None  # of the last checkpoint
        self._dictionary: tuple[int, bytes] | None = None  # number and text of the part's first event

    def begin(self, rules: Rules) -> None:
        """Begin a new part: from here on the loop decides by `rules`."""
        self._rules, self._part_number = rules, None

    def commands_after(self, number: int) -> tuple[LoopCommand, ...]:
        """Return the commands to this loop after `number`. While the file cannot be read, there are none."""
        try:
            return commands.read_commands(self.decisions, self.header.job, number, advises=self.header.advise)
        except DecisionJournalError:
            return ()

    def record(self, state: State, entry: DecisionEntry, event: Event) -> None:
        """Write one step. If the file cannot be written, the step waits in memory and `trouble` says why.

        Raises `RunLostError` if another process has taken over the session.
        """
        now = self.decisions.clock()
        checkpoint = self._make_checkpoint(now)
        self.state = state
        text = json.dumps(entry_to_dict(entry), ensure_ascii=False, default=str)
        self.unrecorded.append(_Rows((entry.number, now, text), self._compress(entry.number, event), checkpoint))
        self.lost += len(self.unrecorded) > MAX_SPOOLED_ROWS
        del self.unrecorded[:-MAX_SPOOLED_ROWS]
        self.flush()

    def flush(self, ended: str | None = None) -> None:
        """Write all waiting rows and the state. `ended` marks the session as ended, with the reason."""
        try:
            with self.decisions.transaction() as connection:
                self._check_owner(connection)
                for rows in self.unrecorded:
                    self._write(connection, rows)
                connection.execute(
                    "UPDATE session SET state = ?, written = ?, ended = ? WHERE id = ?",
                    (state_to_json(self.state), self.decisions.clock(), ended, self.id),
                )
        except DecisionJournalError as error:
            self.trouble = str(error)
            return
        self.unrecorded.clear()
        self.trouble = ""

    def end(self, why: str) -> None:
        """End the session, unless another process has taken it over."""
        with suppress(RunLostError):
            self.flush(why)
        self.owner.mark_inactive()

    def _check_owner(self, connection: sqlite3.Connection) -> None:
        with closing(connection.execute("SELECT owner FROM session WHERE id = ?", (self.id,))) as cursor:
            (owner,) = cursor.fetchone() or ("{}",)
        if owner != json.dumps(self.owner.as_dict()):
            taker = ProcessIdentity.parse(json.loads(owner)) or "another process"
            raise RunLostError(f"session {self.id} was taken over by {taker}: this process stops")

    def _make_checkpoint(self, now: float) -> tuple[int, float, bytes, bytes] | None:
        number = self.state.number
        if self._rules is None or (self._part_number is not None and number - self._part_number < EVENTS_PER_PART):
            return None
        self._part_number, self._dictionary = number, None
        return (number, now, compress_text(rules_to_json(self._rules)), compress_text(state_to_json(self.state)))

    def _compress(self, number: int, event: Event) -> tuple[int, int | None, bytes] | None:
        if self._rules is None:
            return None
        text = event_to_json(event)
        if self._dictionary is None:
            self._dictionary = number, text.encode()
            return number, None, compress_text(text)
        return number, self._dictionary[0], compress_text(text, self._dictionary[1])

    def _write(self, connection: sqlite3.Connection, rows: _Rows) -> None:
        if rows.checkpoint is not None:
            connection.execute("INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?, ?, ?)", (self.id, *rows.checkpoint))
            self._delete_old_events(connection)
        if rows.event is not None:
            connection.execute("INSERT OR REPLACE INTO event VALUES (?, ?, ?, ?)", (self.id, *rows.event))
        connection.execute("INSERT OR REPLACE INTO decision VALUES (?, ?, ?, ?)", (self.id, *rows.decision))

    def _delete_old_events(self, connection: sqlite3.Connection) -> None:
        """Delete the parts that ended more than `keep_events_days` ago. Entries stay."""
        before = self.decisions.clock() - self.keep_events_days * DAY_SECONDS
        query = "SELECT max(number) FROM checkpoint WHERE session = ? AND written <= ?"
        with closing(connection.execute(query, (self.id, before))) as cursor:
            (number,) = cursor.fetchone()
        if number is not None:
            connection.execute("DELETE FROM event WHERE session = ? AND number <= ?", (self.id, number))
            connection.execute("DELETE FROM checkpoint WHERE session = ? AND number < ?", (self.id, number))
