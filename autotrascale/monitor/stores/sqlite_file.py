"""Open the file of the embedded metric store: schema, version, and a check that the file is ours."""

from __future__ import annotations

import sqlite3
import time
from contextlib import ExitStack, closing
from pathlib import Path

from autotrascale.domain.errors import InputError

VERSION = 1
_APPLICATION = 0x41545253  # "ATRS" in the file's header marks our files
_BUSY_SECONDS = 30.0  # to wait for another process that writes
_PAUSE_SECONDS = 0.02

# A series is a field of a set of tags. The primary key finds a sample by series and time in one tree.
_SCHEMA = """
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    measurement TEXT NOT NULL,
    field TEXT NOT NULL,
    tags TEXT NOT NULL,  -- JSON, names sorted
    UNIQUE (measurement, field, tags)
);
CREATE TABLE sample (
    series INTEGER NOT NULL REFERENCES series,
    time INTEGER NOT NULL,  -- nanoseconds since 1970
    value REAL NOT NULL,
    PRIMARY KEY (series, time)
) WITHOUT ROWID;
"""


def open_file(path: Path) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    """Return a connection for writing and a connection for reading. The file is created if needed.

    Raises `InputError` if the file cannot be used.
    """
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return _open(path)
        except (OSError, sqlite3.Error) as error:
            # SQLite's own timeout does not cover the change of an empty file's journal mode.
            if not _is_busy(error) or time.monotonic() > until:
                raise _unusable(path, error) from None
        time.sleep(_PAUSE_SECONDS)


def _open(path: Path) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    with ExitStack() as opened:
        writer = opened.enter_context(closing(_connect(path)))
        _check_ours(writer, path)
        _settle(writer)
        reader = opened.enter_context(closing(_connect(path)))
        reader.execute("PRAGMA query_only = on")
        opened.pop_all()
        return writer, reader


def _is_busy(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _connect(path: Path) -> sqlite3.Connection:
    # Transactions are explicit. Locks of the store keep threads apart.
    return sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file of another program or a newer version. Nothing is changed, not even the journal mode."""
    if _is_empty(connection):
        return
    if _pragma(connection, "application_id") != _APPLICATION:
        raise InputError(str(path), "is a database, but not a metric store", remedy="choose another path")
    version = _pragma(connection, "user_version")
    if version > VERSION:
        raise InputError(
            str(path),
            f"was written by a newer AuTraScale; this AuTraScale reads version {VERSION}",
            seen=version,
            remedy="upgrade AuTraScale or choose another path",
        )


def _settle(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = wal")  # readers and the writer do not wait for each other
    connection.execute("PRAGMA synchronous = full")  # a commit survives a power cut
    # Large batches touch many pages: keep 64 MiB in memory, and 32 MiB in the log before a checkpoint.
    connection.execute("PRAGMA cache_size = -65536")
    connection.execute("PRAGMA wal_autocheckpoint = 8192")
    connection.execute("BEGIN IMMEDIATE")  # two processes may open an empty file at once
    if _is_empty(connection):
        for statement in _SCHEMA.split(";\n"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _is_empty(connection: sqlite3.Connection) -> bool:
    return not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _unusable(path: Path, error: Exception) -> InputError:
    broken = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
    problem = "is damaged or not a metric store" if broken else "cannot be opened as a metric store"
    remedy = "move the file away, and start a new store" if broken else "check the path and its permissions"
    return InputError(str(path), problem, seen=str(error), remedy=remedy)
