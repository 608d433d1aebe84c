"""The runs of the store in memory, so that many clients may look at once: MLflow takes a second for a thousand runs.

A thread looks every second at what can have changed: runs that run, began or ended lately; and every minute at all,
which finds what was deleted or changed by hand. What this server does itself is put here at once.
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

from autotrascale.app.loop_session import open_decisions
from autotrascale.app.run_queue import server_log
from autotrascale.domain.errors import AuTraScaleError, InputError
from autotrascale.knowledge import run_history, tags
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.run_history import RunState, RunSummary
from autotrascale.web.api.loop_metrics import LoopMonitor

if TYPE_CHECKING:
    from mlflow.entities import Run

REFRESH_SECONDS, FULL_REFRESH_SECONDS = 1.0, 60.0
SLACK_MILLISECONDS = 5000  # clocks of several machines differ, and a look takes a while
MAX_RUNS = 10_000  # runs held; older ones are still found by their id

StartPosition = tuple[int, str]  # when it began, and its id: the order of the list


@dataclass
class _Entry:
    place: StartPosition
    summary: RunSummary
    beat: float  # when its process last wrote the time
    counted: bool  # whether the number of evaluations has been looked up


class RunIndex:
    def __init__(self, store: MlflowStore) -> None:
        self.store = store
        self.looked: float | None = None  # when the store last answered, monotonic
        self.error: str | None = None  # why it did not since
        self.measured: float | None = None  # when an evaluation was last seen to be new, monotonic
        self.loops = LoopMonitor(open_decisions(store))
        self._entries: dict[str, _Entry] = {}
        self._order: list[_Entry] | None = None
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._keep_up, name="index", daemon=True)

    # -- keeping up ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        self.look_at_all()
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def look_at_all(self) -> None:
        began = time.monotonic()
        with self._lock:
            before = set(self._entries)
        found = {run.info.run_id for run in islice(run_history.search_runs(self.store), MAX_RUNS) if self.put(run)}
        with self._lock:  # one that was submitted meanwhile is not gone
            for run_id in before - found:
                del self._entries[run_id]
            self._order = None
        self.looked, self.error = began, None

    def look(self) -> None:
        began, since = time.monotonic(), int(time.time() * 1000) - SLACK_MILLISECONDS
        live = {run_id for run_id, entry in self._entries.items() if entry.summary.state in ("running", "crashed")}
        for wanted in (
            "attributes.status = 'RUNNING'",
            f"attributes.start_time > {since}",
            f"attributes.end_time > {since}",
        ):
            for run in run_history.search_runs(self.store, wanted):
                self.put(run)
                live.discard(run.info.run_id)
        for run_id in live:
            self.put(self.store.call(self.store.client.get_run, run_id))
        self.looked, self.error = began, None

    def _keep_up(self) -> None:
        all_again = time.monotonic() + FULL_REFRESH_SECONDS
        while not self._closing.wait(REFRESH_SECONDS):
            try:
                self.loops.look()
                if time.monotonic() < all_again:
                    self.look()
                else:
                    self.look_at_all()
                    all_again = time.monotonic() + FULL_REFRESH_SECONDS
            except AuTraScaleError as error:
                self._complain(str(error))
            except Exception as error:
                self._complain(f"{type(error).__name__}: {error}")

    def _complain(self, why: str) -> None:
        if self.error is None:
            server_log.warning("store out of reach", why=why)
        self.error = why

    def put(self, run: Run) -> RunSummary | None:
        """None for what is no tuning run, or was deleted."""
        run_id, run_tags = run.info.run_id, run.data.tags
        if run.info.lifecycle_stage != "active" or run_tags.get(tags.KIND) != tags.TUNING:
            with self._lock:
                self._entries.pop(run_id, None)
                self._order = None
            return None
        counted = self._count(run)
        summary = run_history.summarise_run(self.store, run, counted or 0)
        known = counted is not None or summary.state == "finished"
        place = int(run.info.start_time or 0), run_id
        with self._lock:
            before = self._entries.get(run_id)
            if before is None or before.summary.evaluations < summary.evaluations:
                self.measured = time.monotonic() if before is not None and known else self.measured
            self._entries[run_id] = _Entry(place, summary, _beat(run), known)
            self._order = None
        return summary

    def _count(self, run: Run) -> int | None:
        """None where nobody needs to know yet: of thousands of runs, few are looked at."""
        if tags.OWNER not in run.data.tags:
            return 0
        if run.info.status == "RUNNING":
            return run_history.count_evaluations(self.store, run)
        return None

    # -- looking ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, run_id: str) -> RunSummary | None:
        """Also one that is not here (yet)."""
        entry = self._entries.get(run_id)
        if entry is not None:
            return self._counted(entry)
        try:
            run = run_history.find_run(self.store, run_id)
        except InputError:
            return None
        summary = self.put(run)
        return None if summary is None else self.get(run_id)

    def known(self, run_id: str) -> RunSummary | None:
        """What can be said without asking the store."""
        entry = self._entries.get(run_id)
        return entry.summary if entry is not None and entry.counted else None

    def page(self, job: str | None, state: str | None, cursor: str | None, limit: int) -> tuple[list[str], str | None]:
        """The ids, the latest first, and the cursor of the next page where there is one."""
        after = None if cursor is None else _read_cursor(cursor)
        fitting = self._fitting(job, state, after)
        found = list(islice(fitting, limit))
        more = next(fitting, None) is not None
        return [entry.summary.run_id for entry in found], _cursor(found[-1].place) if found and more else None

    def states(self) -> dict[RunState, int]:
        counts: dict[RunState, int] = {}
        for entry in list(self._entries.values()):
            counts[entry.summary.state] = counts.get(entry.summary.state, 0) + 1
        return counts

    def silent_longest(self, run_ids: Collection[str]) -> float | None:
        """How long ago the most silent of them wrote the time; None when none of them runs yet."""
        found = [self._entries[run_id] for run_id in run_ids if run_id in self._entries]
        return max((time.time() - entry.beat for entry in found if entry.summary.state == "running"), default=None)

    def _fitting(self, job: str | None, state: str | None, after: StartPosition | None) -> Iterator[_Entry]:
        return (
            entry
            for entry in self._sorted()
            if (after is None or entry.place < after)
            and job in (None, entry.summary.job)
            and state in (None, entry.summary.state)
        )

    def _sorted(self) -> Collection[_Entry]:
        with self._lock:
            if self._order is None:
                self._order = sorted(self._entries.values(), key=lambda entry: entry.place, reverse=True)
            return self._order

    def _counted(self, entry: _Entry) -> RunSummary:
        if not entry.counted:
            run = self.store.call(self.store.client.get_run, entry.summary.run_id)
            entry.summary = replace(entry.summary, evaluations=run_history.count_evaluations(self.store, run))
            entry.counted = True
        return entry.summary


def _beat(run: Run) -> float:
    try:
        return float(run.data.tags.get(tags.HEARTBEAT, 0))
    except ValueError:
        return 0.0


def _cursor(place: StartPosition) -> str:
    return base64.urlsafe_b64encode(f"{place[0]}:{place[1]}".encode()).decode().rstrip("=")


def _read_cursor(text: str) -> StartPosition:
    with suppress(ValueError):
        place = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
        if match := re.fullmatch(r"(\d{1,15}):([0-9a-f]{32})", place):
            return int(match[1]), match[2]
    raise InputError("cursor", "is none that this server gave", seen=text, remedy="start without one")
