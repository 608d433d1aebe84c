"""The trial engine on Spark: one trial after the other on one warm Spark session.

A trial is start → prime → begin the load → batches until they can be judged → stop. Between trials the query starts
anew and the session stays. With `between_trials: keep` the query lives on and is rescaled with its state.

A failure in a trial becomes its verdict. After the loss of a driver, the next trial starts another one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from autotrascale.analyze import metrics, starvation
from autotrascale.analyze.live.measurer import JobMeasurer, describe_difference
from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import check_parallelism, check_source_rates
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.spark.common.processes import session_members
from autotrascale.execute.spark.common.source_settings import warn_of_short_topic
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.driver_connection import DriverConnection, DriverLostError, QueryFailedError
from autotrascale.execute.spark.controller.driver_launcher import DriverLauncher
from autotrascale.execute.spark.controller.own_job import OwnJob
from autotrascale.execute.spark.controller.own_query import OwnQuery, now_ms
from autotrascale.execute.spark.controller.query_rescaler import POLL_SECONDS, QueryRescaler, RescaleReport
from autotrascale.monitor import host_counters
from autotrascale.monitor.host_counters import HostReading


class SparkEngine(OwnJob):
    """An `Engine` on Spark.

    Attributes:
        settings: the `spark:` section of the job file.
        window: details of the last measurement; None after a failed trial.
        report: phases of the last start or rescale.
        output_records: records that all trials gave to the sink; None if the sink does not count them.
    """

    def __init__(self, settings: SparkSettings) -> None:
        self.settings = settings
        self.window: metrics.WindowFacts | None = None
        self.report = RescaleReport()
        self.output_records: int | None = 0
        self._query: OwnQuery | None = None
        self._launcher = DriverLauncher(settings)
        self._trials = 0

    @property
    def job_name(self) -> str:
        return self.name

    def remarks(self, source_rates: Mapping[str, float]) -> Sequence[str]:
        """Return warnings before the first trial, about topics with fewer records than a trial may read."""
        topics = self._connect().ready.topics if self.settings.sources else {}
        longest = self.settings.window.max_seconds
        return [
            warn_of_short_topic(self.settings.sources[name].kafka, contents, source_rates.get(name, 0.0), longest)
            for name, contents in topics.items()
            if contents.records < source_rates.get(name, 0.0) * longest
        ]

    def run(self, parallelism: Mapping[str, int], source_rates: Mapping[str, float]) -> Trial:
        """Run one trial.

        Args:
            parallelism: partitions by operator.
            source_rates: records per second by source.

        Raises:
            EngineError: no driver can be started.
            InputError: the parallelism or the rates are not allowed.
        """
        connection = self._connect()
        self._check(parallelism, source_rates)
        self.window, self.report = None, RescaleReport()
        k = dict(parallelism)
        try:
            self.report = self._bring_up(connection, k, source_rates)
            trial = self._measure(connection, k, source_rates)
        except QueryFailedError as failure:
            self._forget_query()
            return Trial(k, Verdict.FAILED, detail=self._launcher.explain(failure))
        except DriverLostError as loss:
            self._drop(connection)
            self._forget_query()
            return Trial(k, Verdict.FAILED, detail=self._launcher.explain(loss))
        if self.settings.between_trials == "fresh":
            self._end_trial(connection)
        return trial

    def close(self) -> None:
        self._launcher.close()

    @property
    def _connection(self) -> DriverConnection | None:
        return self._launcher.connection

    def _connect(self) -> DriverConnection:
        if self._connection is not None and self._connection.is_lost():
            self._drop(self._connection)
        return self._launcher.connect()

    def _drop(self, connection: DriverConnection) -> None:
        self._launcher.drop(connection)
        if self._query is not None and self._query.running:
            self._query.running = False
            self._query.last_commit_ms = connection.last_commit_ms()

    def _check(self, parallelism: Mapping[str, int], source_rates: Mapping[str, float]) -> None:
        check_parallelism(self.topology, parallelism, self.p_max)
        check_source_rates(self.topology, source_rates)
        if not any(source_rates.values()):
            remedy = "give at least one source a rate above zero: without records there is nothing to measure"
            raise InputError("source_rates", "are all zero", remedy=remedy)

    def _bring_up(
        self, connection: DriverConnection, k: Mapping[str, int], rates: Mapping[str, float]
    ) -> RescaleReport:
        """Start or rescale the query, so that it runs at this parallelism and these rates."""
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
        query = self._query = OwnQuery.new(self.settings, self._launcher.work / f"trial-{self._trials}", k, rates)
        report = QueryRescaler(connection, self.settings).begin(query)
        return RescaleReport({"stop": stopping, **report.phases}, stopping + report.standstill_seconds)

    def _measure(self, connection: DriverConnection, k: Mapping[str, int], rates: Mapping[str, float]) -> Trial:
        query = self._query
        assert query is not None
        generated = {source: rate for source, rate in rates.items() if source in query.generated}
        measurer = JobMeasurer(self.job_name, self.topology, self.p_max, lambda _begin, _end: generated)
        before = self._read_host(connection)
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
        shortage = starvation.find_shortage(before, self._read_host(connection), held)
        ran = {} if measured.snapshot is None else measured.snapshot.parallelism
        return Trial(
            parallelism=dict(k),
            verdict=Verdict.STABLE if measured.steady else Verdict.CANNOT_KEEP_UP,
            snapshot=measured.snapshot,
            detail="; ".join(filter(None, (measured.detail, describe_difference(k, ran)))),
            standstill_seconds=self.report.standstill_seconds,
            shortage=shortage,
        )

    def _read_host(self, connection: DriverConnection) -> HostReading | None:
        """Return the counters of this machine. None for a cluster, whose machines cannot be seen from here."""
        if not self.settings.local:
            return None
        return host_counters.read_host([process.pid for process in session_members(connection.process.pid)])

    def _count_output(self, connection: DriverConnection) -> None:
        counts = [batch.output_records for batch in connection.watch.batches]
        total = sum(records for records in counts if records is not None)
        self.output_records = None if self.output_records is None or None in counts else self.output_records + total

    def _end_trial(self, connection: DriverConnection) -> None:
        """Stop the query, or drop a driver that cannot stop it. The verdict of the trial stands either way."""
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
        """Remove the query. With `between_trials: keep` its checkpoint is kept: the next trial continues from it."""
        if self._query is None:
            return
        self._query.running = False
        if self.settings.between_trials == "fresh" or not self._query.has_begun:
            self._query.remove()
            self._query = None
