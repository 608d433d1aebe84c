"""Our thread in the program's driver: whoever may enter its folder can ask about the program's queries and move them.

A controller may come, go in the middle of a question and come back; what it asked for is done to its end. The program
notices none of it.
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
from autotrascale.execute.spark.clusters import executor_control, registered_executors
from autotrascale.execute.spark.common.error_causes import explain_error
from autotrascale.execute.spark.driver_agent import graceful_stop, rescale_blue_green, rescale_in_place, spark_session
from autotrascale.execute.spark.driver_agent.hooks import AdoptedProgram
from autotrascale.execute.spark.driver_agent.interrupts import AGENT_THREAD
from autotrascale.execute.spark.driver_agent.query_handle import QueryHandle
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
    """What the agent needs of the application's executors."""

    def why_not(self) -> str: ...
    def standing(self) -> registered_executors.ExecutorSet: ...
    def scale_to(self, total: int) -> object: ...


class Agent:
    def __init__(
        self,
        adoption: AdoptedProgram,
        folder: Path,
        executors: Callable[[SparkSession], ExecutorControl] = executor_control.ApplicationExecutors,
    ) -> None:
        self._adoption, self._folder, self._make_executors = adoption, folder, executors
        self._executors: ExecutorControl | None = None
        self._one_at_a_time = threading.Lock()  # two controllers may ask at once
        self._executors_of = ""  # of which application: a program may close Spark and open it again
        self._listener = listen(folder)
        threading.Thread(target=self._listen, name=AGENT_THREAD, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def answer(self, question: Question | Answer) -> Answer:
        match question:
            case AskApplication():
                return self._application()
            case AskQueries():
                return AdoptedQueries(tuple(_described(handle) for handle in self._adoption.handles.all()))
            case RescaleQuery():
                checks.count("partitions", question.partitions)
                return rescale_blue_green.rescale(self._handle(question.query), question, self._adoption.rescale)
            case AskExecutors():
                with self._one_at_a_time:
                    return _standing(self._scheduler())
            case SetExecutorCount(total):
                with self._one_at_a_time:
                    executors = self._scheduler()
                    executors.scale_to(total)
                    return _standing(executors)
            case StopForRelaunch():
                return graceful_stop.stop_for_relaunch(self._adoption, self._folder, question)
            case _:
                raise InputError("agent", "is asked what only an agent says", seen=type(question).__name__)

    def _application(self) -> ApplicationInfo:
        context = self._adoption.context
        if context is None or self._adoption.session is None or context._jsc is None:  # … or closed it
            return ApplicationInfo(os.getpid())
        conf = context.getConf()
        logs = conf.get("spark.eventLog.enabled", "false") == "true"
        return ApplicationInfo(
            pid=os.getpid(),
            id=str(context.applicationId),
            name=str(context.appName),
            master=str(context.master),
            spark_version=str(context.version),
            event_log=str(conf.get("spark.eventLog.dir", "/tmp/spark-events")) if logs else "",
            slots=spark_session.count_slots(context),
            lines=self._adoption.lines,
        )

    def _handle(self, query_id: str) -> QueryHandle:
        handle = self._adoption.handles.of(query_id)
        if handle is None:
            known = ", ".join(handle.query_id for handle in self._adoption.handles.all()) or "none"
            raise InputError("query", "is not one of this program's", seen=query_id, remedy=f"take one of: {known}")
        return handle

    def _scheduler(self) -> ExecutorControl:
        context, session = self._adoption.context, self._adoption.session
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
                except AuTraScaleError as problem:
                    answer = RequestFailed(str(problem))
                except Exception as problem:
                    answer = RequestFailed(explain_error(f"{type(problem).__name__}: {problem}"), unforeseen=True)
                channel.send(answer)


def _standing(executors: ExecutorControl) -> ExecutorCounts:
    why_not, found = executors.why_not(), executors.standing()
    cores = [each.slots for each in found.executors if each.slots]
    trouble = "; ".join(filter(None, (found.not_granted(), found.not_gone())))
    leaving = len(found.executors) - len(found.staying)
    return ExecutorCounts(len(found.staying), leaving, min(cores, default=0), why_not, trouble)


def _described(handle: QueryHandle) -> AdoptedQuery:
    state = rescale_in_place.QueryState(False, handle.partitions, handle.not_movable)
    with suppress(Exception):  # a file of it goes while it is read; or Spark is closed
        state = rescale_in_place.read_query_state(handle)
    error = ""
    with suppress(Exception):
        found = handle.exception()
        error = str(handle.lost or "") or (explain_error(str(found)) if found is not None else "")
    return AdoptedQuery(
        id=handle.query_id,
        run=handle.runs[-1],
        runs=tuple(handle.runs),
        name=_name(handle),
        checkpoint=handle.checkpoint,
        partitions=state.partitions,
        stateful=state.stateful,
        active=not handle.over,
        moving=handle.moving,
        not_movable=state.not_movable,
        error=error,
        gives_all=handle.written is not None and handle.written.gives_all,
        stages={} if handle.written is None else dict(handle.written.stages),
        source_options=None if handle.written is None else handle.written.source_options,
    )


def _name(handle: QueryHandle) -> str:
    with suppress(Exception):
        return str(handle.name or "")
    return ""
