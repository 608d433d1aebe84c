"""The agent: a thread in the program's driver that answers a controller's questions and carries out its requests.

Any process that may enter the program's folder can ask. A controller may come, leave in the middle of a request and
come back; a request that has begun is finished. The program notices none of this.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession

from autotrascale.domain import checks
from autotrascale.domain.errors import AuTraScaleError, EngineError, InputError
from autotrascale.execute.spark.clusters.executor_control import ApplicationExecutors
from autotrascale.execute.spark.clusters.registered_executors import ExecutorSet
from autotrascale.execute.spark.common.error_causes import explain_error
from autotrascale.execute.spark.driver_agent.graceful_stop import stop_for_relaunch
from autotrascale.execute.spark.driver_agent.hooks import AdoptedProgram
from autotrascale.execute.spark.driver_agent.interrupts import AGENT_THREAD
from autotrascale.execute.spark.driver_agent.query_handle import QueryHandle
from autotrascale.execute.spark.driver_agent.rescale_blue_green import rescale
from autotrascale.execute.spark.driver_agent.rescale_in_place import QueryState, read_query_state
from autotrascale.execute.spark.driver_agent.spark_session import count_slots
from autotrascale.execute.spark.protocol.agent_address import listen
from autotrascale.execute.spark.protocol.agent_messages import (
    CODEC,
    AdoptedQueries,
    AdoptedQuery,
    Answer,
    ApplicationInfo,
    AskApplication,
    AskExecutors,
    AskQueries,
    ExecutorCounts,
    Question,
    RequestFailed,
    RescaleQuery,
    SetExecutorCount,
    StopForRelaunch,
)
from autotrascale.execute.spark.protocol.channel import Channel, ChannelClosedError


class ExecutorControl(Protocol):
    """The executors of the application, as the agent needs them."""

    def explain_not_elastic(self) -> str: ...
    def read(self) -> ExecutorSet: ...
    def scale_to(self, total: int) -> object: ...


class Agent:
    """Listens on the socket in the program's folder, one thread per controller."""

    def __init__(
        self,
        program: AdoptedProgram,
        folder: Path,
        make_executors: Callable[[SparkSession], ExecutorControl] = ApplicationExecutors,
    ) -> None:
        self._program, self._folder, self._make_executors = program, folder, make_executors
        self._executors: ExecutorControl | None = None
        self._executors_of = ""  # application id: a program may close Spark and open it again
        self._one_at_a_time = threading.Lock()  # two controllers may ask at once
        self._listener = listen(folder)
        threading.Thread(target=self._listen, name=AGENT_THREAD, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def answer(self, question: Question | Answer) -> Answer:
        """Answer one question. Raises `AuTraScaleError` to refuse it."""
        match question:
            case AskApplication():
                return self._describe_application()
            case AskQueries():
                return AdoptedQueries(tuple(_describe_query(handle) for handle in self._program.handles.all()))
            case RescaleQuery():
                checks.count("partitions", question.partitions)
                return rescale(self._find_handle(question.query), question, self._program.rescale)
            case AskExecutors():
                with self._one_at_a_time:
                    return _count_executors(self._open_executors())
            case SetExecutorCount(total):
                with self._one_at_a_time:
                    executors = self._open_executors()
                    executors.scale_to(total)
                    return _count_executors(executors)
            case StopForRelaunch():
                return stop_for_relaunch(self._program, self._folder, question)
            case _:
                raise InputError("agent", "was sent an answer instead of a question", seen=type(question).__name__)

    def _describe_application(self) -> ApplicationInfo:
        context = self._program.context
        if context is None or self._program.session is None or context._jsc is None:  # not open yet, or closed
            return ApplicationInfo(os.getpid())
        conf = context.getConf()
        has_log = conf.get("spark.eventLog.enabled", "false") == "true"
        return ApplicationInfo(
            pid=os.getpid(),
            id=str(context.applicationId),
            name=str(context.appName),
            master=str(context.master),
            spark_version=str(context.version),
            event_log=str(conf.get("spark.eventLog.dir", "/tmp/spark-events")) if has_log else "",
            slots=count_slots(context),
        )

    def _find_handle(self, query_id: str) -> QueryHandle:
        handle = self._program.handles.find(query_id)
        if handle is None:
            known = ", ".join(handle.query_id for handle in self._program.handles.all()) or "none"
            raise InputError("query", "is not a query of this program", seen=query_id, remedy=f"use one of: {known}")
        return handle

    def _open_executors(self) -> ExecutorControl:
        context, session = self._program.context, self._program.session
        if context is None or session is None:
            raise EngineError("the program has not opened Spark")
        if context._jsc is None:
            raise EngineError("the program has closed Spark")
        if self._executors is None or self._executors_of != context.applicationId:
            self._executors, self._executors_of = self._make_executors(session), str(context.applicationId)
        return self._executors

    def _listen(self) -> None:
        while True:
            try:
                end, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(end,), name=AGENT_THREAD, daemon=True).start()

    def _serve(self, end: socket.socket) -> None:
        channel: Channel[Question | Answer] = Channel(end, CODEC)
        with closing(channel), suppress(ChannelClosedError):
            while True:
                try:
                    answer = self.answer(channel.receive())
                except ChannelClosedError:
                    return
                except AuTraScaleError as refusal:
                    answer = RequestFailed(str(refusal))
                except Exception as error:
                    answer = RequestFailed(explain_error(f"{type(error).__name__}: {error}"), unexpected=True)
                channel.send(answer)


def _count_executors(executors: ExecutorControl) -> ExecutorCounts:
    not_elastic, found = executors.explain_not_elastic(), executors.read()
    cores = [each.slots for each in found.executors if each.slots]
    trouble = "; ".join(filter(None, (found.explain_missing(), found.explain_not_released())))
    leaving = len(found.executors) - len(found.staying)
    return ExecutorCounts(len(found.staying), leaving, min(cores, default=0), not_elastic, trouble)


def _describe_query(handle: QueryHandle) -> AdoptedQuery:
    state = QueryState(False, handle.partitions, handle.not_movable)
    with suppress(Exception):  # a file of the checkpoint may go while it is read, or Spark is closed
        state = read_query_state(handle)
    error = name = ""
    with suppress(Exception):
        name = str(handle.name or "")
    with suppress(Exception):
        found = handle.exception()
        error = str(handle.failure or "") or (explain_error(str(found)) if found is not None else "")
    spec = handle.spec
    return AdoptedQuery(
        id=handle.query_id,
        run=handle.runs[-1],
        runs=tuple(handle.runs),
        name=name,
        checkpoint=handle.checkpoint,
        partitions=state.partitions,
        stateful=state.stateful,
        active=not handle.has_ended,
        is_rescaling=handle.is_rescaling,
        not_movable=state.not_movable,
        error=error,
        reads_all_available=spec is not None and spec.reads_all_available,
        stages={} if spec is None else dict(spec.stages),
        source_options=None if spec is None else spec.source_options,
    )
