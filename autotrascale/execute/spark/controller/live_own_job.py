"""A running own job for the control loop: a `LiveJob` on Spark, whose clock is the wall clock.

A later controller continues the job from its home: the checkpoint, the load file, and a record of the parallelism.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autotrascale.analyze import metrics
from autotrascale.analyze.live.measurer import RATES_UNKNOWN, JobMeasurer
from autotrascale.domain.errors import EngineError, InputError
from autotrascale.domain.observation import Observation, RescaleResult, RescaleTime
from autotrascale.domain.topology import check_parallelism, check_source_rates
from autotrascale.execute.spark.common.processes import kill_leftovers
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.blue_green_rescaler import (
    BlueGreenRescaler,
    CatchUpFailedError,
    HandOverFailedError,
)
from autotrascale.execute.spark.controller.driver_connection import DriverConnection, DriverLostError, QueryFailedError
from autotrascale.execute.spark.controller.driver_launcher import DriverLauncher
from autotrascale.execute.spark.controller.own_job import OwnJob
from autotrascale.execute.spark.controller.own_job_home import OwnJobHome, OwnJobRecord
from autotrascale.execute.spark.controller.own_query import OwnQuery, now_ms
from autotrascale.execute.spark.controller.query_rescaler import (
    POLL_SECONDS,
    NotBuiltError,
    QueryRescaler,
    RescaleReport,
)

_FAILURES = (QueryFailedError, DriverLostError, EngineError)


class LiveOwnJob(OwnJob):
    """A running own job. `report` has the phases of the last start or rescale."""

    with_usage = False  # whether the resource usage of the executors is collected

    def __init__(self, settings: SparkSettings, source_rates: Mapping[str, float], home: Path) -> None:
        """Lock the home and kill processes that an earlier controller left.

        Args:
            settings: the `spark:` section of the job file. The job always writes to its own sink.
            source_rates: records per second of generated sources.
            home: folder of the job; it is made if necessary, and only one process at a time may use it.
        """
        self.settings, self.source_rates = replace(settings, sink="real"), dict(source_rates)
        self.report = RescaleReport()
        self._home = OwnJobHome(home)
        owner = str(self._home.path)
        kill_leftovers(owner)
        self._launcher = DriverLauncher(self.settings, owner=owner, for_trials=False, with_usage=self.with_usage)
        self._query: OwnQuery | None = None
        self._actual_tasks: dict[str, int] = {}  # of sources that run with another number than was asked for
        self._why_down = "the job was never started"
        self._expected_time: RescaleTime | None = None

    def start(self, parallelism: Mapping[str, int]) -> Observation:
        """Start the job if it is down, and return an observation.

        A job that was started before continues at the parallelism in its record.
        """
        if not self._is_running():
            connection = self._connect()
            check_parallelism(self.topology, parallelism, self.p_max)
            check_source_rates(self.topology, self.source_rates)
            try:
                self._bring_up(connection, parallelism)
            except _FAILURES as problem:
                self._note_failure(problem)
        return self.observe()

    def observe(self) -> Observation:
        """Return the state of the job, measured over the batches since the last observation."""
        self._poll()
        at, query, connection = time.time(), self._query, self._launcher.connection
        if query is None or connection is None or not query.running:
            return Observation(at, None, None, detail=self._why_down)
        measured_at = (connection.last_commit_ms() or 0.0) / 1000 or None
        batches, running = connection.watch.since(query.window_from_ms), self._find_parallelism(query, connection)
        if not batches:
            return Observation(at, running, None, measured_at, "no batch was committed since the last observation")
        query.window_from_ms = batches[-1].started_ms + 1
        connection.watch.forget(query.window_from_ms)
        snapshot = self._make_measurer(query).snapshot(batches)
        detail = "" if snapshot else RATES_UNKNOWN
        return Observation(at, running, snapshot, measured_at, detail, self._expect_rescale_time(connection, query))

    def rescale(self, parallelism: Mapping[str, int]) -> RescaleResult:
        """Rescale the job in place or blue-green, as configured. A job that cannot be rescaled continues."""
        query = self._query
        if query is None or not self._is_running():
            return RescaleResult(time.time(), False, None, detail=self._why_down)
        check_parallelism(self.topology, parallelism, self.p_max)
        before, wanted = dict(query.parallelism), dict(parallelism)
        connection = self._connect()
        running = self._find_parallelism(query, connection)
        if wanted in (before, running):  # a source may set its own number of tasks, which no rescale changes
            return RescaleResult(time.time(), True, running)
        rescaler = QueryRescaler(connection, self.settings)
        try:
            rescaler.check_replayable(query)
        except InputError as refusal:
            return RescaleResult(time.time(), False, running, detail=str(refusal))
        try:
            self.report = report = self._rescale(rescaler, query, wanted)
        except (HandOverFailedError, NotBuiltError) as problem:
            return RescaleResult(time.time(), False, self._find_parallelism(query, connection), detail=str(problem))
        except _FAILURES as problem:
            return self._go_back_to(query, before, problem)
        self._begin_window(query, connection)
        self._write_record(query)
        return RescaleResult(
            time.time(),
            True,
            self._find_parallelism(query, connection),
            report.standstill_seconds,
            report.phases,
            how=report.how,
            overlap_seconds=report.overlap_seconds,
        )

    def wait(self, seconds: float) -> None:
        """Let `seconds` pass while the event log is read."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._poll()
            time.sleep(min(left, POLL_SECONDS * 4))

    def come_to_rest(self) -> dict[str, int]:
        """Hold the load, wait for the batch in flight, and return the records offered so far by generated source."""
        query = self._query
        if query is None or not self._is_running():
            raise EngineError(self._why_down)
        QueryRescaler(self._connect(), self.settings).come_to_rest(query)
        return {name: query.loads.sources[name].limit_count for name in query.generated}

    def close(self) -> None:
        query, connection = self._query, self._launcher.connection
        if query is not None and connection is not None and self._is_running():
            try:
                rescaler = QueryRescaler(connection, self.settings)
                rescaler.come_to_rest(query)
                rescaler.stop(query)
            except _FAILURES as problem:
                self._note_failure(problem)
        if query is not None:
            query.running = False
        self._why_down = "the job was closed"
        self._launcher.close()
        self._home.close()

    # -- start and rescale ---------------------------------------------------------------------------------------------

    def _connect(self) -> DriverConnection:
        if (connection := self._launcher.connection) is not None and connection.is_lost():
            self._note_failure(DriverLostError("the Spark driver was lost"))
        return self._launcher.connect()

    def _bring_up(self, connection: DriverConnection, parallelism: Mapping[str, int]) -> None:
        """Start the query as the record says, or a new query without a record.

        The record is written before the query starts: a first start that breaks off may have written to the sink.
        """
        rescaler = QueryRescaler(connection, self.settings)
        if (record := self._home.read(self.name, self.topology)) is None:
            folder = self._home.path / f"query-{now_ms()}"
            self._query = query = OwnQuery.new(self.settings, folder, parallelism, self.source_rates)
            self._write_record(query)
            self.report = rescaler.begin(query)
        else:
            folder = self._home.path / record.folder
            self._query = query = OwnQuery.reopen(self.settings, folder, record.parallelism, record.rates)
            rescaler.stop(query)
            self.report = self._continue(rescaler, query)
        self._write_record(query)

    def _continue(self, rescaler: QueryRescaler, query: OwnQuery) -> RescaleReport:
        if not query.is_primed:
            query.prime_anew(self.settings.prime_batches)
            return rescaler.begin(query)
        query.release_load()
        query.change_rates(self.source_rates)
        report = RescaleReport(rescaler.start(query))
        self._begin_window(query, rescaler.connection)
        return report

    def _rescale(self, rescaler: QueryRescaler, query: OwnQuery, wanted: Mapping[str, int]) -> RescaleReport:
        blue_green = BlueGreenRescaler(rescaler)
        choice = blue_green.choose_mode(query, wanted)
        self._expected_time = choice.takes
        if not choice.overlap:
            return replace(rescaler.rescale(query, wanted, query.rates), how=choice.why)
        try:
            return replace(blue_green.rescale(query, wanted, one_by_one=choice.one_by_one), how=choice.why)
        except CatchUpFailedError as problem:
            return replace(rescaler.rescale(query, wanted, query.rates), how=f"in place: {problem}")

    def _go_back_to(self, query: OwnQuery, before: Mapping[str, int], problem: Exception) -> RescaleResult:
        """Start the job at its former parallelism. A part of its state may have been moved already."""
        self._note_failure(problem)
        detail = str(problem)
        query.parallelism = dict(before)
        try:
            self._bring_up(connection := self._connect(), before)
        except _FAILURES as another:
            self._note_failure(another)
            return RescaleResult(time.time(), False, None, detail=f"{detail}; then, going back: {another}")
        running = self._find_parallelism(query, connection)
        phases = self.report.phases
        return RescaleResult(time.time(), False, running, sum(phases.values()), phases, detail)

    def _begin_window(self, query: OwnQuery, connection: DriverConnection) -> None:
        """Begin to measure after the first batch, which has the backlog of the standstill and cold caches."""
        batches = connection.watch.batches
        query.window_from_ms = batches[0].started_ms + 1 if batches else now_ms()

    def _expect_rescale_time(self, connection: DriverConnection, query: OwnQuery) -> RescaleTime:
        """Return the expected time of the last rescale. Before the first rescale, the driver is asked once."""
        if self._expected_time is None:
            blue_green = BlueGreenRescaler(QueryRescaler(connection, self.settings))
            self._expected_time = blue_green.choose_mode(query, query.parallelism).takes
        return self._expected_time

    def _write_record(self, query: OwnQuery) -> None:
        place = query.folder.name, dict(query.parallelism), dict(query.rates)
        self._home.write(OwnJobRecord(self.name, tuple(self.topology), *place))

    # -- observation ---------------------------------------------------------------------------------------------------

    def _is_running(self) -> bool:
        self._poll()
        return self._query is not None and self._query.running

    def _poll(self) -> None:
        connection = self._launcher.connection
        if self._query is None or not self._query.running or connection is None:
            return
        try:
            connection.poll()
        except (QueryFailedError, DriverLostError) as problem:
            self._note_failure(problem)

    def _note_failure(self, problem: Exception) -> None:
        """Record that the job is down, and drop a driver that is lost."""
        self._why_down = self._launcher.explain(problem)
        connection = self._launcher.connection
        if self._query is not None:
            self._query.running = False
        if connection is not None and (isinstance(problem, DriverLostError) or connection.is_lost()):
            self._launcher.drop(connection)

    def _make_measurer(self, query: OwnQuery) -> JobMeasurer:
        def offered(begin_ms: float, end_ms: float) -> dict[str, float]:
            return {name: query.loads.sources[name].offered(begin_ms, end_ms) for name in query.generated}

        return JobMeasurer(self.name, self.topology, self.p_max, offered)

    def _find_parallelism(self, query: OwnQuery, connection: DriverConnection) -> dict[str, int]:
        """Return the parallelism of the last batch, or the wanted one for operators without tasks in that batch.

        A source that ran with another number of tasks than wanted is expected to do so again.
        """
        seen = metrics.find_parallelism(self.topology, connection.watch.batches[-1:])
        for name in set(self.topology.sources) & seen.keys():
            self._actual_tasks.pop(name, None)
            if seen[name] != query.parallelism[name]:
                self._actual_tasks[name] = seen[name]
        return {**query.parallelism, **self._actual_tasks, **seen}
