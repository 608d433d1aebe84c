"""The journal of decisions: what the control loop decided and did not decide, step by step, and where it goes on from.

One SQLite file for all jobs, beside MLflow's store, which is too slow for a row each interval. A row is on the disk
when `record` returns, together with the state that the step left: a loop that is killed goes on from there. While the
file cannot be written, rows are spooled in memory and written later; the job goes on being scaled meanwhile.
"""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotrascale.domain.errors import AuTraScaleError, DecisionJournalError, InputError
from autotrascale.domain.job import Job
from autotrascale.knowledge import tags
from autotrascale.knowledge.cards import Card
from autotrascale.knowledge.library import Library
from autotrascale.knowledge.owner import Owner
from autotrascale.plan.control.loop_state import Entry, State, as_entry
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.reading import validate

VERSION = 1
FINISHED = "finished"  # its time was over; anything else was interrupted
SPOOLED = 10_000  # rows kept in memory while the file is away; then the oldest are lost, and counted
_APPLICATION = 0x41545244  # "ATRD"
_SCHEMA = """
CREATE TABLE session (
    id TEXT PRIMARY KEY,
    job TEXT NOT NULL,
    begun REAL NOT NULL,
    written REAL NOT NULL,
    owner TEXT NOT NULL,
    opening TEXT NOT NULL,
    state TEXT NOT NULL,
    ended TEXT
);
CREATE TABLE decision (
    session TEXT NOT NULL REFERENCES session,
    number INTEGER NOT NULL,
    written REAL NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Opening:
    """What a session is of. Another topology, engine or target is another session."""

    job: str
    engine: str
    simulated: bool
    topology: str
    latency_target: float
    statistic: str
    advise: bool = False

    @classmethod
    def of(cls, job: Job, engine: str, *, simulated: bool, advise: bool) -> Opening:
        target = job.target
        return cls(job.name, engine, simulated, job.topology.fingerprint, target.latency_seconds, target.statistic,
                   advise)  # fmt: skip


@dataclass(frozen=True)
class Past:
    """One session as it stands in the file."""

    id: str
    opening: Opening
    begun: float
    written: float
    owner: Owner | None
    ended: str | None
    state: State

    @property
    def lives(self) -> bool:
        return self.ended is None and self.owner is not None and self.owner.lives(time.time() - self.written)


class Decisions:
    """The file. `clock` is the wall's, for when a row was written; the loop's own times are in the rows."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path, self.clock = path, clock
        self._connection: sqlite3.Connection | None = None

    def open_session(self, opening: Opening, *, anew: bool = False) -> Session:
        """The job's last one, if it is of the same thing and nobody else carries it on; else a new one. `anew`: one
        that has finished is not gone on with. Who advises stands beside who acts."""
        last = next((past for past in self.sessions(opening.job) if past.opening.advise == opening.advise), None)
        if last is not None and last.lives:
            raise InputError(f"job {opening.job}", f"is being autoscaled by {last.owner}",
                             remedy="stop that one first")  # fmt: skip
        owner = Owner.me()
        if last is not None and last.opening == opening and not (anew and last.ended == FINISHED):
            session = Session(self, last.id, owner, last.state)
        else:
            session = Session(self, uuid.uuid4().hex[:12], owner, State())
        with self.changing() as connection:
            connection.execute(
                "INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, NULL) "
                "ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, written = excluded.written, ended = NULL",
                (session.id, opening.job, self.clock(), self.clock(), json.dumps(owner.as_dict()),
                 json.dumps(vars(opening)), state_to_json(session.state)),
            )  # fmt: skip
        owner.take()
        return session

    def sessions(self, job: str | None = None) -> list[Past]:
        """The newest first."""
        query = "SELECT id, opening, begun, written, owner, ended, state FROM session"
        where = "" if job is None else " WHERE job = ?"
        rows = self._read(f"{query}{where} ORDER BY begun DESC", () if job is None else (job,))
        return [_past(row) for row in rows]

    def find(self, name: str) -> Past | None:
        """By the beginning of its id, or the last of a job's name."""
        sessions = self.sessions()
        named = [past for past in sessions if past.opening.job == name]
        by_id = [past for past in sessions if len(name) >= 4 and past.id.startswith(name)]
        return next(iter([*named, *by_id]), None)

    def entries(self, session: str, last: int | None = None) -> list[dict[str, Any]]:
        """As they were written, in order; the `last` so many of them."""
        limit = "" if last is None else f" LIMIT {int(last)}"
        rows = self._read(f"SELECT entry FROM decision WHERE session = ? ORDER BY number DESC{limit}", (session,))
        return [json.loads(entry) for (entry,) in reversed(rows)]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, on the disk when it ends."""
        try:
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise DecisionJournalError(f"{self.path}: {error}") from error

    def _read(self, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        if self._connection is None and not self.path.exists():
            return []
        try:
            return list(self._opened().execute(query, values))
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise DecisionJournalError(f"{self.path}: {error}") from error

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = _connected(self.path)
        return self._connection


class Session:
    """One loop's journal. `state` is where it goes on from; `unrecorded` are rows that are not on the disk yet."""

    def __init__(self, decisions: Decisions, id: str, owner: Owner, state: State) -> None:
        self.decisions, self.id, self.owner, self.state = decisions, id, owner, state
        self.unrecorded: list[tuple[int, float, str]] = []
        self.lost = 0
        self.trouble = ""  # why rows are not recorded, while they are not

    def record(self, state: State, entry: Entry) -> None:
        self.state = state
        row = (entry.number, self.decisions.clock(), json.dumps(as_entry(entry), ensure_ascii=False, default=str))
        self.unrecorded.append(row)
        self.lost += len(self.unrecorded) > SPOOLED
        del self.unrecorded[:-SPOOLED]
        self.flush()

    def flush(self, ended: str | None = None) -> None:
        try:
            with self.decisions.changing() as connection:
                connection.executemany(
                    "INSERT OR REPLACE INTO decision VALUES (?, ?, ?, ?)",
                    [(self.id, *row) for row in self.unrecorded],
                )
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
        self.flush(why)
        self.owner.leave()


class Learned:
    """Models of a running job, kept in the library; while that is away they wait."""

    def __init__(self, library: Library, job: Job, *, simulated: bool) -> None:
        self.library, self.job, self.simulated = library, job, simulated
        self.waiting: dict[float, BenefitModel] = {}  # the newest of each rate
        self.kept = 0
        self.trouble = ""

    def keep(self, model: BenefitModel) -> None:
        self.waiting[model.rate] = model
        try:
            for rate, each in list(self.waiting.items()):
                self._register(each)
                del self.waiting[rate]
                self.kept += 1
            self.trouble = ""
        except AuTraScaleError as error:
            self.trouble = str(error)

    def _register(self, model: BenefitModel) -> None:
        store = self.library.store
        card = Card.of(model, self.job, simulated=self.simulated)
        told = {tags.KIND: "autoscaling", tags.JOB: self.job.name}
        name = f"autoscaling, {card.alias}"
        run = store.call(store.client.create_run, store.experiment(self.job.name), tags=told, run_name=name)
        store.call(store.client.set_terminated, run.info.run_id, "FINISHED")
        self.library.register(model, replace(card, run_id=run.info.run_id), run.info.run_id)


# --- a state as JSON --------------------------------------------------------------------------------------------------


def state_to_json(state: State) -> str:
    """Without the snapshots that the manager compares with: the first look of the next process takes their place."""
    slim = replace(state, manager=replace(state.manager, seen=None, unjudged=None))
    return json.dumps(slim, default=vars, allow_nan=False)


def state_from_json(text: str) -> State:
    data: Mapping[str, Any] = json.loads(text)
    return validate(data, State, place="state")


def _past(row: tuple[Any, ...]) -> Past:
    id, opening, begun, written, owner, ended, state = row
    try:
        read = state_from_json(state)
    except (InputError, ValueError):  # of another version: what was measured is in the library, the rest is relearnt
        read = State()
    return Past(id, validate(json.loads(opening), Opening, place="opening"), begun, written,
                Owner.read(json.loads(owner)), ended, read)  # fmt: skip


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("PRAGMA synchronous = full")  # written means on the disk
        with closing(connection.execute("PRAGMA application_id")) as cursor:
            (whose,) = cursor.fetchone()
        if whose == 0:
            _make(connection)
        elif whose != _APPLICATION:
            raise sqlite3.DatabaseError("is a database, but not of decisions")
    except BaseException:
        connection.close()
        raise
    return connection


def _make(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")  # two processes may come to an empty file at once
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        for statement in _SCHEMA.strip().split(";\n"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")
