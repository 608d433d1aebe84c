"""The embedded metric store: a SQLite file without a server. One process writes at a time; any number may read."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from threading import Lock

from autotrascale.domain.errors import MetricStoreError
from autotrascale.monitor.stores.metric_store import (
    PERCENTILES,
    Aggregate,
    MetricQuery,
    MetricSample,
    MetricStore,
    StoreStatus,
)
from autotrascale.monitor.stores.points import MetricPoint
from autotrascale.monitor.stores.sqlite_file import open_file

_Owner = tuple[str, tuple[tuple[str, str], ...]]  # measurement and tags of a point

_SAVE = (
    "INSERT INTO sample (series, time, value) VALUES (?, ?, ?) "
    "ON CONFLICT (series, time) DO UPDATE SET value = excluded.value"
)
_FIND_SERIES = "SELECT id, tags FROM series WHERE measurement = ? AND field = ?"

# wanted: the selected series, each with the number of its group.
# Times are never negative, so integer division rounds down.
_VALUES = """
WITH wanted (series, grp) AS (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:wanted)),
     picked AS (
        SELECT grp, coalesce(time / :every * :every, :start) AS win, time, value
        FROM wanted JOIN sample USING (series) WHERE time >= :start AND time < :stop)
"""
_SUMMED = _VALUES + "SELECT grp, win, {function}(value) FROM picked GROUP BY grp, win"
_RANKED = (
    _VALUES
    + """, ranked AS (
        SELECT grp, win, value, row_number() OVER part AS rank, count(*) OVER (PARTITION BY grp, win) AS n
        FROM picked WINDOW part AS (PARTITION BY grp, win ORDER BY {order}))
SELECT grp, win, value FROM ranked WHERE {choice}
"""
)
# Rank ceil(q n), at least 1: the cast rounds down, and the comparison adds 1 if it had to.
_NEAREST_RANK = "rank = max(1, CAST(:q * n AS INTEGER) + (:q * n > CAST(:q * n AS INTEGER)))"
_FUNCTIONS = {"mean": "avg", "min": "min", "max": "max", "sum": "sum", "count": "count"}
_LATEST = (
    "SELECT time, value FROM sample WHERE series = ? AND time >= ? AND time < ? ORDER BY time DESC LIMIT 1"  # one seek
)


class SqliteStore(MetricStore):
    """Points in the file at `path`. Points older than `keep` nanoseconds are deleted; None keeps all points."""

    def __init__(self, path: Path | str, keep: int | None = None, clock: Callable[[], int] = time.time_ns) -> None:
        self._path = Path(path)
        self._keep = keep
        self._clock = clock
        self._deleted_until = 0
        self._series: dict[_Owner, dict[str, int]] = {}  # owner → field → the series' id in the file
        self._problems: dict[str, str] = {}  # by activity, until it works again
        self._writing, self._reading = Lock(), Lock()
        self._writer, self._reader = open_file(self._path)

    def __repr__(self) -> str:
        return f"SqliteStore({str(self._path)!r})"

    def write(self, points: Iterable[MetricPoint]) -> None:
        """Write all points, or none if this fails."""
        with self._writing, self._translate_errors("writing"):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                # Sorted like the tree, because neighbours share a page. The sort is stable, so the last write counts.
                self._writer.executemany(_SAVE, sorted(self._rows(points), key=itemgetter(0, 1)))
                self._delete_old()
                self._writer.execute("COMMIT")
            except BaseException:
                self._series.clear()  # new series are rolled back
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def flush(self) -> None:
        """Do nothing: a write is visible to queries when it returns."""

    def check(self) -> None:
        with self._reading, self._translate_errors("reading"):
            verdict = self._reader.execute("PRAGMA quick_check(1)").fetchone()[0]
            if verdict != "ok":
                raise sqlite3.DatabaseError(verdict.splitlines()[0])

    def status(self) -> StoreStatus:
        return StoreStatus("sqlite", str(self._path), problem="; ".join(self._problems.values()) or None)

    def close(self) -> None:
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()

    def _windows(self, query: MetricQuery, aggregate: Aggregate, every: int | None) -> Iterable[MetricSample]:
        if aggregate in _FUNCTIONS:
            sql = _SUMMED.format(function=_FUNCTIONS[aggregate])
        elif aggregate == "last":
            sql = _RANKED.format(order="time DESC, value DESC", choice="rank = 1")
        else:
            sql = _RANKED.format(order="value", choice=_NEAREST_RANK)
        with self._reading, self._translate_errors("reading"):
            groups, wanted = self._select_series(query)
            rows = self._reader.execute(
                sql,
                {
                    "wanted": json.dumps(wanted),
                    "every": every,
                    "start": query.start,
                    "stop": query.stop,
                    "q": PERCENTILES.get(aggregate),
                },
            ).fetchall()
        return [MetricSample(groups[number], window, float(value)) for number, window, value in rows]

    def _last(self, query: MetricQuery) -> Iterable[MetricSample]:
        latest: dict[int, tuple[int, float]] = {}
        with self._reading, self._translate_errors("reading"):
            groups, wanted = self._select_series(query)
            for series, number in wanted:
                row = self._reader.execute(_LATEST, (series, query.start, query.stop)).fetchone()
                if row is not None:
                    latest[number] = max(row, latest.get(number, row))
        return [MetricSample(groups[number], *row) for number, row in latest.items()]

    def _select_series(self, query: MetricQuery) -> tuple[list[dict[str, str]], list[tuple[int, int]]]:
        """Return the groups, and each selected series with the number of its group."""
        numbers: dict[tuple[tuple[str, str], ...], int] = {}
        wanted = []
        for series, tags in self._reader.execute(_FIND_SERIES, (query.measurement, query.field)):
            group = query.group_of(json.loads(tags))
            if group is not None:
                wanted.append((series, numbers.setdefault(tuple(group.items()), len(numbers))))
        return [dict(group) for group in numbers], wanted

    def _rows(self, points: Iterable[MetricPoint]) -> Iterator[tuple[int, int, float]]:
        for point in points:
            owner = (point.measurement, tuple(point.tags.items()))  # a Point keeps its tags sorted
            known = self._series.get(owner) or self._series.setdefault(owner, {})
            for name, value in point.fields.items():
                series = known.get(name)
                if series is None:
                    series = known[name] = self._series_id(point, name)
                yield series, point.time, value

    def _series_id(self, point: MetricPoint, name: str) -> int:
        row = (point.measurement, name, json.dumps(point.tags, ensure_ascii=False))
        self._writer.execute("INSERT OR IGNORE INTO series (measurement, field, tags) VALUES (?, ?, ?)", row)
        found = self._writer.execute(_FIND_SERIES + " AND tags = ?", row).fetchone()
        return int(found[0])

    def _delete_old(self) -> None:
        """Delete points older than `keep`, each time another hundredth of `keep` has passed."""
        if self._keep is None:
            return
        horizon = self._clock() - self._keep
        if horizon - self._deleted_until >= self._keep // 100:
            self._writer.execute("DELETE FROM sample WHERE time < ? AND series IN (SELECT id FROM series)", (horizon,))
            self._deleted_until = horizon

    @contextmanager
    def _translate_errors(self, doing: str) -> Iterator[None]:
        """Raise SQLite's errors as ours, and keep them for the status."""
        try:
            yield
        except sqlite3.Error as error:
            self._problems[doing] = f"{self._path}: {doing} failed: {error}"
            raise MetricStoreError(self._problems[doing]) from None
        self._problems.pop(doing, None)
