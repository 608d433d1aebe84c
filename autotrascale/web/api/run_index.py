"""The runs of the store in memory, for many clients: MLflow takes a second to list a thousand runs.

A thread reads the store every second for runs that run or have begun or ended lately, and every minute as a whole,
which finds runs that were deleted or changed by hand. Changes by this server are put here at once.
"""

from __future__ import annotations

import base64
import re
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from autotrascale.app.run_queue import server_log
from autotrascale.domain.errors import AuTraScaleError, InputError
from autotrascale.knowledge import run_history, tags
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.run_history import RunState, RunSummary

if TYPE_CHECKING:
    from mlflow.entities import Run

REFRESH_SECONDS, FULL_REFRESH_SECONDS = 1.0, 60.0
SLACK_MILLISECONDS = 5000  # for clocks of several machines that differ, and for the time of a refresh
MAX_RUNS = 10_000  # in memory; older runs are found by their id

StartPosition = tuple[int, str]  # start in milliseconds and id of a run: the order of the list


@dataclass
class _Entry:
    position: StartPosition
    summary: RunSummary
    heartbeat: float  # wall clock, seconds since 1970
    is_counted: bool  # whether `summary.evaluations` was looked up


class RunIndex:
    """The runs of a store.

    Attributes:
        answered_at: when the store answered last (monotonic clock, seconds); None: not yet.
        error: why the store has not answered since, or None.
        evaluated_at: when a new evaluation was last seen (monotonic clock, seconds); None: not yet.
    """

    def __init__(self, store: MlflowStore) -> None:
        self.store = store
        self.answered_at: float | None = None
        self.error: str | None = None
        self.evaluated_at: float | None = None
        self._entries: dict[str, _Entry] = {}
        self._order: list[_Entry] | None = None
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="index", daemon=True)

    # -- refreshing ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        self.refresh_all()
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def refresh_all(self) -> None:
        """Read all runs, and drop the runs that are gone."""
        began = time.monotonic()
        with self._lock:
            before = set(self._entries)
        there = {run.info.run_id for run in islice(run_history.search_runs(self.store), MAX_RUNS) if self.put(run)}
        with self._lock:  # a run that was submitted meanwhile is in neither set, and stays
            for run_id in before - there:
                del self._entries[run_id]
            self._order = None
        self.answered_at, self.error = began, None

    def refresh(self) -> None:
        """Read the runs that may have changed."""
        began, since = time.monotonic(), int(time.time() * 1000) - SLACK_MILLISECONDS
        live = {run_id for run_id, entry in self._entries.items() if entry.summary.state in ("running", "crashed")}
        for query in (
            "attributes.status = 'RUNNING'",
            f"attributes.start_time > {since}",
            f"attributes.end_time > {since}",
        ):
            for run in run_history.search_runs(self.store, query):
                self.put(run)
                live.discard(run.info.run_id)
        for run_id in live:
            self.put(self.store.call(self.store.client.get_run, run_id))
        self.answered_at, self.error = began, None

    def put(self, run: Run) -> RunSummary | None:
        """Add or update a run. Returns None for a deleted run and for a run that is no tuning run."""
        run_id, run_tags = run.info.run_id, run.data.tags
        if run.info.lifecycle_stage != "active" or run_tags.get(tags.KIND) != tags.TUNING:
            with self._lock:
                self._entries.pop(run_id, None)
                self._order = None
            return None
        count = self._count_evaluations(run)
        summary = run_history.summarise_run(self.store, run, count or 0)
        is_counted = count is not None or summary.state == "finished"
        position = int(run.info.start_time or 0), run_id
        with self._lock:
            before = self._entries.get(run_id)
            if before is not None and is_counted and before.summary.evaluations < summary.evaluations:
                self.evaluated_at = time.monotonic()
            self._entries[run_id] = _Entry(position, summary, _read_heartbeat(run), is_counted)
            self._order = None
        return summary

    def _run(self) -> None:
        full_at = time.monotonic() + FULL_REFRESH_SECONDS
        while not self._closing.wait(REFRESH_SECONDS):
            try:
                if time.monotonic() < full_at:
                    self.refresh()
                else:
                    self.refresh_all()
                    full_at = time.monotonic() + FULL_REFRESH_SECONDS
            except AuTraScaleError as error:
                self._set_error(str(error))
            except Exception as error:
                self._set_error(f"{type(error).__name__}: {error}")

    def _set_error(self, why: str) -> None:
        if self.error is None:
            server_log.warning("store does not answer", why=why)
        self.error = why

    def _count_evaluations(self, run: Run) -> int | None:
        """Return None for a run whose number is not worth a query yet: of thousands of runs, clients look at few."""
        if tags.OWNER not in run.data.tags:
            return 0
        if run.info.status == "RUNNING":
            return run_history.count_evaluations(self.store, run)
        return None

    # -- reading ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, run_id: str) -> RunSummary | None:
        """Return a run, from the store if it is not in memory. None: there is no such run."""
        entry = self._entries.get(run_id)
        if entry is not None:
            return self._count_if_needed(entry)
        try:
            run = run_history.find_run(self.store, run_id)
        except InputError:
            return None
        summary = self.put(run)
        return None if summary is None else self.get(run_id)

    def get_cached(self, run_id: str) -> RunSummary | None:
        """Return a run if that needs no query."""
        entry = self._entries.get(run_id)
        return entry.summary if entry is not None and entry.is_counted else None

    def page(self, job: str | None, state: str | None, cursor: str | None, limit: int) -> tuple[list[str], str | None]:
        """Return the ids of a page, the latest run first, and the cursor of the next page.

        Raises `InputError` for an unknown cursor.
        """
        after = None if cursor is None else _parse_cursor(cursor)
        matching = self._iterate_matching(job, state, after)
        entries = list(islice(matching, limit))
        has_more = next(matching, None) is not None
        cursor = _format_cursor(entries[-1].position) if entries and has_more else None
        return [entry.summary.run_id for entry in entries], cursor

    def states(self) -> dict[RunState, int]:
        """Return the number of runs in each state."""
        counts: dict[RunState, int] = {}
        for entry in list(self._entries.values()):
            counts[entry.summary.state] = counts.get(entry.summary.state, 0) + 1
        return counts

    def longest_silence(self, run_ids: Collection[str]) -> float | None:
        """Return the seconds since the oldest heartbeat of the running ones among `run_ids`."""
        entries = [self._entries[run_id] for run_id in run_ids if run_id in self._entries]
        return max((time.time() - each.heartbeat for each in entries if each.summary.state == "running"), default=None)

    def _iterate_matching(self, job: str | None, state: str | None, after: StartPosition | None) -> Iterator[_Entry]:
        return (
            entry
            for entry in self._sort()
            if (after is None or entry.position < after)
            and job in (None, entry.summary.job)
            and state in (None, entry.summary.state)
        )

    def _sort(self) -> Collection[_Entry]:
        with self._lock:
            if self._order is None:
                self._order = sorted(self._entries.values(), key=lambda entry: entry.position, reverse=True)
            return self._order

    def _count_if_needed(self, entry: _Entry) -> RunSummary:
        if not entry.is_counted:
            run = self.store.call(self.store.client.get_run, entry.summary.run_id)
            entry.summary = replace(entry.summary, evaluations=run_history.count_evaluations(self.store, run))
            entry.is_counted = True
        return entry.summary


def _read_heartbeat(run: Run) -> float:
    try:
        return float(run.data.tags.get(tags.HEARTBEAT, 0))
    except ValueError:
        return 0.0


def _format_cursor(position: StartPosition) -> str:
    return base64.urlsafe_b64encode(f"{position[0]}:{position[1]}".encode()).decode().rstrip("=")


def _parse_cursor(text: str) -> StartPosition:
    with suppress(ValueError):
        position = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
        if match := re.fullmatch(r"(\d{1,15}):([0-9a-f]{32})", position):
            return int(match[1]), match[2]
    raise InputError("cursor", "is unknown", seen=text, remedy="start without a cursor")
