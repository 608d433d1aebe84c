"""The SQLite file of the decision journal: its tables, its one connection, and the compression of long texts."""

from __future__ import annotations

import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from autotrascale.domain.errors import DecisionJournalError
from autotrascale.knowledge.store_retry import find_remedy

FORMAT_VERSION = 5
_APPLICATION_ID = 0x41545244  # "ATRD"
_LOCK_TIMEOUT_SECONDS = 5.0
_SCHEMA = """
CREATE TABLE session (
    id TEXT PRIMARY KEY,
    job TEXT NOT NULL,
    begun REAL NOT NULL,
    written REAL NOT NULL,
    owner TEXT NOT NULL,
    header TEXT NOT NULL,
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
CREATE TABLE checkpoint (
    session TEXT NOT NULL REFERENCES session,
    number INTEGER NOT NULL,
    written REAL NOT NULL,
    rules BLOB NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;
CREATE TABLE event (
    session TEXT NOT NULL REFERENCES session,
    number INTEGER NOT NULL,
    dictionary INTEGER,
    body BLOB NOT NULL,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;
CREATE TABLE command (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    job TEXT NOT NULL,
    advises INTEGER NOT NULL,
    what TEXT NOT NULL,
    asked_by TEXT NOT NULL,
    asked_at REAL NOT NULL,
    parallelism TEXT NOT NULL
);
CREATE INDEX commands_of_a_loop ON command (job, advises, number);
CREATE TABLE size_change (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    application TEXT NOT NULL,
    number INTEGER NOT NULL,
    what TEXT NOT NULL,
    at REAL NOT NULL,
    entry TEXT NOT NULL,
    UNIQUE (application, number, what)
);
"""


class JournalFile:
    """A connection to the journal's file. Reading a file that does not exist returns no rows and creates nothing.

    Args:
        path: the SQLite file; its folder is created with the first write.
        clock: returns the wall clock in seconds since 1970, for the time at which rows are written.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.clock = clock
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction that is on the disk when the block ends. Raises `DecisionJournalError`."""
        try:
            connection = self._connect()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:  # SQLite itself rolls back when the disk is full
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise self._explain(error) from error

    def read(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of `query`. Raises `DecisionJournalError`."""
        if self._connection is None and not self.path.exists():
            return []
        try:
            return list(self._connect().execute(query, values))
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise self._explain(error) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _explain(self, error: sqlite3.Error | OSError) -> DecisionJournalError:
        remedy = find_remedy(error)
        return DecisionJournalError(f"{self.path}: {error}{f'; {remedy}' if remedy else ''}")

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = _open(self.path)
        return self._connection


def compress_text(text: str, dictionary: bytes = b"") -> bytes:
    compressor = zlib.compressobj(wbits=-15, zdict=dictionary) if dictionary else zlib.compressobj(wbits=-15)
    return compressor.compress(text.encode()) + compressor.flush()


def decompress_text(body: bytes, dictionary: bytes = b"") -> str:
    """Return the text that `compress_text` was given. Raises `DecisionJournalError` for damaged bytes."""
    reader = zlib.decompressobj(wbits=-15, zdict=dictionary) if dictionary else zlib.decompressobj(wbits=-15)
    try:
        return (reader.decompress(body) + reader.flush()).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise DecisionJournalError(f"an observation in the journal is damaged: {error}") from error


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_LOCK_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("PRAGMA synchronous = full")  # a commit returns when the row is on the disk
        application, version = _read_header(connection)
        if application not in (0, _APPLICATION_ID):
            raise sqlite3.DatabaseError("is a database, but not a decision journal")
        if version not in (0, FORMAT_VERSION):
            raise sqlite3.DatabaseError(
                f"was written by another version of this program (format {version}, expected {FORMAT_VERSION})"
            )
        if version == 0:
            _create_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _read_header(connection: sqlite3.Connection) -> tuple[int, int]:
    with closing(connection.execute("PRAGMA application_id")) as cursor:
        (application,) = cursor.fetchone()
    with closing(connection.execute("PRAGMA user_version")) as cursor:
        (version,) = cursor.fetchone()
    return application, version


def _create_tables(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")  # two processes may open a new file at the same time
    if _read_header(connection)[1] == 0:
        for statement in _SCHEMA.strip().split(";\n"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
    connection.execute("COMMIT")
