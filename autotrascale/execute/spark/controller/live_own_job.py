"""A PySpark job that runs by itself, for the control loop: `LiveJob` on real Spark. Its clock is the wall clock.

What a later process needs to go on stands in `home`: the checkpoint, the load file, and a note of the parallelism that
the job runs at. The note is written before a rescale and after it, so that whoever comes after a crash half way knows
which of the two parallelisms is the good one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from autotrascale import validation
from autotrascale.analyze import metrics
from autotrascale.analyze.live.measurer import RATES_UNKNOWN, JobMeasurer
from autotrascale.atomic_files import FileLock, write_atomically
from autotrascale.closeable import Closeable
from autotrascale.domain.errors import EngineError, InputError
from autotrascale.domain.observation import Observation, RescaleResult, RescaleTime
from autotrascale.domain.topology import Topology, check_parallelism, check_source_rates
from autotrascale.execute.spark.common.processes import kill_leftovers
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.blue_green_rescaler import (
    BlueGreenRescaler,
    CatchUpFailedError,
    HandOverFailedError,
)
from autotrascale.execute.spark.controller.driver_connection import DriverConnection, DriverLostError, QueryFailedError
from autotrascale.execute.spark.controller.driver_launcher import DriverLauncher
from autotrascale.execute.spark.controller.own_query import OwnQuery, now_ms
from autotrascale.execute.spark.controller.query_rescaler import (
    POLL_SECONDS,
    NotBuiltError,
    QueryRescaler,
    RescaleReport,
)

_Broken = (QueryFailedError, DriverLostError, EngineError)


@dataclass(frozen=True)
class OwnJobRecord:
    """What is left for a later process. `moving_to` stands while a rescale is under way."""

    job: str
    operators: tuple[str, ...]
    folder: str
    parallelism: Mapping[str, int]
    rates: Mapping[str, float]
    moving_to: Mapping[str, int] | None = None


class LiveOwnJob(Closeable):
    simulated = False
    measured = False  # what its executors use of their memory

    def __init__(self, settings: SparkSettings, source_rates: Mapping[str, float], home: Path) -> None:
        """One process at a time may use a `home`. It is made where there is none."""
        self.settings, self.source_rates = replace(settings, sink="real"), dict(source_rates)  # this is no trial
        self.change = RescaleReport()
        self._home = home.resolve()
        self._lock = _claim(self._home)
        kill_leftovers(str(self._home))
        self._hosting = DriverLauncher(self.settings, owner=str(self._home), trials=False, measured=self.measured)
        self._query: OwnQuery | None = None
        self._own: dict[str, int] = {}  # instances of sources that have a number of their own, whatever was asked for
        self._why_down = "the job was never started"
        self._takes: RescaleTime | None = None

    @property
    def name(self) -> str:
        return self._ready().ready.job

    @property
    def topology(self) -> Topology:
        return self._ready().topology

    @property
    def p_max(self) -> int:
        return self.settings.p_max or self._ready().ready.slots

    @property
    def floors(self) -> Mapping[str, int]:
        """Partitions of the topics that sources read: no source has fewer tasks."""
        return self._ready().floors if self.settings.sources else {}

    @property
    def log(self) -> Path:
        return self._hosting.log

    def start(self, parallelism: Mapping[str, int]) -> Observation:
        if not self._runs():
            connection = self._ready()
            check_parallelism(self.topology, parallelism, self.p_max)
            check_source_rates(self.topology, self.source_rates)
            try:
                self._bring_up(connection, parallelism)
            except _Broken as problem:
                self._broke(problem)
        return self.observe()

    def observe(self) -> Observation:
        self._poll()
        at, query, connection = time.time(), self._query, self._hosting.connection
        if query is None or connection is None or not query.running:
            return Observation(at, None, None, detail=self._why_down)
        measured_at = (connection.last_commit_ms() or 0.0) / 1000 or None
        batches, running = connection.watch.since(query.window_from_ms), self._running(query, connection)
        if not batches:
            return Observation(at, running, None, measured_at, "no batch was committed since the last look")
        query.window_from_ms = batches[-1].started_ms + 1
        connection.watch.forget(query.window_from_ms)
        snapshot = self._measurer(query).snapshot(batches)
        detail = "" if snapshot else RATES_UNKNOWN
        return Observation(at, running, snapshot, measured_at, detail, self._rescale_takes(connection, query))

    def rescale(self, parallelism: Mapping[str, int]) -> RescaleResult:
        query = self._query
        if query is None or not self._runs():
            return RescaleResult(time.time(), False, None, detail=self._why_down)
        check_parallelism(self.topology, parallelism, self.p_max)
        before, wanted = dict(query.parallelism), dict(parallelism)
        connection = self._ready()
        running = self._running(query, connection)
        if wanted in (before, running):  # the partitions of a source may be its own: no rescale would change them
            return RescaleResult(time.time(), True, running)
        changes = QueryRescaler(connection, self.settings)
        try:
            changes.check_replayable(query)
        except InputError as refusal:
            return RescaleResult(time.time(), False, running, detail=str(refusal))
        self._write_note(query, moving_to=wanted)
        try:
            self.change = self._change(changes, query, wanted)
        except (HandOverFailedError, NotBuiltError) as problem:
            self._write_note(query)
            return RescaleResult(time.time(), False, self._running(query, connection), detail=str(problem))
        except _Broken as problem:
            return self._back_to(query, before, problem)
        self._begin_window(query, connection)
        self._write_note(query)
        running = self._running(query, connection)
        change = self.change
        return RescaleResult(
            time.time(),
            True,
            running,
            change.standstill_seconds,
            change.phases,
            how=change.how,
            overlap_seconds=change.overlap_seconds,
        )

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._poll()
            time.sleep(min(left, POLL_SECONDS * 4))

    def come_to_rest(self) -> dict[str, int]:
        """Takes no further records in, and says how many there were of each generated source, the first one's on."""
        query = self._query
        if query is None or not self._runs():
            raise EngineError(self._why_down)
        QueryRescaler(self._ready(), self.settings).come_to_rest(query)
        return {name: query.loads.sources[name].limit_count for name in query.generated}

    def close(self) -> None:
        query, connection = self._query, self._hosting.connection
        if query is not None and connection is not None and self._runs():
            try:
                changes = QueryRescaler(connection, self.settings)
                changes.come_to_rest(query)
                changes.stop(query)
            except _Broken as problem:
                self._broke(problem)
        if query is not None:
            query.running = False
        self._why_down = "the job was closed"
        self._hosting.close()
        self._lock.close()

    def _change(self, changes: QueryRescaler, query: OwnQuery, wanted: Mapping[str, int]) -> RescaleReport:
        """Overlapped or in place."""
        overlap = BlueGreenRescaler(changes)
        choice = overlap.choice(query, wanted)
        self._takes = choice.takes
        if not choice.overlap:
            return replace(changes.rescale(query, wanted, query.rates), how=choice.why)
        try:
            return replace(overlap.rescale(query, wanted, one_by_one=choice.one_by_one), how=choice.why)
        except CatchUpFailedError as problem:
            return replace(changes.rescale(query, wanted, query.rates), how=f"in place: {problem}")

    def _rescale_takes(self, connection: DriverConnection, query: OwnQuery) -> RescaleTime:
        """As it was expected of the last one: the host is asked before the first, and once."""
        if self._takes is None:
            self._takes = (
                BlueGreenRescaler(QueryRescaler(connection, self.settings)).choice(query, query.parallelism).takes
            )
        return self._takes

    # -- bringing it up -----------------------------------------------------------------------------------------------

    def _ready(self) -> DriverConnection:
        if (connection := self._hosting.connection) is not None and connection.lost():
            self._broke(DriverLostError("the host is gone"))
        return self._hosting.ready()

    def _bring_up(self, connection: DriverConnection, parallelism: Mapping[str, int]) -> None:
        """As the note says; where there is none, anew. The note is there before the query: what a first start that was
        broken off has written is in the sinks already."""
        changes = QueryRescaler(connection, self.settings)
        if (note := self._read_note()) is None:
            folder = self._home / f"query-{now_ms()}"
            self._query = query = OwnQuery.new(self.settings, folder, parallelism, self.source_rates)
            self._write_note(query)
            self.change = changes.begin(query)
        else:
            self._query = query = OwnQuery.left(self.settings, self._home / note.folder, note.parallelism, note.rates)
            changes.stop(query)
            self.change = self._go_on(changes, query)
        self._write_note(query)

    def _go_on(self, changes: QueryRescaler, query: OwnQuery) -> RescaleReport:
        if not query.primed:
            query.prime_anew(self.settings.prime_batches)
            return changes.begin(query)
        query.release_load()
        query.change_rates(self.source_rates)
        change = RescaleReport(changes.start(query))
        self._begin_window(query, changes.connection)
        return change

    def _begin_window(self, query: OwnQuery, connection: DriverConnection) -> None:
        """After the first batch, which carries what arrived while the job stood still, on cold caches."""
        batches = connection.watch.batches
        query.window_from_ms = batches[0].started_ms + 1 if batches else now_ms()

    def _back_to(self, query: OwnQuery, before: Mapping[str, int], problem: Exception) -> RescaleResult:
        """Where it came from: its state may have been moved already, or half of the way."""
        self._broke(problem)
        detail = str(problem)
        query.parallelism = dict(before)
        try:
            self._bring_up(connection := self._ready(), before)
        except _Broken as another:
            self._broke(another)
            return RescaleResult(time.time(), False, None, detail=f"{detail}; then, going back: {another}")
        running = self._running(query, connection)
        return RescaleResult(time.time(), False, running, sum(self.change.phases.values()), self.change.phases, detail)

    # -- watching it --------------------------------------------------------------------------------------------------

    def _runs(self) -> bool:
        self._poll()
        return self._query is not None and self._query.running

    def _poll(self) -> None:
        connection = self._hosting.connection
        if self._query is None or not self._query.running or connection is None:
            return
        try:
            connection.poll()
        except (QueryFailedError, DriverLostError) as problem:
            self._broke(problem)

    def _broke(self, problem: Exception) -> None:
        """Down until somebody starts it again. A host that is gone, or that hangs, is got rid of."""
        self._why_down = self._hosting.blamed(problem)
        connection = self._hosting.connection
        if self._query is not None:
            self._query.running = False
        if connection is not None and (isinstance(problem, DriverLostError) or connection.lost()):
            self._hosting.drop(connection)

    def _measurer(self, query: OwnQuery) -> JobMeasurer:
        def offered(begin_ms: float, end_ms: float) -> dict[str, float]:
            return {name: query.loads.sources[name].offered(begin_ms, end_ms) for name in query.generated}

        return JobMeasurer(self.name, self.topology, self.p_max, offered)

    def _running(self, query: OwnQuery, connection: DriverConnection) -> dict[str, int]:
        """As the last batch ran; of an operator that it did not need, as it was asked for. A source that did otherwise
        than asked before will do so again."""
        seen = metrics.find_parallelism(self.topology, connection.watch.batches[-1:])
        for name in set(self.topology.sources) & seen.keys():
            self._own.pop(name, None)
            if seen[name] != query.parallelism[name]:
                self._own[name] = seen[name]
        return {**query.parallelism, **self._own, **seen}

    # -- what a later process finds -----------------------------------------------------------------------------------

    def _write_note(self, query: OwnQuery, moving_to: Mapping[str, int] | None = None) -> None:
        here = (query.folder.name, dict(query.parallelism), dict(query.rates))
        note = OwnJobRecord(self.name, tuple(self.topology), *here, moving_to)
        write_atomically(self._home / "job.json", json.dumps(asdict(note)))

    def _read_note(self) -> OwnJobRecord | None:
        path = self._home / "job.json"
        if not path.exists():
            return None
        note = validation.read_file(path, OwnJobRecord)
        if (note.job, note.operators) != (self.name, tuple(self.topology)):
            raise InputError(
                str(self._home),
                "holds another job",
                seen=f"{note.job}: {', '.join(note.operators)}",
                remedy="give this one a folder of its own",
            )
        return note


def _claim(home: Path) -> FileLock:
    home.mkdir(parents=True, exist_ok=True)
    lock = FileLock(home / "lock")
    if not lock.acquire(wait=False):
        lock.close()
        raise InputError(str(home), "is in use by another process", remedy="stop that one first")
    return lock
