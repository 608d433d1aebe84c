"""A Spark job that somebody else runs, seen through its event log: `LiveJob` for advice, which changes nothing.

The log must be written uncompressed, as it is read while it grows: `spark.eventLog.enabled=true`,
`spark.eventLog.compress=false`, and rolling, as is Spark's default. The job's operators must be marked.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from autotrascale.analyze import metrics
from autotrascale.analyze.executor_usage import ExecutorUsage
from autotrascale.analyze.facts import BatchFact, Fact, QueryRunEnded
from autotrascale.analyze.live.measurer import RATES_UNKNOWN, JobMeasurer
from autotrascale.analyze.live.query_run import FactStream
from autotrascale.closeable import Closeable
from autotrascale.domain.errors import InputError
from autotrascale.domain.observation import Observation, RescaleResult
from autotrascale.domain.topology import Topology
from autotrascale.monitor.eventlog.follower import Follower

_PREFIX = "eventlog_v2_"
_MOST_BATCHES, _MOST_TASKS = 1000, 200_000  # that one look is told from, whatever a log says
_UNJOINED = "the event log does not say which stage has which mark: Spark writes the numbers that do since 4.0"
_ADVICE = "this job is only looked at: rescale it where it is run"


class ReadOnlySparkJob(Closeable):
    """Follows the query of the newest batch that has all of the job's marks; an application may run others too."""

    simulated = False

    def __init__(
        self,
        name: str,
        topology: Topology,
        p_max: int,
        log: Path,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        *,
        measured: bool = False,
    ) -> None:
        """`log` is an application's `eventlog_v2_…` folder, or a folder of such, of which the newest is taken.
        `measured`: what its executors use is kept, for whoever asks."""
        self.use = ExecutorUsage()
        self.name, self.topology, self.p_max = name, topology, p_max
        folder = find_application_log(log, "--event-log")
        application = folder.name.removeprefix(_PREFIX)
        self._stream = FactStream(
            Follower(folder.parent, application, consume=False, latest=True), also=self.use.take if measured else None
        )
        self._measurer = JobMeasurer(name, topology, p_max)
        self._clock, self._sleep = clock, sleep
        self._run = ""
        self._batches: deque[BatchFact] = deque()  # since the last look, the newest of them
        self._tasks = 0  # of these
        self._running: Mapping[str, int] | None = None
        self._damaged = 0  # lines, as of the last look
        self._measured_at: float | None = None
        self._why = f"no batch with the marks of {', '.join(topology)} is in {folder} yet"

    def start(self, parallelism: Mapping[str, int]) -> Observation:  # noqa: ARG002 - it is somebody else's to start
        return self.observe()

    def observe(self) -> Observation:
        for fact in self._stream.facts():
            self._take(fact)
        at, batches = self._clock(), list(self._batches)
        self._empty()
        snapshot, detail = None, self._why
        if self._running is not None:
            snapshot = self._measurer.snapshot(batches) if batches else None
            detail = "" if snapshot else RATES_UNKNOWN if batches else "no batch was committed since the last look"
        return Observation(
            at, self._running, snapshot, self._measured_at, "; ".join(filter(None, (detail, self._damage())))
        )

    def rescale(self, parallelism: Mapping[str, int]) -> RescaleResult:  # noqa: ARG002 - whatever it is
        return RescaleResult(self._clock(), False, self._running, detail=_ADVICE)

    def wait(self, seconds: float) -> None:
        self._sleep(seconds)

    def close(self) -> None:
        """It is not ours to stop."""

    def _damage(self) -> str:
        """What of the log could not be read since the last look: the figures lack it."""
        lines, self._damaged = self._stream.damaged - self._damaged, self._stream.damaged
        what = "1 line of the log was" if lines == 1 else f"{lines} lines of the log were"
        return f"{what} no whole event and left out" if lines else ""

    def _take(self, fact: Fact) -> None:
        if isinstance(fact, QueryRunEnded) and fact.run == self._run:
            self._running, self._why = None, f"the query has ended{fact.error and ': '}{fact.error}"[:500]
            self._empty()
        elif isinstance(fact, BatchFact) and set(self.topology) <= set(fact.marks):
            if not (seen := metrics.find_parallelism(self.topology, [fact])):
                self._why = _UNJOINED
                return
            running = {**dict.fromkeys(self.topology, 1), **(self._running or {}), **seen}
            if fact.run != self._run or running != self._running:  # one window speaks of one parallelism
                self._run, self._running = fact.run, running
                self._empty()
            self._batches.append(fact)
            self._tasks += len(fact.tasks)
            while len(self._batches) > _MOST_BATCHES or self._tasks > _MOST_TASKS:
                self._tasks -= len(self._batches.popleft().tasks)
            self._measured_at = fact.committed_ms / 1000

    def _empty(self) -> None:
        self._batches.clear()
        self._tasks = 0


def find_application_log(log: Path, place: str) -> Path:
    """`log` itself, or the newest application's in it. `place` is where the user named it."""
    if log.name.startswith(_PREFIX) and log.is_dir():
        return log
    found = [path for path in log.glob(f"{_PREFIX}*") if path.is_dir()] if log.is_dir() else []
    if not found:
        raise InputError(
            place,
            f"has no {_PREFIX}… folder",
            seen=str(log),
            remedy="name the job's spark.eventLog.dir; the log must be enabled and rolling",
        )
    newest = max(found, key=lambda path: path.stat().st_mtime)
    if compressed := next((path for path in newest.glob("events_*") if path.suffix), None):
        raise InputError(
            place,
            "is compressed, so it cannot be followed while it is written",
            seen=compressed.name,
            remedy="set spark.eventLog.compress to false",
        )
    return newest
