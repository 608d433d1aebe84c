"""The control loops of a store, read from their journal by one thread, for all requests.

Health, Prometheus, notifications and the pages answer from the last reading. A loop is read again only when its
session has changed or a command was sent to it.
"""

from __future__ import annotations

import time
from threading import RLock

from autotrascale.app.notifications import Notifier
from autotrascale.app.plot_sets import MAX_OBSERVATIONS, collect_observations
from autotrascale.domain.errors import DecisionJournalError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.knowledge.decision_journal import recent_entries
from autotrascale.knowledge.decision_journal.journal import DecisionJournal, SessionMark
from autotrascale.knowledge.decision_journal.loop_status import JournaledLoop, LoopStatus, choose_loops, read_loop
from autotrascale.knowledge.decision_journal.recent_entries import JournalEntry
from autotrascale.knowledge.decision_journal.session_writer import DAY_SECONDS
from autotrascale.views.loop_events import LoopCondition
from autotrascale.views.plots.loop_history import PlottedObservation, follow_requests

NOTIFY_SECONDS = 10.0  # between two looks for events
FORGET_SECONDS = 7 * DAY_SECONDS  # a loop whose process died is reported for so long
MAX_EVENT_AGE_SECONDS = 3600.0  # events that happened so long before the server began are not posted


class LoopBoard:
    """The loops of a journal as they were last read.

    Args:
        journal: None for a server without a journal of control loops.

    Attributes:
        loops: the loop that is shown for each job.
        marks: all sessions of each job, the newest first.
        problem: why the journal cannot be read, or "".
        notifier: posts events of loops whose own process may be dead; None: no events.
    """

    def __init__(self, journal: DecisionJournal | None) -> None:
        self.journal = journal
        self.loops: dict[str, JournaledLoop] = {}
        self.marks: dict[str, list[SessionMark]] = {}
        self.problem = ""
        self.notifier: Notifier | None = None
        self._known: dict[str, tuple[SessionMark, JournaledLoop]] = {}  # by the session's id
        self._notified_at: float | None = None
        self._lock = RLock()  # for the one connection

    def refresh(self) -> None:
        """Read the loops that have changed, then post events."""
        if self.journal is None:
            return
        try:
            with self._lock:
                self._read_changed(self.journal)
            self.problem = ""
        except DecisionJournalError as error:
            self.problem = str(error)
        self._notify()

    def mark(self, loop: JournaledLoop) -> SessionMark | None:
        """Return the mark of the loop's session: it changes whenever the page of the loop does."""
        known = self._known.get(loop.session.id)
        return None if known is None else known[0]

    def loop(self, job: str, id: str | None = None) -> JournaledLoop | None:
        """Return the loop of a job as it was last read, or read the session `id` of the job."""
        shown = self.loops.get(job)
        if id is None or (shown is not None and shown.session.id == id):
            return shown
        if self.journal is None or not any(mark.id == id for mark in self.marks.get(job, [])):
            return None
        with self._lock:
            session = self.journal.session(id)
            return None if session is None else read_loop(self.journal, session)

    def list_reported(self) -> list[JournaledLoop]:
        """Return the loops that run or whose process died within the last days. Empty while the journal is away."""
        if self.problem:
            return []
        unended = [loop for _, loop in list(self._known.values()) if loop.session.ended is None]
        return [each for each in unended if each.is_alive or time.time() - each.session.written < FORGET_SECONDS]

    def observations(self, loop: JournaledLoop, after: PlottedObservation | None = None) -> list[PlottedObservation]:
        """Return the last observations of a loop, or those after `after`."""
        if self.journal is None:
            return []
        number, id = 0 if after is None else after.number, loop.session.id
        with self._lock:
            entries = recent_entries.read_entries(self.journal, id, MAX_OBSERVATIONS, number)
            first = entries[0].number if entries else 0
            measured = recent_entries.read_measurements(self.journal, id, first - 1) if entries else {}
        collected = collect_observations(entries, measured, simulated=loop.session.header.simulated)
        return list(follow_requests(collected, after))

    def decisions(self, loop: JournaledLoop, most: int) -> list[JournalEntry]:
        """Return the last entry, then the latest entries that changed something."""
        if self.journal is None:
            return []
        with self._lock:
            changes = recent_entries.read_changes(self.journal, loop.session.id, most)
        is_change = loop.last is None or any(each.number == loop.last.number for each in changes)
        return [*([] if is_change or loop.last is None else [loop.last]), *changes][:most]

    def snapshot(self, loop: JournaledLoop) -> Snapshot | None:
        if self.journal is None or loop.last is None:
            return None
        with self._lock:
            return recent_entries.read_last_snapshot(self.journal, loop.session.id, loop.last.number)

    def _read_changed(self, journal: DecisionJournal) -> None:
        marks: dict[str, list[SessionMark]] = {}
        newest: dict[tuple[str, bool], SessionMark] = {}
        for mark in journal.marks():
            marks.setdefault(mark.job, []).append(mark)
            newest.setdefault((mark.job, mark.advises), mark)
        known: dict[str, tuple[SessionMark, JournaledLoop]] = {}
        for mark in newest.values():
            before = self._known.get(mark.id)
            if before is not None and before[0] == mark:
                known[mark.id] = before
            elif (session := journal.session(mark.id)) is not None:
                known[mark.id] = mark, read_loop(journal, session)
        self.marks, self._known = marks, known
        self.loops = choose_loops(loop for _, loop in known.values())

    def _notify(self) -> None:
        now, is_first = time.monotonic(), self._notified_at is None
        if self.notifier is None or (self._notified_at is not None and now - self._notified_at < NOTIFY_SECONDS):
            return
        self._notified_at = now
        for loop in choose_loops(self.list_reported()).values():
            status = loop.status()
            is_quiet = is_first and status.looked_seconds_ago > MAX_EVENT_AGE_SECONDS
            self.notifier.observe(_condition(status), is_quiet=is_quiet)


def _condition(status: LoopStatus) -> LoopCondition:
    return LoopCondition(
        status.job,
        status.simulated,
        status.latency_target,
        status.running,
        status.latency_seconds,
        status.rescales,
        status.steadily_met,
        (status.decided_seconds_ago or 0.0) if status.held_in_a_row else 0.0,
        status.holds_for or "",
        status.down,
        not status.lives,
        tuple(status.last_reasons),
    )
