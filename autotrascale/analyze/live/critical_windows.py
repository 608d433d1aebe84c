"""Critical participation of the queries of a running application, window by window as they end.

Only the application's event log is read, as it grows. A window of a query is complete when a batch was committed that
reaches its end: then the log has all of the window.
"""

from __future__ import annotations

import math

from autotrascale.analyze.critical.edges import make_edges
from autotrascale.analyze.critical.gaps import fill_gaps
from autotrascale.analyze.critical.participation_table import measure_windows
from autotrascale.analyze.critical.spark_trace import trace_batches
from autotrascale.analyze.live.application import ApplicationRun, FollowedApplication
from autotrascale.domain.critical_path_report import CriticalPathReport
from autotrascale.monitor.eventlog.follower import Follower


class CriticalWindows:
    """Windows of a running application. They are counted from 1970, so an archive has the same windows.

    The first window of a query holds the part that was observed.
    """

    def __init__(self, follower: Follower, application: str, seconds: float, *, query: str = "") -> None:
        """Cut into windows of `seconds`. `query` restricts them to the query of this name."""
        self._application, self._name, self._seconds, self._query = (
            FollowedApplication(follower),
            application,
            seconds,
            query,
        )
        self._told: dict[str, int] = {}  # by run, the number of the next window

    @property
    def damaged(self) -> int:
        """Lines that are no whole event, or make no sense."""
        return self._application.damaged

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of the observed queries."""
        return tuple(dict.fromkeys(run.name for run in self._application.runs.values()))

    @property
    def running(self) -> bool:
        """Tell whether a wanted query runs."""
        return any(self._wanted(run) for run in self._application.running)

    def poll(self) -> list[CriticalPathReport]:
        """Return the windows that have ended since the last call, in order of time for each query."""
        self._application.poll()
        return [window for run in self._application.runs.values() if self._wanted(run) for window in self._ended(run)]

    def _wanted(self, run: ApplicationRun) -> bool:
        return not self._query or run.name == self._query

    def _ended(self, run: ApplicationRun) -> list[CriticalPathReport]:
        if not run.batches:
            return []
        width = 1000 * self._seconds
        first = self._told.get(run.run, math.floor(run.batches[0].started_ms / width))
        committed = run.batches[-1].committed_ms / width
        until = math.floor(committed) if run.running else math.ceil(committed)  # a run that is over has its last window
        if until <= first:
            return []
        begin, end = first * width, until * width
        touching = [each for each in run.batches if each.started_ms < end and each.committed_ms > begin]
        self._told[run.run] = until
        edges, names = make_edges(trace_batches(touching))
        found = measure_windows(fill_gaps(edges), names, self._seconds, application=self._name, query=run.name)
        run.forget(end - max(width, max(1000 * each.seconds for each in touching)))
        return [each for each in found if first <= round(each.started_ms / width) < until]
