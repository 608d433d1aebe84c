"""Points on disk that wait for their store: a bounded queue of batches in a SQLite file, oldest first.

A batch is on the disk when `append` returns, and is deleted when the store has confirmed it. After a crash in between
it is sent twice. That changes nothing, because a point that is written again is the same point.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from autotrascale.domain.errors import InputError, MetricStoreError
from autotrascale.monitor.stores.points import MetricPoint

log = logging.getLogger(__name__)

BATCH = 5000  # points of a batch, and the most points of one request
_APPLICATION = 0x41545350  # "ATSP", in the file's header
_BUSY_SECONDS = 30.0  # to wait for another process that has the file

# Counts change in the same transactions as the batches, so they are right after a crash.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS batch (
    id INTEGER PRIMARY KEY AUTOINCREMENT, points INTEGER NOT NULL, body TEXT NOT NULL, refused TEXT
);
CREATE INDEX IF NOT EXISTS batch_refused ON batch (refused IS NULL, id);
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT OR IGNORE INTO fact VALUES ('waiting', 0), ('refused', 0), ('dropped', 0);
"""


@dataclass(frozen=True)
class Batch:
    """Points that are sent together."""

    number: int
    points: tuple[MetricPoint, ...]


@dataclass(frozen=True)
class Counts:
    """Points that wait, that the store refused, and that were dropped when the spool was full."""

    waiting: int
    refused: int
    dropped: int


class Spool:
    """The queue in the file at `path` for points on their way to `destination`, at most `bound` points."""

    def __init__(self, path: Path | str, destination: str, bound: int) -> None:
        self._path = Path(path)
        self._bound = bound
        self._lock = Lock()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from None
        try:
            self._initialize(destination)
        except sqlite3.Error as error:
            self._file.close()
            raise self._unusable(error) from None
        except InputError:
            self._file.close()
            raise

    def append(self, points: Sequence[MetricPoint]) -> int:
        """Append the points, and return how many older points were dropped for them."""
        with self._transaction():
            for start in range(0, len(points), BATCH):
                part = points[start : start + BATCH]
                self._file.execute("INSERT INTO batch (points, body) VALUES (?, ?)", (len(part), _text(part)))
            self._count("waiting", len(points))
            return self._make_room()

    def oldest(self) -> list[Batch]:
        """Return the oldest batches, as many as fit into one request, but at least one if any waits.

        A damaged batch is set aside, so that it does not block the queue.
        """
        with self._transaction():
            taken: list[Batch] = []
            points = 0
            for number, count, body in self._file.execute(
                "SELECT id, points, body FROM batch WHERE (refused IS NULL) = 1 ORDER BY id LIMIT 1000"
            ).fetchall():
                try:
                    batch = Batch(number, _points(body))
                except (ValueError, TypeError, RecursionError) as error:
                    self._set_aside(number, count, f"damaged: {error}", body, 0)
                    log.error(
                        "%s: batch %d with %d points is damaged and set aside: %s", self._path, number, count, error
                    )
                    continue
                points += len(batch.points)
                if taken and points > BATCH:
                    break
                taken.append(batch)
            return taken

    def delivered(self, batches: Sequence[Batch]) -> None:
        """Delete batches that the store has confirmed. Another process may have deleted or dropped them already."""
        with self._transaction():
            for batch in batches:
                deleted = self._file.execute("DELETE FROM batch WHERE id = ? AND refused IS NULL", (batch.number,))
                self._count("waiting", -len(batch.points) * deleted.rowcount)

    def refuse(self, batch: Batch, reason: str, points: Sequence[MetricPoint] | None = None) -> None:
        """Set the batch aside: the queue moves on, and the points stay in the file for inspection.

        `points`: the refused part of the batch, if the store has the rest. None refuses the whole batch.
        """
        refused = batch.points if points is None else points
        with self._transaction():
            self._set_aside(batch.number, len(batch.points), reason, _text(refused), len(batch.points) - len(refused))

    def _set_aside(self, number: int, points: int, reason: str, body: str, sent: int) -> None:
        left = points - sent
        marked = self._file.execute(
            "UPDATE batch SET refused = ?, body = ?, points = ? WHERE id = ? AND refused IS NULL",
            (reason, body, left, number),
        )
        self._count("waiting", -points * marked.rowcount)
        self._count("refused", left * marked.rowcount)

    def counts(self) -> Counts:
        with self._transaction():
            facts = dict(self._file.execute("SELECT name, value FROM fact"))
        return Counts(facts["waiting"], facts["refused"], facts["dropped"])

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _initialize(self, destination: str) -> None:
        application = self._file.execute("PRAGMA application_id").fetchone()[0]
        tables = self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and application != _APPLICATION:
            raise InputError(str(self._path), "is a database, but not a spool", remedy="choose another path")
        self._file.execute("PRAGMA journal_mode = wal")
        self._file.execute("PRAGMA synchronous = full")
        self._file.execute(f"PRAGMA application_id = {_APPLICATION}")
        self._file.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA.split(";\n"):
            self._file.execute(statement)
        self._file.execute("INSERT OR IGNORE INTO fact VALUES ('destination', ?)", (destination,))
        held = self._file.execute("SELECT value FROM fact WHERE name = 'destination'").fetchone()[0]
        waiting = self._file.execute("SELECT count(*) FROM batch").fetchone()[0]
        if not waiting:
            self._file.execute("UPDATE fact SET value = ? WHERE name = 'destination'", (destination,))
        self._file.execute("COMMIT")
        if waiting and held != destination:
            raise InputError(
                str(self._path),
                f"contains points on their way to {held}",
                seen=destination,
                remedy="send them there first, or name another spool_path",
            )

    def _make_room(self) -> int:
        """Drop points beyond the bound: refused points first, then the oldest. Returns the number of dropped points."""
        dropped = 0
        excess = sum(self._fact(name) for name in ("waiting", "refused")) - self._bound
        while dropped < excess:
            number, points, kind = self._file.execute(
                "SELECT id, points, iif(refused IS NULL, 'waiting', 'refused') FROM batch "
                "ORDER BY (refused IS NULL), id LIMIT 1"
            ).fetchone()
            self._file.execute("DELETE FROM batch WHERE id = ?", (number,))
            self._count(kind, -points)
            dropped += points
        self._count("dropped", dropped)
        return dropped

    def _fact(self, name: str) -> int:
        return int(self._file.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()[0])

    def _count(self, name: str, more: int) -> None:
        self._file.execute("UPDATE fact SET value = value + ? WHERE name = ?", (more, name))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            try:
                self._file.execute("BEGIN IMMEDIATE")
                yield
                self._file.execute("COMMIT")
            except BaseException as error:
                if self._file.in_transaction:
                    self._file.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise MetricStoreError(f"{self._path}: the spool failed: {error}") from None
                raise

    def _unusable(self, error: Exception) -> InputError:
        remedy = "check the path and its permissions, or move the file away and lose its points"
        return InputError(str(self._path), "cannot be opened as a spool", seen=str(error), remedy=remedy)


def _text(points: Sequence[MetricPoint]) -> str:
    return json.dumps([[point.measurement, point.tags, point.fields, point.time] for point in points])


def _points(text: str) -> tuple[MetricPoint, ...]:
    return tuple(MetricPoint(*parts) for parts in json.loads(text))
