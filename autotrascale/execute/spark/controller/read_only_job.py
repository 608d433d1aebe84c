"""A Spark job that is observed through its event log alone, as a `LiveJob` for advice. Nothing is changed.

The log is read while it grows, so it must be rolling, as is Spark's default, and uncompressed:
`spark.eventLog.enabled=true`, `spark.eventLog.compress=false`. The job's operators must be marked.
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
_MAX_BATCHES, _MAX_TASKS = 1000, 200_000  # of one observation
_NO_STAGE_NUMBERS = "the event log does not say which stage has which mark: this needs Spark 4.0 or later"
_READ_ONLY = "AuTraScale only observes this job: rescale it where it was started"


class ReadOnlySparkJob(Closeable):
    """The query of the newest batch with all marks of the job. The application may run other queries too.

    Args:
        name: of the job
        topology: operators of the job
        p_max: largest parallelism of an operator
        log: the `eventlog_v2_…` folder of an application, or a folder of such; then the newest is taken
        measured: collect the memory and CPU use of the executors
    """

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
        self._batches: deque[BatchFact] = deque()  # since the last observation
        self._tasks = 0  # of these batches
        self._running: Mapping[str, int] | None = None
        self._damaged = 0  # lines, at the last observation
        self._measured_at: float | None = None
        self._why = f"no batch with the marks of {', '.join(topology)} is in {folder} yet"

    def start(self, parallelism: Mapping[str, int]) -> Observation:  # noqa: ARG002 - started elsewhere
        return self.observe()

    def observe(self) -> Observation:
        for fact in self._stream.facts():
            self._take(fact)
        at, batches = self._clock(), list(self._batches)
        self._drop_batches()
        snapshot, detail = None, self._why
        if self._running is not None:
            snapshot = self._measurer.snapshot(batches) if batches else None
            detail = (
                "" if snapshot else RATES_UNKNOWN if batches else "no batch was committed since the last observation"
            )
        return Observation(
            at, self._running, snapshot, self._measured_at, "; ".join(filter(None, (detail, self._describe_damage())))
        )

    def rescale(self, parallelism: Mapping[str, int]) -> RescaleResult:  # noqa: ARG002 - nothing is rescaled
        return RescaleResult(self._clock(), False, self._running, detail=_READ_ONLY)

    def wait(self, seconds: float) -> None:
        self._sleep(seconds)

    def _describe_damage(self) -> str:
        lines, self._damaged = self._stream.damaged - self._damaged, self._stream.damaged
        return f"{lines} damaged line{'' if lines == 1 else 's'} of the event log left out" if lines else ""

    def _take(self, fact: Fact) -> None:
        if isinstance(fact, QueryRunEnded) and fact.run == self._run:
            self._running, self._why = None, f"the query has ended{fact.error and ': '}{fact.error}"[:500]
            self._drop_batches()
        elif isinstance(fact, BatchFact) and set(self.topology) <= set(fact.marks):
            if not (seen := metrics.find_parallelism(self.topology, [fact])):
                self._why = _NO_STAGE_NUMBERS
                return
            running = {**dict.fromkeys(self.topology, 1), **(self._running or {}), **seen}
            if fact.run != self._run or running != self._running:  # one observation, one parallelism
                self._run, self._running = fact.run, running
                self._drop_batches()
            self._batches.append(fact)
            self._tasks += len(fact.tasks)
            while len(self._batches) > _MAX_BATCHES or self._tasks > _MAX_TASKS:
                self._tasks -= len(self._batches.popleft().tasks)
            self._measured_at = fact.committed_ms / 1000

    def _drop_batches(self) -> None:
        self._batches.clear()
        self._tasks = 0


def find_application_log(log: Path, place: str) -> Path:
    """Return `log`, or the folder of the newest application in it. Raises `InputError`, which names `place`."""
    if log.name.startswith(_PREFIX) and log.is_dir():
        return log
    found = [path for path in log.glob(f"{_PREFIX}*") if path.is_dir()] if log.is_dir() else []
    if not found:
        raise InputError(
            place,
            f"contains no {_PREFIX}… folder",
            seen=str(log),
            remedy="name the job's spark.eventLog.dir; its log must be enabled and rolling",
        )
    newest = max(found, key=lambda path: path.stat().st_mtime)
    if compressed := next((path for path in newest.glob("events_*") if path.suffix), None):
        raise InputError(
            place,
            "is compressed, so it cannot be read while it grows",
            seen=compressed.name,
            remedy="set spark.eventLog.compress to false",
        )
    return newest
