"""The controller's connection to a Spark driver: requests with a timeout, the event log, and the loss of the driver."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autotrascale.analyze.executor_usage import ExecutorUsage
from autotrascale.analyze.live.query_run import QueryWatch
from autotrascale.domain.topology import Topology
from autotrascale.execute.spark.clusters.session_configuration import build_configuration, event_log_folder
from autotrascale.execute.spark.common.checkpoint_generations import VisibleBatches
from autotrascale.execute.spark.common.error_causes import explain_error, explain_exit
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.driver_process import DriverProcess
from autotrascale.execute.spark.protocol.channel import ChannelClosedError, ChannelTimeoutError
from autotrascale.execute.spark.protocol.own_job_messages import (
    Boot,
    Failed,
    IsWaiting,
    Message,
    Ready,
    Shutdown,
    Started,
    StartQuery,
    WaitingState,
)
from autotrascale.monitor.eventlog.follower import Follower

_SHUTDOWN_SECONDS = 15.0


class DriverLostError(Exception):
    """The driver died or hangs; it cannot answer any more."""


class QueryFailedError(Exception):
    """The driver lives, but a request to it failed."""


class DriverConnection:
    """The connection to one driver. Call `open` first; after `DriverLostError` call `kill`.

    Attributes:
        ready: the driver's reply to `open`.
        topology: operators of the job, with sources at no fewer tasks than their topics have partitions.
        watch: batches of the running query, from the event log.
        floors: smallest number of tasks of each source that reads a topic.
        usage: receives the resource usage of the executors, if it is given.
    """

    ready: Ready
    topology: Topology
    watch: QueryWatch
    floors: dict[str, int]

    def __init__(
        self,
        settings: SparkSettings,
        work: Path,
        log: Path,
        owner: str = "",
        copies: Path | None = None,
        usage: ExecutorUsage | None = None,
    ) -> None:
        """Start the driver process.

        Args:
            settings: the `spark:` section of the job file.
            work: folder for temporary files.
            log: file for the output of driver, JVM and workers.
            owner: name by which a later controller finds processes that are left over.
            copies: folder for copies of topics; None if the job reads the topics themselves.
            usage: receives the resource usage of the executors.
        """
        self._settings, self.usage = settings, usage
        self._work, self._copies = work, copies
        event_log_folder(work).mkdir(exist_ok=True)
        self.process = DriverProcess(log, settings.python_path, owner)
        self._is_unanswered = self._has_started_query = False

    def open(self) -> None:
        """Import the job, open the session and wait for executors."""
        start = self._settings.patience.start
        boot = Boot(
            job=self._settings.job,
            options=self._settings.options,
            conf=build_configuration(self._settings, self._work),
            work_dir=str(self._work),
            executors_within=start / 2,
            sources=self._settings.sources,
            copies="" if self._copies is None else str(self._copies),
        )
        answer = self.ask(boot, start)
        assert isinstance(answer, Ready)
        self.ready = answer
        self.floors = {name: topic.partitions for name, topic in answer.topics.items()}
        p_max = self._settings.p_max or answer.slots
        self.topology = Topology(dict(answer.operators)).at_least(self.floors, p_max)
        follower = Follower(event_log_folder(self._work), answer.application, consume=not self._settings.keep_event_log)
        self.watch = QueryWatch(follower, None if self.usage is None else self.usage.take)

    def ask(self, message: Message, seconds: float) -> Message:
        """Send a request and return the reply.

        A reply that is not awaited, as after Ctrl-C, leaves the connection out of step: it then counts as lost.

        Raises:
            QueryFailedError: the driver could not carry out the request.
            DriverLostError: the driver died, or did not answer within `seconds`.
        """
        self._is_unanswered = True
        try:
            self.process.channel.send(message)
            answer = self.process.channel.receive(seconds)
        except ChannelTimeoutError:
            raise DriverLostError(f"{type(message).__name__} was not answered within {seconds:.0f} s") from None
        except ChannelClosedError:
            raise DriverLostError(self._explain_end()) from None
        self._is_unanswered = False
        if isinstance(answer, Failed):
            raise QueryFailedError(answer.error)
        return answer

    def start_query(
        self, parallelism: Mapping[str, int], checkpoint: str, load_file: str, visible: VisibleBatches | None = None
    ) -> Started:
        """Start a query and follow its batches."""
        sink, fence = self._settings.sink, self._settings.may_overlap
        message = StartQuery(dict(parallelism), checkpoint, load_file, sink, visible or VisibleBatches(), fence)
        # The first start makes the copies of topics.
        copying = self._settings.patience.start if self.floors and not self._has_started_query else 0.0
        answer = self.ask(message, self._settings.patience.command + copying)
        assert isinstance(answer, Started)
        self._has_started_query = True
        self.watch.follow(answer.run)
        return answer

    def is_waiting(self) -> bool:
        """Return whether the query runs and has no batch in flight."""
        answer = self.ask(IsWaiting(), self._settings.patience.command)
        assert isinstance(answer, WaitingState)
        return answer.waiting

    def poll(self) -> None:
        """Read on in the event log. Raise an error if the query has ended or the driver is lost."""
        self.watch.poll()
        if self.watch.ended is not None:
            error = self.watch.ended.error
            raise QueryFailedError(explain_error(error) if error else "the query ended without an error")
        if self.is_lost():
            raise DriverLostError(self._explain_end())

    def is_lost(self) -> bool:
        """Return whether the driver died, or a request is still unanswered."""
        return self._is_unanswered or self.process.exit_code() is not None or self.process.channel.has_ended()

    def last_commit_ms(self) -> float | None:
        """Return the Unix time of the newest commit in milliseconds, if there is one."""
        return self.watch.batches[-1].committed_ms if self.watch.batches else None

    def close(self) -> None:
        """Stop Spark in order, or kill it if that takes too long."""
        try:
            self.ask(Shutdown(), _SHUTDOWN_SECONDS)
        except (DriverLostError, QueryFailedError):
            self.kill()
        else:
            self.process.end()

    def kill(self) -> None:
        """Kill the driver and all that it started."""
        self.process.kill()

    def _explain_end(self) -> str:
        return explain_exit(self.process.wait_for_exit_code(), self.process.log, self.process.log_from)
