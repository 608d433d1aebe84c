"""The engine's end of the line to its host: ask and be answered in time, follow the log, notice when it is gone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autotrascale.analyze.executor_usage import ExecutorUsage
from autotrascale.analyze.live.query_run import QueryWatch
from autotrascale.domain.topology import Topology
from autotrascale.execute.spark.clusters.session_configuration import build_configuration, event_log_folder
from autotrascale.execute.spark.common.checkpoint_generations import VisibleBatches
from autotrascale.execute.spark.common.error_causes import explain_error, explain_exit
from autotrascale.execute.spark.common.processes import DriverProcess
from autotrascale.execute.spark.common.spark_settings import SparkSettings
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

_GOODBYE_SECONDS = 15.0


class DriverLostError(Exception):
    """The host died or hangs: it cannot be asked again."""


class QueryFailedError(Exception):
    """The host is well, and what it was asked to do failed."""


class DriverConnection:
    """One host. `open` first; after `HostLostError` only `kill` is left."""

    ready: Ready
    topology: Topology
    watch: QueryWatch
    floors: dict[str, int]  # of sources that read topics: no fewer tasks

    def __init__(
        self,
        settings: SparkSettings,
        work: Path,
        log: Path,
        owner: str = "",
        copies: Path | None = None,
        use: ExecutorUsage | None = None,
    ) -> None:
        """`use` is told what the executors used, if anybody wants to know."""
        self._settings, self.use = settings, use
        self._work, self._copies = work, copies
        event_log_folder(work).mkdir(exist_ok=True)
        self.process = DriverProcess(log, settings.python_path, owner)
        self._unanswered = self.started = False

    def open(self) -> None:
        """Job loaded, session open, executors there."""
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
        self.watch = QueryWatch(follower, None if self.use is None else self.use.take)

    def ask(self, message: Message, seconds: float) -> Message:
        """The host's answer. No answer in time means that it hangs; one that nobody waited for, that we are out of
        step with it, as after Ctrl-C."""
        self._unanswered = True
        try:
            self.process.channel.send(message)
            answer = self.process.channel.receive(seconds)
        except ChannelTimeoutError:
            raise DriverLostError(f"{type(message).__name__} was not answered within {seconds:.0f} s") from None
        except ChannelClosedError:
            raise DriverLostError(self._why_ended()) from None
        self._unanswered = False
        if isinstance(answer, Failed):
            raise QueryFailedError(answer.error)
        return answer

    def start_query(
        self, parallelism: Mapping[str, int], checkpoint: str, load_file: str, visible: VisibleBatches | None = None
    ) -> Started:
        sink, fence = self._settings.sink, self._settings.may_overlap
        message = StartQuery(dict(parallelism), checkpoint, load_file, sink, visible or VisibleBatches(), fence)
        # The first start makes the copies of what topics hold.
        copying = self._settings.patience.start if self.floors and not self.started else 0.0
        answer = self.ask(message, self._settings.patience.command + copying)
        assert isinstance(answer, Started)
        self.started = True
        self.watch.follow(answer.run)
        return answer

    def waits(self) -> bool:
        """Whether the query runs and has no batch in flight."""
        answer = self.ask(IsWaiting(), self._settings.patience.command)
        assert isinstance(answer, WaitingState)
        return answer.waiting

    def poll(self) -> None:
        """Reads on in the log; raises when the query has failed or the host is gone."""
        self.watch.poll()
        if self.watch.ended is not None:
            error = self.watch.ended.error
            raise QueryFailedError(explain_error(error) if error else "the query ended by itself")
        if self.lost():
            raise DriverLostError(self._why_ended())

    def lost(self) -> bool:
        return self._unanswered or self.process.exit_code() is not None or self.process.channel.ended()

    def last_commit_ms(self) -> float | None:
        return self.watch.batches[-1].committed_ms if self.watch.batches else None

    def close(self) -> None:
        """Spark is stopped in good order if it stops in time."""
        try:
            self.ask(Shutdown(), _GOODBYE_SECONDS)
        except (DriverLostError, QueryFailedError):
            self.kill()
        else:
            self.process.end()

    def kill(self) -> None:
        self.process.kill()

    def _why_ended(self) -> str:
        return explain_exit(self.process.exit_code_soon(), self.process.log, self.process.log_from)
