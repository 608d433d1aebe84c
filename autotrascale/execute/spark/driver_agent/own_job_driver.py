"""The host process: one warm Spark session, told over a channel which query to run.

    python -m autotrascale.execute.spark.driver_agent.own_job_driver CHANNEL_FD

It must never outlive its parent, and nothing that it started may outlive it: the JVM, the daemon of Python workers and
the workers are all in its session (in the sense of setsid), and are killed together. A thread listens for the parent's
end of the channel; it is hung up by the kernel however the parent dies. (`PR_SET_PDEATHSIG` would be tied to the
parent's thread, not to the process.) Should the host itself be killed, the JVM sees its standard input close.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.domain.errors import AuTraScaleError, EngineError, InputError
from autotrascale.execute.spark.common.checkpoint_generations import VisibleBatches
from autotrascale.execute.spark.common.error_causes import JVM_GONE, PARENT_GONE, explain_error
from autotrascale.execute.spark.common.processes import kill_session
from autotrascale.execute.spark.driver_agent import copy_checkpoint, sinks, spark_session
from autotrascale.execute.spark.driver_agent.checkpoint_folder import CheckpointFolder
from autotrascale.execute.spark.driver_agent.fence import Fence, attach_fence, fenceable_writers
from autotrascale.execute.spark.driver_agent.fenceable_sinks import make_sink_fenceable
from autotrascale.execute.spark.driver_agent.file_sink_log import complete_sink_log, sink_folder
from autotrascale.execute.spark.driver_agent.kafka_topics import KafkaSources
from autotrascale.execute.spark.driver_agent.open_batch import run_open_batch
from autotrascale.execute.spark.driver_agent.repartition_state import repartition_state
from autotrascale.execute.spark.driver_agent.running_query import RunningQuery
from autotrascale.execute.spark.driver_agent.sources import find_once_only_sources, is_between_batches
from autotrascale.execute.spark.jobs.flow import Flow, StreamingJob
from autotrascale.execute.spark.jobs.job_loading import load_job
from autotrascale.execute.spark.protocol.channel import Channel, ChannelClosedError
from autotrascale.execute.spark.protocol.own_job_messages import (
    CODEC,
    BatchPlanned,
    Boot,
    BuildQuery,
    CatchUp,
    CheckpointCopied,
    CheckpointRead,
    CopyCheckpoint,
    DescribeQuery,
    Done,
    DropCopy,
    Failed,
    ForgetEntries,
    HandOver,
    IsWaiting,
    LetWrite,
    Message,
    PlanBatch,
    ReadCheckpoint,
    Ready,
    Repartition,
    RunOpenBatch,
    Shutdown,
    Started,
    StartQuery,
    StopQuery,
    WaitingState,
    count_state_partitions,
)

Built = tuple[BuildQuery, Flow, DataStreamWriter]

_PARENT_CHECK_SECONDS = 1.0
_ending = threading.Lock()


class OwnJobDriver:
    """Answers one message after another. `running` is the query that runs, if any."""

    def __init__(self, boot: Boot) -> None:
        self.job: StreamingJob = load_job(boot.job, boot.options)
        work = Path(boot.work_dir)
        self.spark: SparkSession = spark_session.open_session(boot.conf, work, boot.executors_within)
        self.topics = KafkaSources(self.spark, boot.sources, Path(boot.copies), copied=bool(boot.copies))
        self.running: RunningQuery | None = None
        self.built: Built | None = None

    def ready(self) -> Ready:
        return Ready(
            application=str(self.spark.sparkContext.applicationId),
            spark_version=self.spark.version,
            slots=spark_session.count_slots(self.spark.sparkContext),
            job=self.job.name,
            operators=self.job.topology.operators,
            topics=self.topics.holds,
        )

    def answer(self, message: Message) -> Message:
        began = time.monotonic()
        match message:
            case BuildQuery():
                self.built = self._build(message)
            case StartQuery():
                return self._start(message, began)
            case StopQuery():
                self._stop()
            case ReadCheckpoint():
                return CheckpointRead(CheckpointFolder(self.spark, message.checkpoint).read())
            case RunOpenBatch():
                self._stop()
                self._run_open_batch(message)
            case ForgetEntries():
                CheckpointFolder(self.spark, message.checkpoint).forget(message.entries)
            case Repartition():
                repartition_state(self.spark, message.checkpoint, message.partitions)
            case CopyCheckpoint():
                return CheckpointCopied(copy_checkpoint.copy_checkpoint(Path(message.checkpoint), Path(message.target)))
            case PlanBatch():
                return BatchPlanned(
                    copy_checkpoint.plan_to_same_input(Path(message.checkpoint), Path(message.copy), message.batch)
                )
            case IsWaiting():
                return WaitingState(self.running is not None and is_between_batches(self.running.query.status))
            case DescribeQuery() | CatchUp() | DropCopy() | HandOver() | LetWrite():
                return self._overlap(message, began)
            case Shutdown():
                self._stop()
                self.topics.close()
                self.spark.stop()
            case _:
                raise InputError("channel", "asks the host for what only the host says", seen=type(message).__name__)
        return Done(time.monotonic() - began)

    def _start(self, message: StartQuery, began: float) -> Started:
        self._stop()
        fence = self._fence(message)
        flow, writer = self._ready_to_start(message)
        fenced = attach_fence(fence, writer)
        query = writer.start()
        self.running = RunningQuery(query, writer, fence if fenced else None, message.checkpoint)
        return Started(
            str(query.runId), tuple(flow.generated), find_once_only_sources(writer), time.monotonic() - began
        )

    def _run_open_batch(self, message: RunOpenBatch) -> None:
        fence = self._fence(message)
        writer = self._ready_to_start(message)[1].trigger(once=True)
        attach_fence(fence, writer)
        output, number = sink_folder(writer), message.batch + message.visible.raised
        run_open_batch(
            self.spark, message.batch, lambda: writer.start().awaitTermination(), output, message.checkpoint, number
        )

    def _overlap(self, message: DescribeQuery | CatchUp | DropCopy | HandOver | LetWrite, began: float) -> Message:
        """What another query needs so that it can take over from the one that runs."""
        running = self.running
        if running is None:
            raise EngineError("no query runs that another one could take over from")
        match message:
            case DescribeQuery():
                return running.describe()
            case CatchUp():
                return running.catch_up(message, self._fenced(message), began)
            case HandOver():
                self.running, answer = running.hand_over(message, self._fenced(message), began)
                return answer
            case DropCopy():
                running.leave_behind()
            case LetWrite():
                running.let_write()
        return Done(time.monotonic() - began)

    def _fence(self, message: StartQuery | RunOpenBatch) -> Fence:
        committed = CheckpointFolder(self.spark, message.checkpoint).newest_commit()
        return Fence(message.visible, -1 if committed is None else committed)

    def _fenced(self, message: CatchUp | HandOver) -> Callable[[Fence], DataStreamWriter]:
        """How the query of a copy is built."""

        def build(fence: Fence) -> DataStreamWriter:
            writer = self._take_built(BuildQuery(message.parallelism, message.load_file))[2]
            make_sink_fenceable(self.spark, writer.option("checkpointLocation", message.checkpoint))
            if not attach_fence(fence, writer):
                raise EngineError(f"job {self.job.name}: writes to something else than when it was started")
            return writer

        return build

    def _ready_to_start(self, message: StartQuery | RunOpenBatch) -> tuple[Flow, DataStreamWriter]:
        """The query, not started."""
        _, flow, writer = self._take_built(BuildQuery(message.parallelism, message.load_file))
        writer = sinks.redirect_output(writer, message.sink, f"{message.checkpoint}-output")
        complete_sink_log(self.spark, writer, message.checkpoint, message.visible.raised)
        if message.fence or message.visible != VisibleBatches():  # the numbers of a later generation are ours to give
            make_sink_fenceable(self.spark, writer)
        return flow, writer.option("checkpointLocation", message.checkpoint)

    def _take_built(self, wanted: BuildQuery) -> Built:
        built, self.built = self.built, None
        self._say_partitions(wanted.parallelism)
        return built if built is not None and built[0] == wanted else self._build(wanted)

    def _say_partitions(self, k: Mapping[str, int]) -> None:
        """Spark takes the number for all state from here, and wants one also where there is none. What runs has its
        own already."""
        self.spark.conf.set("spark.sql.shuffle.partitions", str(count_state_partitions(self.job.topology, k) or 1))

    def _build(self, message: BuildQuery) -> Built:
        self._say_partitions(message.parallelism)
        flow = Flow(self.spark, self.job.topology, message.parallelism, message.load_file, self.topics.feed)
        with sinks.forbid_starting(self.job.name), fenceable_writers():
            writer = sinks.check_writer(self.job.name, self.job.build(flow))
        if missing := [name for name in self.job.topology if name not in flow.marked]:
            remedy = "make it with flow.load, flow.source or flow.operator"
            raise InputError(f"job {self.job.name}", f"declares {missing[0]!r} and never builds it", remedy=remedy)
        self.topics.check_fed(self.job.name, flow.fed)
        return message, flow, writer

    def _stop(self) -> None:
        running, self.running = self.running, None
        if running is not None:
            running.stop()


def serve(channel: Channel[Message]) -> None:
    """Answers until told to stop. An error of Spark or of the job is an answer too."""
    parent, boot = os.getppid(), channel.receive()
    assert isinstance(boot, Boot)
    inbox: queue.Queue[Message] = queue.Queue()
    threading.Thread(target=_listen, args=(channel, inbox, parent, boot.work_dir), daemon=True).start()
    threading.Thread(target=_watch_parent, args=(parent, boot.work_dir), daemon=True).start()
    try:
        host = OwnJobDriver(boot)
        channel.send(host.ready())
    except Exception as error:
        channel.send(_failure(error))
        return
    stopping = threading.Event()
    threading.Thread(target=_watch_jvm, args=(host.spark, stopping), daemon=True).start()
    while not stopping.is_set():
        message = inbox.get()
        if isinstance(message, Shutdown):
            stopping.set()
        try:
            channel.send(host.answer(message))
        except ChannelClosedError:
            return
        except Exception as error:
            if not stopping.is_set() and _jvm_is_gone(host.spark, error):
                end_process(JVM_GONE)
            channel.send(_failure(error))


def _listen(channel: Channel[Message], inbox: queue.Queue[Message], parent: int, work_dir: str) -> None:
    """Takes messages in while the main thread is busy in Spark, and so notices at once when the parent is gone."""
    try:
        while True:
            inbox.put(channel.receive())
    except (ChannelClosedError, InputError):
        end_process(PARENT_GONE, work_dir if _orphaned(parent) else "")


def _orphaned(parent: int) -> bool:
    """The kernel hangs up first and finds an orphan a new parent a moment later."""
    time.sleep(0.2)
    return os.getppid() != parent


def _watch_parent(parent: int, work_dir: str) -> None:
    """For the case that a child of the parent still holds the channel open: an orphan has another parent."""
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_SECONDS)
    end_process(PARENT_GONE, work_dir)


def _watch_jvm(spark: SparkSession, stopping: threading.Event) -> None:
    """Without its JVM a host is of no use, and calls into it may wait for ever."""
    gateway: Any = spark.sparkContext._gateway
    gateway.proc.wait()
    if not stopping.is_set():
        print("the JVM ended by itself", file=sys.stderr, flush=True)
        end_process(JVM_GONE)


def end_process(code: int, work_dir: str = "") -> None:
    """Now, with everything that was started. `work_dir` goes too when there is nobody left to remove it. A thread that
    comes second waits for the first: the end of one makes the others see theirs."""
    _ending.acquire()
    with contextlib.suppress(Exception):
        kill_session(os.getpid(), spare=os.getpid())
    if work_dir:
        shutil.rmtree(work_dir, ignore_errors=True)
    os._exit(code)


def _jvm_is_gone(spark: SparkSession, error: Exception) -> bool:
    """A dying JVM is first seen as a connection that breaks or as a class that it no longer has; its process is gone a
    moment later. What Java itself answered shows that it launches."""
    gateway: Any = spark.sparkContext._gateway
    answered = isinstance(error, Py4JJavaError) or not isinstance(error, Py4JError | OSError)
    until = time.monotonic() + (0.0 if answered else 2.0)
    while gateway.proc.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    return gateway.proc.poll() is not None


def _failure(error: Exception) -> Failed:
    """One line for people; the whole story goes to the log."""
    traceback.print_exception(error)
    if isinstance(error, AuTraScaleError):
        return Failed(str(error))
    return Failed(explain_error(f"{type(error).__name__}: {error}"))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it will tell us
    channel = Channel(socket.socket(fileno=int(sys.argv[1])), CODEC)
    try:
        serve(channel)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        end_process(0)


if __name__ == "__main__":
    main()
