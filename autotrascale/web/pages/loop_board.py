"""The control loops as the pages show them: read by one thread when the journal has changed, however many look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from threading import RLock

from autotrascale.app.plot_sets import MAX_OBSERVATIONS, collect_observations
from autotrascale.domain.errors import DecisionJournalError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.knowledge.decision_journal import recent_entries
from autotrascale.knowledge.decision_journal.journal import DecisionJournal, PastSession
from autotrascale.knowledge.decision_journal.recent_entries import JournalEntry, SessionMark
from autotrascale.views.loop_line import LoopFacts
from autotrascale.views.plots.loop_history import PlottedLoop, PlottedObservation, follow_requests

LOOKED_THROUGH = 200  # entries, for the last that measured and the last that changed something
CANDIDATES = 3  # sessions of a job that may be the one to show: one that acts, one that advises, one that died


@dataclass(frozen=True)
class ShownSession:
    """The session of a job that its page shows, and what stands out of its entries."""

    mark: SessionMark
    past: PastSession
    lives: bool
    last: JournalEntry | None = None
    measured: JournalEntry | None = None
    changed: JournalEntry | None = None

    @property
    def target(self) -> Target:
        return self.past.opening.target

    @property
    def loop(self) -> LoopFacts:
        opening = self.past.opening
        return LoopFacts(
            opening.job,
            self.target,
            self.past.state,
            self.lives,
            self.mark.ended,
            opening.advise,
            opening.simulated,
            opening.executor,
            None if self.last is None else self.last.entry,
            None if self.measured is None else self.measured.entry,
        )

    @property
    def kept(self) -> PlottedLoop:
        return PlottedLoop(self.target, self.past.opening.simulated)


class LoopBoard:
    """`sessions` is what was read last, by job. `problem`: why the journal cannot be read."""

    def __init__(self, decisions: DecisionJournal | None) -> None:
        self.decisions = decisions
        self.sessions: dict[str, ShownSession] = {}
        self.marks: dict[str, list[SessionMark]] = {}
        self.problem = ""
        self._known: dict[str, ShownSession] = {}  # by their ids
        self._lock = RLock()  # of the one connection

    def look(self) -> None:
        if self.decisions is None:
            return
        try:
            with self._lock:
                self._look(self.decisions)
            self.problem = ""
        except DecisionJournalError as error:
            self.problem = str(error)

    def session(self, job: str, id: str | None = None) -> ShownSession | None:
        """The job's newest, or one of its earlier ones."""
        shown = self.sessions.get(job)
        if id is None or (shown is not None and shown.mark.id == id):
            return shown
        mark = next((mark for mark in self.marks.get(job, []) if mark.id == id), None)
        if mark is None or self.decisions is None:
            return None
        with self._lock:
            return self._read(self.decisions, mark, None)

    def looks(self, session: ShownSession, after: PlottedObservation | None = None) -> list[PlottedObservation]:
        """The last so many, or those after that one."""
        if self.decisions is None:
            return []
        number = 0 if after is None else after.number
        with self._lock:
            written = recent_entries.read_entries(self.decisions, session.mark.id, MAX_OBSERVATIONS, number)
            first = written[0].number if written else 0
            measured = recent_entries.read_measurements(self.decisions, session.mark.id, first - 1) if written else {}
        simulated = session.past.opening.simulated
        return list(follow_requests(collect_observations(written, measured, simulated=simulated), after))

    def decisions_of(self, session: ShownSession, limit: int) -> list[JournalEntry]:
        """Those that changed something, the latest first, and the last look before all."""
        if self.decisions is None:
            return []
        with self._lock:
            found = recent_entries.read_changes(self.decisions, session.mark.id, limit)
        last = (
            [] if session.last is None or any(each.number == session.last.number for each in found) else [session.last]
        )
        return [*last, *found][:limit]

    def snapshot(self, session: ShownSession) -> Snapshot | None:
        if self.decisions is None or session.last is None:
            return None
        with self._lock:
            return recent_entries.read_last_snapshot(self.decisions, session.mark.id, session.last.number)

    def _look(self, decisions: DecisionJournal) -> None:
        marks: dict[str, list[SessionMark]] = {}
        for mark in recent_entries.list_sessions(decisions):
            marks.setdefault(mark.job, []).append(mark)
        found = {job: self._shown(decisions, of_job) for job, of_job in marks.items()}
        self.marks, self.sessions = marks, {job: session for job, session in found.items() if session is not None}

    def _shown(self, decisions: DecisionJournal, of_job: list[SessionMark]) -> ShownSession | None:
        """One that lives, and rather one that acts than one that advises; else the last that was written."""
        order = sorted(of_job, key=lambda mark: (mark.ended is None, not mark.advises, mark.written), reverse=True)
        candidates = [mark for mark in order[:CANDIDATES] if mark.ended is None] or order[:1]
        read = [self._read(decisions, mark, self._known.get(mark.id)) for mark in candidates]
        sessions = [session for session in read if session is not None]
        self._known |= {session.mark.id: session for session in sessions}
        latest = max(sessions, key=lambda session: session.mark.written, default=None)
        return next((session for session in sessions if session.lives), latest)

    def _read(self, decisions: DecisionJournal, mark: SessionMark, known: ShownSession | None) -> ShownSession | None:
        if known is not None and known.mark == mark:
            lives = known.past.lives
            return known if lives == known.lives else replace(known, lives=lives)
        past = decisions.session(mark.id)
        if past is None:
            return None
        same = known if known is not None and known.mark.id == mark.id else None
        last = None if same is None else same.last
        session = ShownSession(mark, past, past.lives)
        if same is not None:
            session = replace(session, last=same.last, measured=same.measured, changed=same.changed)
        for each in self._news(decisions, mark.id, last):
            session = replace(session, last=each)
            if each.entry["rate"] is not None:
                session = replace(session, measured=each)
            if each.entry["action"] != "stay":
                session = replace(session, changed=each)
        return session

    def _news(self, decisions: DecisionJournal, id: str, last: JournalEntry | None) -> Iterator[JournalEntry]:
        yield from recent_entries.read_entries(decisions, id, LOOKED_THROUGH, 0 if last is None else last.number)
