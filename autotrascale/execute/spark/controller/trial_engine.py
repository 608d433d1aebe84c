"""The engine: trial after trial on one warm Spark session.

A trial is start → prime → load begins → batches until they can be judged → stop. Between trials the query starts
anew and the session stays. With `between_trials: keep` the query lives on instead, and is rescaled with its state.

What breaks in a trial is its verdict; after a host has died, the next trial starts another one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from autotrascale.analyze import metrics, starvation
from autotrascale.analyze.live.measurer import JobMeasurer, describe_difference
from autotrascale.closeable import Closeable
from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Topology, check_parallelism, check_source_rates
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.spark.common.processes import session_members
from autotrascale.execute.spark.common.source_settings import warn_of_short_topic
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.driver_connection import DriverConnection, DriverLostError, QueryFailedError
from autotrascale.execute.spark.controller.driver_launcher import DriverLauncher
from autotrascale.execute.spark.controller.own_query import OwnQuery, now_ms
from autotrascale.execute.spark.controller.query_rescaler import POLL_SECONDS, QueryRescaler, RescaleReport
from autotrascale.monitor import host_counters
from autotrascale.monitor.host_counters import HostReading


class SparkEngine(Closeable):
    """`Engine` on real Spark. After a trial, `window` and `change` say more about it than a `Trial` has room for."""

    simulated = False

    def __init__(self, settings: SparkSettings) -> None:
        self.settings = settings
        self.window: metrics.WindowFacts | None = None
        self.change = RescaleReport()
        self.output_records: int | None = 0  # of all trials; None where the sink does not count
        self._query: OwnQuery | None = None
        self._hosting = DriverLauncher(settings)
        self._trials = 0

    @property
    def topology(self) -> Topology:
        return self._ready().topology

    @property
    def job_name(self) -> str:
        return self._ready().ready.job

    @property
    def p_max(self) -> int:
        """The upper bound for each operator: the slots of the master, unless the settings say otherwise."""
        return self.settings.p_max or self._ready().ready.slots

    @property
    def floors(self) -> Mapping[str, int]:
        """Partitions of the topics that sources read: no source has fewer tasks."""
        return self._ready().floors if self.settings.sources else {}

    def remarks(self, source_rates: Mapping[str, float]) -> Sequence[str]:
        """What had better be known before the first trial: of a topic that holds less than a trial may take."""
        topics = self._ready().ready.topics if self.settings.sources else {}
        longest = self.settings.window.max_seconds
        return [
            warn_of_short_topic(self.settings.sources[name].kafka, holds, source_rates.get(name, 0.0), longest)
            for name, holds in topics.items()
            if holds.records < source_rates.get(name, 0.0) * longest
        ]

    @property
    def log(self) -> Path:
        return self._hosting.log

    def run(self, parallelism: Mapping[str, int], source_rates: Mapping[str, float]) -> Trial:
        """One trial. Raises `EngineError` when no host can be started, `InputError` for a vector that cannot be."""
        connection = self._ready()
        self._check(parallelism, source_rates)
        self.window, self.change = None, RescaleReport()
        asked = dict(parallelism)
        try:
            self.change = self._bring(connection, asked, source_rates)
            trial = self._measure(connection, asked, source_rates)
        except QueryFailedError as failure:
            self._forget_query()
            return Trial(asked, Verdict.FAILED, detail=self._hosting.blamed(failure))
        except DriverLostError as loss:
            self._drop(connection)
            self._forget_query()
            return Trial(asked, Verdict.FAILED, detail=self._hosting.blamed(loss))
        if self.settings.between_trials == "fresh":
            self._end_trial(connection)
        return trial

    def close(self) -> None:
        self._hosting.close()

    @property
    def _connection(self) -> DriverConnection | None:
        return self._hosting.connection

    def _ready(self) -> DriverConnection:
        """The host's connection; a host is started when there is none, or when it has died meanwhile."""
        if self._connection is not None and self._connection.lost():
            self._drop(self._connection)
        return self._hosting.ready()

    def _drop(self, connection: DriverConnection) -> None:
        self._hosting.drop(connection)
        if self._query is not None and self._query.running:
            self._query.running = False
            self._query.last_commit_ms = connection.last_commit_ms()

    def _check(self, parallelism: Mapping[str, int], source_rates: Mapping[str, float]) -> None:
        check_parallelism(self.topology, parallelism, self.p_max)
        check_source_rates(self.topology, source_rates)
        if not any(source_rates.values()):
            remedy = "give at least one source a rate above zero: without records there is nothing to measure"
            raise InputError("source_rates", "are all zero", remedy=remedy)

    def _bring(self, connection: DriverConnection, k: Mapping[str, int], rates: Mapping[str, float]) -> RescaleReport:
        """To this parallelism and these rates, from wherever the job is."""
        query = self._query
        if query is None or self.settings.between_trials == "fresh":
            return self._start_afresh(connection, k, rates)
        if query.running and dict(query.parallelism) == dict(k):
            query.change_rates(rates)
            return RescaleReport()
        return QueryRescaler(connection, self.settings).rescale(query, k, rates)

    def _start_afresh(
        self, connection: DriverConnection, k: Mapping[str, int], rates: Mapping[str, float]
    ) -> RescaleReport:
        began = time.monotonic()
        self._stop(connection)
        stopping = time.monotonic() - began
        self._trials += 1
        query = self._query = OwnQuery.new(self.settings, self._hosting.work / f"trial-{self._trials}", k, rates)
        change = QueryRescaler(connection, self.settings).begin(query)
        return RescaleReport({"stop": stopping, **change.phases}, stopping + change.standstill_seconds)

    def _measure(self, connection: DriverConnection, k: Mapping[str, int], rates: Mapping[str, float]) -> Trial:
        query = self._query
        assert query is not None
        ours = {source: rate for source, rate in rates.items() if source in query.generated}
        measurer = JobMeasurer(self.job_name, self.topology, self.p_max, lambda _begin, _end: ours)
        before = self._host_reading(connection)
        measured = measurer.trial(
            connection.watch,
            self.settings.window,
            query.window_from_ms,
            poll=connection.poll,
            now_ms=now_ms,
            wait=lambda: time.sleep(POLL_SECONDS),
        )
        self.window = measured.window
        self._count_output(connection)
        held = starvation.sum_held_seconds(connection.watch.since(query.window_from_ms))
        shortage = starvation.find_shortage(before, self._host_reading(connection), held)
        ran = {} if measured.snapshot is None else measured.snapshot.parallelism
        return Trial(
            parallelism=dict(k),
            verdict=Verdict.STABLE if measured.steady else Verdict.CANNOT_KEEP_UP,
            snapshot=measured.snapshot,
            detail="; ".join(filter(None, (measured.detail, describe_difference(k, ran)))),
            standstill_seconds=self.change.standstill_seconds,
            shortage=shortage,
        )

    def _host_reading(self, connection: DriverConnection) -> HostReading | None:
        """Of this machine, where the tasks run on it. What executors elsewhere are short of, nobody here sees."""
        if not self.settings.local:
            return None
        return host_counters.read_host([process.pid for process in session_members(connection.process.pid)])

    def _count_output(self, connection: DriverConnection) -> None:
        said = [batch.output_records for batch in connection.watch.batches]
        known = sum(records for records in said if records is not None)
        self.output_records = None if self.output_records is None or None in said else self.output_records + known

    def _end_trial(self, connection: DriverConnection) -> None:
        """A query that cannot be stopped takes its host with it; the verdict of its trial stands."""
        try:
            self._stop(connection)
        except (QueryFailedError, DriverLostError):
            self._drop(connection)

    def _stop(self, connection: DriverConnection) -> None:
        try:
            if self._query is not None and self._query.running:
                QueryRescaler(connection, self.settings).stop(self._query)
        finally:
            self._forget_query()

    def _forget_query(self) -> None:
        """With `keep` only that it runs is forgotten: its checkpoint is what the next trial goes on from."""
        if self._query is None:
            return
        self._query.running = False
        if self.settings.between_trials == "fresh" or not self._query.begun:
            self._query.remove()
            self._query = None
