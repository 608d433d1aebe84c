"""A running application from its event log: query runs with their batches, and executors. No marks are needed.

The log must be written uncompressed, because it is read while it grows. A run that began before the log is read from
its second batch on: some jobs of the first batch may stand in lines that are no longer there.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotrascale.analyze.executor_usage import ExecutorUsage
from autotrascale.analyze.facts import (
    BatchFact,
    BatchStarted,
    Configured,
    ExecutorCame,
    ExecutorGone,
    Fact,
    QueryRunEnded,
    QueryRunStarted,
)
from autotrascale.analyze.live.query_run import FactStream, QueryRun
from autotrascale.analyze.unmarked_query import RunningExecutor
from autotrascale.monitor.eventlog.follower import Follower

# Bounds for one run and for all runs of a log: the oldest are dropped first.
_MOST_BATCHES, _MOST_TASKS, _MOST_RUNS = 1000, 200_000, 200


class ApplicationRun(QueryRun):
    """One run of a query of an application. `query` is the query's id, the same from run to run."""

    def __init__(self, run: str, query: str | None, name: str | None, *, number: int, from_its_start: bool) -> None:
        super().__init__(run)
        self.query = query
        self.name = name or f"query-{number}"
        self._begun = from_its_start
        self._tasks = 0

    @property
    def running(self) -> bool:
        return self.ended is None

    @property
    def exception(self) -> str:
        """Spark's message, empty while the query runs and where it was stopped."""
        return "" if self.ended is None else self.ended.error

    def take(self, fact: Fact) -> None:
        if isinstance(fact, BatchFact) and not self._begun:
            self._begun = True
            return
        super().take(fact)
        if isinstance(fact, BatchFact):
            self._tasks += len(fact.tasks)
            while len(self.batches) > 1 and (len(self.batches) > _MOST_BATCHES or self._tasks > _MOST_TASKS):
                self._tasks -= len(self.batches.pop(0).tasks)

    def forget(self, before_ms: float) -> None:
        super().forget(before_ms)
        self._tasks = sum(len(batch.tasks) for batch in self.batches)


class FollowedApplication:
    """A running application. Runs are in the order in which they began."""

    def __init__(self, follower: Follower) -> None:
        self.use = ExecutorUsage()  # of their memory and cores
        self._stream = FactStream(follower, every_stage=True, also=self.use.take)
        self._runs: dict[str, ApplicationRun] = {}
        self._executors: dict[str, RunningExecutor] = {}
        self._seen = 0
        self.conf: Mapping[str, str] = {}  # settings of the application (`joiner.SETTINGS`)

    @property
    def runs(self) -> Mapping[str, ApplicationRun]:
        return self._runs

    @property
    def running(self) -> tuple[ApplicationRun, ...]:
        """The runs that have not ended."""
        return tuple(run for run in self._runs.values() if run.running)

    @property
    def executors(self) -> Mapping[str, RunningExecutor]:
        """The registered executors, by Spark's names. Executors from before the log are unknown."""
        return self._executors

    @property
    def damaged(self) -> int:
        """Lines that are no whole event, or make no sense."""
        return self._stream.damaged

    def poll(self) -> None:
        """Read the new lines of the log."""
        for fact in self._stream.facts():
            self._take(fact)

    def _take(self, fact: Fact) -> None:
        match fact:
            case Configured():
                self.conf = fact.conf
            case ExecutorCame():
                self._executors[fact.executor] = RunningExecutor(
                    fact.executor, fact.host, max(1, fact.cores), fact.at_ms
                )
            case ExecutorGone():
                self._executors.pop(fact.executor, None)
            case QueryRunStarted():
                self._add(fact.run, fact.query, fact.name, from_its_start=True)
            case BatchStarted() | QueryRunEnded():
                if fact.run in self._runs:
                    self._runs[fact.run].take(fact)
            case BatchFact():
                if fact.run not in self._runs:
                    self._add(fact.run, fact.query, fact.name, from_its_start=False)
                self._runs[fact.run].take(fact)

    def _add(self, run: str, query: str | None, name: str | None, *, from_its_start: bool) -> None:
        """Add a run. A query that starts again without a name keeps its generated name."""
        before = next((each for each in self._runs.values() if query is not None and each.query == query), None)
        if before is None:
            self._seen += 1
        known = name or (before.name if before else None)
        self._runs[run] = ApplicationRun(run, query, known, number=self._seen, from_its_start=from_its_start)
        while len(self._runs) > _MOST_RUNS:
            ended = next((name for name, each in self._runs.items() if not each.running), next(iter(self._runs)))
            del self._runs[ended]
