"""The file of the journal of decisions: its tables, one connection, and texts made short."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from autotrascale.domain.errors import DecisionJournalError
from autotrascale.knowledge.store_retry import find_remedy

VERSION = 4
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
_LOOKS = """
CREATE TABLE checkpoint (
    session TEXT NOT NULL REFERENCES session,
    number INTEGER NOT NULL,
    written REAL NOT NULL,
    rules BLOB NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;
CREATE TABLE look (
    session TEXT NOT NULL REFERENCES session,
    number INTEGER NOT NULL,
    sample INTEGER,
    body BLOB NOT NULL,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;
"""
_ORDERS = """
CREATE TABLE orders (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    job TEXT NOT NULL,
    advises INTEGER NOT NULL,
    what TEXT NOT NULL,
    asked_by TEXT NOT NULL,
    asked_at REAL NOT NULL,
    parallelism TEXT NOT NULL
);
CREATE INDEX orders_of_a_loop ON orders (job, advises, number);
"""
_SIZING = """
CREATE TABLE sizing (
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
    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, on the disk when it ends."""
        try:
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:  # a disk that is full has ended it already
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise self._problem(error) from error

    def read(self, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        if self._connection is None and not self.path.exists():
            return []
        try:
            return list(self._opened().execute(query, values))
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise self._problem(error) from error

    def _problem(self, error: sqlite3.Error | OSError) -> DecisionJournalError:
        what = find_remedy(error)
        return DecisionJournalError(f"{self.path}: {error}{f'; {what}' if what else ''}")

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = _connected(self.path)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def compress_text(text: str, dictionary: bytes = b"") -> bytes:
    maker = zlib.compressobj(wbits=-15, zdict=dictionary) if dictionary else zlib.compressobj(wbits=-15)
    return maker.compress(text.encode()) + maker.flush()


def decompress_text(body: bytes, dictionary: bytes = b"") -> str:
    maker = zlib.decompressobj(wbits=-15, zdict=dictionary) if dictionary else zlib.decompressobj(wbits=-15)
    try:
        return (maker.decompress(body) + maker.flush()).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise DecisionJournalError(f"a look cannot be read: {error}") from error


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("PRAGMA synchronous = full")  # written means on the disk
        with closing(connection.execute("PRAGMA application_id")) as cursor:
            (whose,) = cursor.fetchone()
        if whose in (0, _APPLICATION):
            _make(connection)
        else:
            raise sqlite3.DatabaseError("is a database, but not of decisions")
    except BaseException:
        connection.close()
        raise
    return connection


def _make(connection: sqlite3.Connection) -> None:
    """The tables that are missing: all of an empty file, later ones in one that an earlier version began."""
    with closing(connection.execute("PRAGMA user_version")) as cursor:
        (version,) = cursor.fetchone()
    if version == VERSION:
        return
    if version > VERSION:
        raise sqlite3.DatabaseError(f"was written by a later version of this program (format {version})")
    connection.execute("BEGIN IMMEDIATE")  # two processes may come to it at once
    with closing(connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")) as cursor:
        there = {name for (name,) in cursor.fetchall()}
    for table, schema in (("session", _SCHEMA), ("look", _LOOKS), ("orders", _ORDERS), ("sizing", _SIZING)):
        for statement in schema.strip().split(";\n") if table not in there else ():
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")
