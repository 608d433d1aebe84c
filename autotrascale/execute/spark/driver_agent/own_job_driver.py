"""The Spark driver of an own job: one warm session, and one query at a time, on request of the controller."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.domain.errors import EngineError, InputError
from autotrascale.execute.spark.common.checkpoint_facts import count_state_partitions
from autotrascale.execute.spark.common.checkpoint_generations import VisibleBatches
from autotrascale.execute.spark.driver_agent import sinks, spark_session
from autotrascale.execute.spark.driver_agent.checkpoint_folder import CheckpointFolder
from autotrascale.execute.spark.driver_agent.copy_checkpoint import copy_checkpoint, plan_to_same_input
from autotrascale.execute.spark.driver_agent.fence import Fence, attach_fence, fenceable_writers
from autotrascale.execute.spark.driver_agent.fenceable_sinks import make_sink_fenceable
from autotrascale.execute.spark.driver_agent.file_sink_log import complete_sink_log_in, sink_folder
from autotrascale.execute.spark.driver_agent.kafka_topics import KafkaSources
from autotrascale.execute.spark.driver_agent.open_batch import run_open_batch
from autotrascale.execute.spark.driver_agent.repartition_state import repartition_state
from autotrascale.execute.spark.driver_agent.running_query import RunningQuery
from autotrascale.execute.spark.driver_agent.sources import find_once_only_sources, is_between_batches
from autotrascale.execute.spark.jobs.flow import Flow, StreamingJob
from autotrascale.execute.spark.jobs.job_loading import load_job
from autotrascale.execute.spark.protocol.own_job_messages import (
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
)

BuiltQuery = tuple[BuildQuery, Flow, DataStreamWriter]


class OwnJobDriver:
    """The answers of the driver to requests. `running` is the running query, if any."""

    def __init__(self, boot: Boot) -> None:
        """Import the job, open the session and read the topics of its sources."""
        self.job: StreamingJob = load_job(boot.job, boot.options)
        work = Path(boot.work_dir)
        self.spark: SparkSession = spark_session.open_session(boot.conf, work, boot.executors_within)
        self.topics = KafkaSources(self.spark, boot.sources, Path(boot.copies), copied=bool(boot.copies))
        self.running: RunningQuery | None = None
        self._built: BuiltQuery | None = None

    def ready(self) -> Ready:
        return Ready(
            application=str(self.spark.sparkContext.applicationId),
            spark_version=self.spark.version,
            slots=spark_session.count_slots(self.spark.sparkContext),
            job=self.job.name,
            operators=self.job.topology.operators,
            topics=self.topics.contents,
        )

    def answer(self, message: Message) -> Message:
        """Carry out a request and return the reply. Errors of Spark and of the job are raised."""
        began = time.monotonic()
        match message:
            case BuildQuery():
                self._built = self._build(message)
            case StartQuery():
                return self._start(message, began)
            case StopQuery():
                self._stop()
            case ReadCheckpoint():
                return CheckpointRead(CheckpointFolder(self.spark, message.checkpoint).read())
            case RunOpenBatch():
                self._stop()
                self._run_open_batch(message)
            case Repartition():
                repartition_state(self.spark, message.checkpoint, message.partitions)
            case CopyCheckpoint():
                return CheckpointCopied(copy_checkpoint(Path(message.checkpoint), Path(message.target)))
            case PlanBatch():
                copy = Path(message.copy)
                return BatchPlanned(plan_to_same_input(Path(message.checkpoint), copy, message.batch))
            case IsWaiting():
                return WaitingState(self.running is not None and is_between_batches(self.running.query.status))
            case DescribeQuery() | CatchUp() | DropCopy() | HandOver() | LetWrite():
                return self._answer_for_running(message, began)
            case Shutdown():
                self._stop()
                self.topics.close()
                self.spark.stop()
            case _:
                raise InputError("channel", "got a reply instead of a request", seen=type(message).__name__)
        return Done(time.monotonic() - began)

    def _start(self, message: StartQuery, began: float) -> Started:
        self._stop()
        fence = self._make_fence(message)
        flow, writer = self._prepare_writer(message)
        is_fenced = attach_fence(fence, writer)
        query = writer.start()
        self.running = RunningQuery(query, writer, fence if is_fenced else None, message.checkpoint)
        once_only = find_once_only_sources(writer)
        return Started(str(query.runId), tuple(flow.generated), once_only, time.monotonic() - began)

    def _run_open_batch(self, message: RunOpenBatch) -> None:
        fence = self._make_fence(message)
        writer = self._prepare_writer(message)[1].trigger(once=True)
        attach_fence(fence, writer)
        output, number = sink_folder(writer), message.batch + message.visible.raised
        run_open_batch(
            self.spark, message.batch, lambda: writer.start().awaitTermination(), output, message.checkpoint, number
        )

    def _answer_for_running(
        self, message: DescribeQuery | CatchUp | DropCopy | HandOver | LetWrite, began: float
    ) -> Message:
        running = self.running
        if running is None:
            raise EngineError("no query is running, so no other query can take over")
        match message:
            case DescribeQuery():
                return running.describe()
            case CatchUp():
                return running.catch_up(message, self._builder_of_copy(message), began)
            case HandOver():
                self.running, reply = running.hand_over(message, self._builder_of_copy(message), began)
                return reply
            case DropCopy():
                running.drop_follower()
            case LetWrite():
                running.let_write()
        return Done(time.monotonic() - began)

    def _make_fence(self, message: StartQuery | RunOpenBatch) -> Fence:
        committed = CheckpointFolder(self.spark, message.checkpoint).newest_commit()
        return Fence(message.visible, -1 if committed is None else committed)

    def _builder_of_copy(self, message: CatchUp | HandOver) -> Callable[[Fence], DataStreamWriter]:
        """Return a function that builds the query on the copy, with a fence before its sink."""

        def build(fence: Fence) -> DataStreamWriter:
            writer = self._take_built(BuildQuery(message.parallelism, message.load_file))[2]
            make_sink_fenceable(self.spark, writer.option("checkpointLocation", message.checkpoint))
            if not attach_fence(fence, writer):
                raise EngineError(f"job {self.job.name}: its sink is not the same as at the start")
            return writer

        return build

    def _prepare_writer(self, message: StartQuery | RunOpenBatch) -> tuple[Flow, DataStreamWriter]:
        _, flow, writer = self._take_built(BuildQuery(message.parallelism, message.load_file))
        writer = sinks.redirect_output(writer, message.sink, f"{message.checkpoint}-output")
        complete_sink_log_in(self.spark, sink_folder(writer), message.checkpoint, message.visible.raised)
        if message.fence or message.visible != VisibleBatches():  # only our own sinks take the shifted batch numbers
            make_sink_fenceable(self.spark, writer)
        return flow, writer.option("checkpointLocation", message.checkpoint)

    def _take_built(self, wanted: BuildQuery) -> BuiltQuery:
        built, self._built = self._built, None
        self._set_partitions(wanted.parallelism)
        return built if built is not None and built[0] == wanted else self._build(wanted)

    def _set_partitions(self, k: Mapping[str, int]) -> None:
        """Set the number of partitions of all state. Spark needs a number even without state.

        Queries that run already keep their number.
        """
        self.spark.conf.set("spark.sql.shuffle.partitions", str(count_state_partitions(self.job.topology, k) or 1))

    def _build(self, message: BuildQuery) -> BuiltQuery:
        self._set_partitions(message.parallelism)
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
