"""The decision journal: sessions of control loops, their entries, and the session that a loop continues.

One SQLite file for all jobs stands beside MLflow's store, because MLflow is too slow for a row per interval.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from autotrascale.domain.errors import InputError
from autotrascale.knowledge.decision_journal import commands
from autotrascale.knowledge.decision_journal.journal_file import JournalFile
from autotrascale.knowledge.decision_journal.serialization import state_to_json
from autotrascale.knowledge.decision_journal.session_writer import KEEP_EVENTS_DAYS, JournalSession
from autotrascale.knowledge.decision_journal.sessions import SESSION_COLUMNS, PastSession, SessionHeader, parse_session
from autotrascale.knowledge.process_identity import ProcessIdentity
from autotrascale.plan.control.commands import CommandsInForce
from autotrascale.plan.control.loop_state import State

FINISHED = "finished"  # the session came to its end; every other end is an interruption
_MIN_ID_LENGTH = 4  # characters of a session's id that may name the session


@dataclass(frozen=True)
class SessionMark:
    """A session without its state, and the number of the last command to its loop. Changes whenever the session does.

    Times are wall clock, in seconds since 1970.
    """

    id: str
    job: str
    begun: float
    written: float
    ended: str | None
    advises: bool
    last_command: int


class DecisionJournal(JournalFile):
    """All sessions of all jobs."""

    def open_session(
        self,
        header: SessionHeader,
        *,
        restart_finished: bool = False,
        keep_events_days: float = KEEP_EVENTS_DAYS,
        has_lease: bool = False,
    ) -> JournalSession:
        """Continue the job's last session if it has the same header, else begin a new session.

        A loop that acts and a loop that only advises have sessions of their own.

        Args:
            restart_finished: begin a new session if the last session is finished.
            keep_events_days: how long events are kept for a replay.
            has_lease: this process has the job's lease, so that another owner of the session has lost it.

        Raises `InputError` if another process continues the session.
        """
        with self.transaction() as connection:  # nobody else can take the session between reading and writing
            sessions = (each for each in self.sessions(header.job) if each.header.advise == header.advise)
            last = next(sessions, None)
            if last is not None and last.is_alive and not has_lease:
                raise InputError(
                    f"job {header.job}", f"has a control loop already: {last.owner}", remedy="stop it first"
                )
            session = self._next_session(header, last, restart_finished, keep_events_days)
            now = self.clock()
            owner, state = json.dumps(session.owner.as_dict()), state_to_json(session.state)
            connection.execute(
                f"INSERT INTO session ({SESSION_COLUMNS}, job) VALUES (?, ?, ?, ?, ?, NULL, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, written = excluded.written, ended = NULL, "
                "header = excluded.header",
                (session.id, header.to_json(), now, now, owner, state, header.job),
            )
        session.owner.mark_active()
        return session

    def _next_session(
        self, header: SessionHeader, last: PastSession | None, restart_finished: bool, keep_events_days: float
    ) -> JournalSession:
        owner = ProcessIdentity.current()
        is_over = restart_finished and last is not None and last.ended == FINISHED
        if last is not None and last.header == header and not is_over and not last.unreadable:
            return JournalSession(self, last.id, owner, last.state, keep_events_days, header=header)
        # A pause or a pin also holds for a job with another target, but not for a job that begins anew.
        in_force = commands.read_commands_in_force(self, header.job, advises=header.advise)
        state = State(commands=CommandsInForce(in_force.last_number) if is_over else in_force)
        renewed = "" if last is None else last.unreadable
        return JournalSession(self, uuid.uuid4().hex[:12], owner, state, keep_events_days, renewed, header=header)

    def sessions(self, job: str | None = None) -> list[PastSession]:
        """Return all sessions, or all sessions of a job, the newest first."""
        where = "" if job is None else " WHERE job = ?"
        rows = self.read(
            f"SELECT {SESSION_COLUMNS} FROM session{where} ORDER BY begun DESC", () if job is None else (job,)
        )
        return [parse_session(row) for row in rows]

    def latest_sessions(self, job: str | None = None, *, include_ended: bool = True) -> list[PastSession]:
        """Return the last session of each loop, by the name of the job. A job may have a loop that acts and a loop that
        advises."""
        query = (
            f"SELECT {SESSION_COLUMNS} FROM (SELECT {SESSION_COLUMNS}, job, max(begun) FROM session "
            f"{'' if job is None else 'WHERE job = ?'} GROUP BY job, json_extract(header, '$.advise')) "
            f"{'' if include_ended else 'WHERE ended IS NULL'} ORDER BY job"
        )
        return [parse_session(row) for row in self.read(query, () if job is None else (job,))]

    def marks(self) -> list[SessionMark]:
        """Return all sessions without their states, the newest first."""
        rows = self.read(
            "SELECT id, job, begun, written, ended, json_extract(header, '$.advise') AS advises, (SELECT max(number) "
            "FROM command WHERE command.job = session.job AND command.advises = json_extract(header, '$.advise')) "
            "FROM session ORDER BY begun DESC"
        )
        return [
            SessionMark(id, job, begun, written, ended, bool(advises), last or 0)
            for id, job, begun, written, ended, advises, last in rows
        ]

    def jobs(self) -> list[str]:
        return [job for (job,) in self.read("SELECT DISTINCT job FROM session ORDER BY job")]

    def session(self, id: str) -> PastSession | None:
        rows = self.read(f"SELECT {SESSION_COLUMNS} FROM session WHERE id = ?", (id,))
        return next((parse_session(row) for row in rows), None)

    def find(self, name: str) -> PastSession | None:
        """Return the last session of the job `name`, else the session whose id begins with `name`."""
        sessions = self.sessions()
        of_job = [each for each in sessions if each.header.job == name]
        by_id = [each for each in sessions if len(name) >= _MIN_ID_LENGTH and each.id.startswith(name)]
        return next(iter([*of_job, *by_id]), None)

    def slots_of_other_jobs(self, job: str) -> int:
        """Return the slots that other jobs with a running loop use or have requested. Advised jobs do not count."""
        others = (each for each in self.sessions() if each.header.job != job and each.is_alive)
        return sum(each.state.slots for each in others if not each.header.advise)

    def entries(self, session: str, last: int | None = None) -> list[dict[str, Any]]:
        """Return the entries of a session as they were written, in order; only the `last` ones if given."""
        limit = "" if last is None else f" LIMIT {int(last)}"
        rows = self.read(f"SELECT entry FROM decision WHERE session = ? ORDER BY number DESC{limit}", (session,))
        return [json.loads(entry) for (entry,) in reversed(rows)]
