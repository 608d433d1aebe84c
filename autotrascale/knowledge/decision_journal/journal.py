"""The journal of decisions: what the control loop saw and decided, step by step, and where it goes on from.

One SQLite file for all jobs, beside MLflow's store, which is too slow for a row each interval. A row is on the disk
when `record` returns, together with the state that the step left: a loop that is killed goes on from there. While the
file cannot be written, rows are spooled in memory and written later; the job goes on being scaled meanwhile.

Looks are kept for some days, in parts: a checkpoint (the rules, and the state before the part), and the looks after it,
each compressed with the part's first one as its dictionary. From a checkpoint on, every step can be made again
(`replay.py`).
"""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from autotrascale.domain.errors import DecisionJournalError, InputError, RunLostError
from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.knowledge.decision_journal import commands
from autotrascale.knowledge.decision_journal.journal_file import JournalFile, compress_text, decompress_text
from autotrascale.knowledge.decision_journal.serialization import (
    event_from_json,
    event_to_json,
    rules_from_json,
    rules_to_json,
    state_from_json,
    state_to_json,
)
from autotrascale.knowledge.process_identity import ProcessIdentity
from autotrascale.plan.control.commands import CommandsInForce, LoopCommand
from autotrascale.plan.control.loop_state import DecisionEntry, Rules, State, entry_to_dict
from autotrascale.plan.control.step import Event
from autotrascale.plan.sizing.executor_plan import ExecutorSize
from autotrascale.validation import validate

DAY_SECONDS = 86_400.0
KEEP_OBSERVATIONS_DAYS = 7.0
OBSERVATIONS_PER_PART = 256  # looks from one checkpoint to the next
FINISHED = "finished"  # its time was over; anything else was interrupted
MAX_SPOOLED_ROWS = 10_000  # rows kept in memory while the file is away; then the oldest are lost, and counted


@dataclass(frozen=True)
class SessionHeader:
    """What a session is of. Another topology, engine or target is another session. `executor`: of a program whose
    instances are executors; what one costs may change within a session, and so may the bounds of `operators`, the least
    and the most instances of each."""

    job: str
    engine: str
    simulated: bool
    topology: str
    latency_target: float
    statistic: str
    advise: bool = False
    executor: ExecutorSize | None = field(default=None, compare=False)
    operators: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False)

    @property
    def target(self) -> Target:
        return Target(self.latency_target, self.statistic)  # type: ignore[arg-type]

    @classmethod
    def of(
        cls, job: Job, engine: str, *, simulated: bool, advise: bool, executor: ExecutorSize | None = None
    ) -> SessionHeader:
        target, operators = job.target, job.topology.operators
        bounds = {name: (each.minimum, min(each.maximum or job.p_max, job.p_max)) for name, each in operators.items()}
        return cls(
            job.name,
            engine,
            simulated,
            job.topology.fingerprint,
            target.latency_seconds,
            target.statistic,
            advise,
            executor,
            bounds,
        )


@dataclass(frozen=True)
class PastSession:
    """One session as it stands in the file."""

    id: str
    opening: SessionHeader
    begun: float
    written: float
    owner: ProcessIdentity | None
    ended: str | None
    state: State
    renewed: str = ""  # why its state is not the one that was written

    @property
    def lives(self) -> bool:
        return self.ended is None and self.owner is not None and self.owner.lives(time.time() - self.written)


class DecisionJournal(JournalFile):
    """All sessions. `clock` is the wall's, for when a row was written; the loop's own times are in the rows."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        super().__init__(path)
        self.clock = clock

    def open_session(
        self,
        opening: SessionHeader,
        *,
        anew: bool = False,
        keep_looks_days: float = KEEP_OBSERVATIONS_DAYS,
        held: bool = False,
    ) -> JournalSession:
        """The job's last one, if it is of the same thing and nobody else carries it on; else a new one. `anew`: one
        that has finished is not gone on with. Who advises stands beside who acts. `held`: this process has the job's
        lease, so whoever has the last session has lost it."""
        with self.changing() as connection:  # what is read here stands until the session is ours
            last = next((past for past in self.sessions(opening.job) if past.opening.advise == opening.advise), None)
            if last is not None and last.lives and not held:
                raise InputError(
                    f"job {opening.job}", f"is being autoscaled by {last.owner}", remedy="stop that one first"
                )
            owner = ProcessIdentity.me()
            over = anew and last is not None and last.ended == FINISHED
            asked = commands.commands_in_force(self, opening.job, advises=opening.advise)
            if last is not None and last.opening == opening and not over:
                state = last.state if not last.renewed else replace(last.state, orders=asked)
                session = JournalSession(self, last.id, owner, state, keep_looks_days, last.renewed, of=opening)
            else:  # what people asked for holds for a job with another target too, but not for another day
                asked = CommandsInForce(asked.taken) if over else asked
                session = JournalSession(
                    self, uuid.uuid4().hex[:12], owner, State(orders=asked), keep_looks_days, of=opening
                )
            connection.execute(
                "INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, NULL) "
                "ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, written = excluded.written, ended = NULL, "
                "opening = excluded.opening",
                (
                    session.id,
                    opening.job,
                    self.clock(),
                    self.clock(),
                    _owner_text(owner),
                    json.dumps(asdict(opening)),
                    state_to_json(session.state),
                ),
            )
        owner.take()
        return session

    def sessions(self, job: str | None = None) -> list[PastSession]:
        """The newest first."""
        query = "SELECT id, opening, begun, written, owner, ended, state FROM session"
        where = "" if job is None else " WHERE job = ?"
        rows = self.read(f"{query}{where} ORDER BY begun DESC", () if job is None else (job,))
        return [_past(row) for row in rows]

    def latest(self, job: str | None = None, *, ended: bool = True) -> list[PastSession]:
        """The last session of each job's loop, of those that act and those that advise; by name."""
        columns = "id, opening, begun, written, owner, ended, state"
        of_job = "" if job is None else "WHERE job = ?"
        query = (
            f"SELECT {columns} FROM (SELECT job, id, opening, max(begun) AS begun, written, owner, ended, state "
            f"FROM session {of_job} GROUP BY job, json_extract(opening, '$.advise')) "
            f"{'' if ended else 'WHERE ended IS NULL'} ORDER BY job"
        )
        return [_past(row) for row in self.read(query, () if job is None else (job,))]

    def jobs(self) -> list[str]:
        return [job for (job,) in self.read("SELECT DISTINCT job FROM session ORDER BY job", ())]

    def session(self, id: str) -> PastSession | None:
        query = "SELECT id, opening, begun, written, owner, ended, state FROM session WHERE id = ?"
        return next((_past(row) for row in self.read(query, (id,))), None)

    def slots_of_others(self, job: str) -> int:
        """What other jobs take, or have asked for, that a loop keeps now. Advice takes none."""
        others = (past for past in self.sessions() if past.opening.job != job and past.lives)
        return sum(past.state.slots for past in others if not past.opening.advise)

    def find(self, name: str) -> PastSession | None:
        """By the beginning of its id, or the last of a job's name."""
        sessions = self.sessions()
        named = [past for past in sessions if past.opening.job == name]
        by_id = [past for past in sessions if len(name) >= 4 and past.id.startswith(name)]
        return next(iter([*named, *by_id]), None)

    def entries(self, session: str, last: int | None = None) -> list[dict[str, Any]]:
        """As they were written, in order; the `last` so many of them."""
        limit = "" if last is None else f" LIMIT {int(last)}"
        rows = self.read(f"SELECT entry FROM decision WHERE session = ? ORDER BY number DESC{limit}", (session,))
        return [json.loads(entry) for (entry,) in reversed(rows)]

    def checkpoints(self, session: str) -> list[ReplayCheckpoint]:
        """Where steps can be made again from, in order."""
        rows = self.read("SELECT number, rules, state FROM checkpoint WHERE session = ? ORDER BY number", (session,))
        return [
            ReplayCheckpoint(
                number, rules_from_json(decompress_text(rules)), state_from_json(decompress_text(state))[0]
            )
            for number, rules, state in rows
        ]

    def looks(self, session: str, after: int, upto: int | None = None) -> Iterator[tuple[int, Event, dict[str, Any]]]:
        """Number, what happened, and the entry that was written of it."""
        query = (
            "SELECT number, sample, body, entry FROM look JOIN decision USING (session, number) "
            "WHERE session = ? AND number > ? AND number <= ? ORDER BY number"
        )
        samples: dict[int, bytes] = {}
        for number, sample, body, entry in self.read(query, (session, after, 2**62 if upto is None else upto)):
            text = decompress_text(body, samples.get(sample, b""))
            if sample is None:
                samples = {number: text.encode()}
            yield number, event_from_json(text), json.loads(entry)


@dataclass(frozen=True)
class ReplayCheckpoint:
    """The rules of the steps after it, and the state before them."""

    number: int
    rules: Rules
    state: State


class JournalSession:
    """One loop's journal. `state` is where it goes on from; `unrecorded` are rows that are not on the disk yet."""

    def __init__(
        self,
        decisions: DecisionJournal,
        id: str,
        owner: ProcessIdentity,
        state: State,
        keep_looks_days: float = KEEP_OBSERVATIONS_DAYS,
        renewed: str = "",
        *,
        of: SessionHeader,
    ) -> None:
        self.decisions, self.id, self.owner, self.state, self.of = decisions, id, owner, state, of
        self.keep_looks_days, self.renewed = keep_looks_days, renewed
        self.unrecorded: list[_Rows] = []
        self.lost = 0
        self.trouble = ""  # why rows are not recorded, while they are not
        self._rules: Rules | None = None
        self._part: int | None = None  # the number of the last checkpoint
        self._sample: tuple[int, bytes] | None = None  # the first look after it

    def begin(self, rules: Rules) -> None:
        self._rules, self._part = rules, None

    def orders_after(self, number: int) -> tuple[LoopCommand, ...]:
        """What people asked of this loop since then; none while the file is away, and they come later."""
        try:
            return commands.read_commands(self.decisions, self.of.job, number, advises=self.of.advise)
        except DecisionJournalError:
            return ()

    def record(self, state: State, entry: DecisionEntry, event: Event) -> None:
        now = self.decisions.clock()
        checkpoint = self._checkpoint(now)
        self.state = state
        text = json.dumps(entry_to_dict(entry), ensure_ascii=False, default=str)
        self.unrecorded.append(_Rows((entry.number, now, text), self._look(entry.number, event), checkpoint))
        self.lost += len(self.unrecorded) > MAX_SPOOLED_ROWS
        del self.unrecorded[:-MAX_SPOOLED_ROWS]
        self.flush()

    def flush(self, ended: str | None = None) -> None:
        try:
            with self.decisions.changing() as connection:
                self._check_ours(connection)
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

    def _check_ours(self, connection: sqlite3.Connection) -> None:
        """In the very transaction that writes."""
        with closing(connection.execute("SELECT owner FROM session WHERE id = ?", (self.id,))) as cursor:
            (owner,) = cursor.fetchone() or ("{}",)
        if owner != _owner_text(self.owner):
            taker = ProcessIdentity.read(json.loads(owner)) or "somebody else"
            raise RunLostError(f"session {self.id} was taken over from this process by {taker}: it stops here")

    def end(self, why: str) -> None:
        """A session that is somebody else's by now is left as it is."""
        with suppress(RunLostError):
            self.flush(why)
        self.owner.leave()

    def _checkpoint(self, now: float) -> tuple[int, float, bytes, bytes] | None:
        """At the beginning of each part: the state before it."""
        number = self.state.number
        if self._rules is None or (self._part is not None and number - self._part < OBSERVATIONS_PER_PART):
            return None
        self._part, self._sample = number, None
        return (number, now, compress_text(rules_to_json(self._rules)), compress_text(state_to_json(self.state)))

    def _look(self, number: int, event: Event) -> tuple[int, int | None, bytes] | None:
        if self._rules is None:
            return None
        text = event_to_json(event)
        if self._sample is None:
            self._sample = number, text.encode()
            return number, None, compress_text(text)
        return number, self._sample[0], compress_text(text, self._sample[1])

    def _write(self, connection: sqlite3.Connection, rows: _Rows) -> None:
        if rows.checkpoint is not None:
            connection.execute("INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?, ?, ?)", (self.id, *rows.checkpoint))
            self._forget(connection)
        if rows.look is not None:
            connection.execute("INSERT OR REPLACE INTO look VALUES (?, ?, ?, ?)", (self.id, *rows.look))
        connection.execute("INSERT OR REPLACE INTO decision VALUES (?, ?, ?, ?)", (self.id, *rows.decision))

    def _forget(self, connection: sqlite3.Connection) -> None:
        """Looks of whole parts that ended before the days for which looks are kept."""
        before = self.decisions.clock() - self.keep_looks_days * DAY_SECONDS
        with closing(
            connection.execute(
                "SELECT max(number) FROM checkpoint WHERE session = ? AND written <= ?", (self.id, before)
            )
        ) as cursor:
            (number,) = cursor.fetchone()
        if number is not None:
            connection.execute("DELETE FROM look WHERE session = ? AND number <= ?", (self.id, number))
            connection.execute("DELETE FROM checkpoint WHERE session = ? AND number < ?", (self.id, number))


@dataclass(frozen=True)
class _Rows:
    """What one step leaves in the file."""

    decision: tuple[int, float, str]
    look: tuple[int, int | None, bytes] | None
    checkpoint: tuple[int, float, bytes, bytes] | None


def _owner_text(owner: ProcessIdentity) -> str:
    return json.dumps(owner.as_dict())


def _past(row: tuple[Any, ...]) -> PastSession:
    id, opening, begun, written, owner, ended, state = row
    try:
        read, renewed = state_from_json(state)
    except (InputError, ValueError) as error:  # what was measured is in the library, the rest is relearnt
        read, renewed = State(), f"its state cannot be read, so it is begun anew: {error}"
    return PastSession(
        id,
        validate(json.loads(opening), SessionHeader, place="opening"),
        begun,
        written,
        ProcessIdentity.read(json.loads(owner)),
        ended,
        read,
        renewed,
    )
