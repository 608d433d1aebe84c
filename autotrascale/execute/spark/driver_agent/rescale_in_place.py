"""Giving a query that runs another number of partitions: rest, stop, move its state, start. Or back.

Spark has no way to end a query between two batches: `stop` breaks off whatever runs. What it has is a trigger, and the
interval of that is a field. Set to an hour while the query runs, the query comes to rest after the batch in flight
(or the one behind it) with nothing planned, and can be stopped there. Should a Spark have no such field, the moment
after a commit is taken; what is cut off then runs again, under its own number, before state is moved.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from autotrascale.domain import checks
from autotrascale.domain.errors import EngineError, InputError
from autotrascale.execute.spark.common.checkpoint_facts import (
    ForgetEntriesStep,
    MoveStateStep,
    RunOpenBatchStep,
    preparation_steps,
)
from autotrascale.execute.spark.common.error_causes import explain_error
from autotrascale.execute.spark.driver_agent.checkpoint_folder import CheckpointFolder
from autotrascale.execute.spark.driver_agent.driver_log import write_line
from autotrascale.execute.spark.driver_agent.file_sink_log import complete_sink_log_in
from autotrascale.execute.spark.driver_agent.open_batch import run_open_batch
from autotrascale.execute.spark.driver_agent.query_handle import QueryHandle
from autotrascale.execute.spark.driver_agent.query_spec import QuerySpec
from autotrascale.execute.spark.driver_agent.repartition_state import repartition_state
from autotrascale.execute.spark.driver_agent.session_settings import PROVIDER
from autotrascale.execute.spark.driver_agent.sources import is_between_batches
from autotrascale.execute.spark.protocol.agent_messages import QueryRescaled, RescaleQuery

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_HOUR_MS = 3_600_000
_POLL_SECONDS = 0.05
_IDLE_SECONDS = 0.5
_one_start_at_a_time = threading.Lock()


@dataclass(frozen=True)
class QueryState:
    """Of a query: whether it has any, the partitions of it (or of its shuffles), why it cannot be moved."""

    stateful: bool
    partitions: int
    not_movable: str


_known: WeakKeyDictionary[QueryHandle, tuple[str, QueryState]] = WeakKeyDictionary()  # with the run that it was read in


def repair_checkpoint(written: QuerySpec) -> str:
    """Before its author's own start: what an earlier driver left half done is finished. Why it cannot be moved, where
    that does not work out; Spark then makes of the checkpoint what it can."""
    try:
        prepare_checkpoint(written, written.checkpoint, 0)
    except Exception as problem:
        return f"has a checkpoint that cannot be read or mended: {describe_error(problem)}"
    return ""


def start_query(spark: SparkSession, begin: Callable[[], Any], partitions: int | None = None) -> tuple[Any, int]:
    """Spark takes the number from the session, which is everybody's: one at a time, and no longer than it takes. Java's
    handle, and the number that it has."""
    with _one_start_at_a_time:
        if partitions is None:
            return begin(), int(spark.conf.get(SHUFFLE_PARTITIONS) or 0)
        with _session_says(spark, partitions):
            return begin(), partitions


def prepare_checkpoint(written: QuerySpec, checkpoint: str, wanted: int) -> None:
    """Of a query that is stopped: its checkpoint, brought to where it can start with `wanted` partitions of state; 0
    leaves them as they are."""
    if not checkpoint:
        return
    spark = written.spark
    folder = CheckpointFolder(spark, checkpoint)
    for step in preparation_steps(folder.read, wanted, checkpoint):
        match step:
            case RunOpenBatchStep(batch):
                complete_sink_log_in(spark, written.output, checkpoint)
                run_open_batch(spark, batch, written.run_open_batch, written.output, checkpoint)
            case MoveStateStep(partitions):
                repartition_state(spark, checkpoint, partitions)
            case ForgetEntriesStep(entries):
                folder.forget(entries)
    complete_sink_log_in(spark, written.output, checkpoint)


def read_query_state(handle: QueryHandle, *, again: bool = False) -> QueryState:
    """State keeps the number that its checkpoint says, whatever the session does. Read once in a run: it may be big,
    and far away."""
    written, none = handle.written, QueryState(False, handle.partitions, handle.not_movable)
    if written is None or not handle.checkpoint:
        return none
    known = _known.get(handle)
    if known is not None and known[0] == handle.runs[-1] and not again:
        return known[1]
    folder = CheckpointFolder(written.spark, handle.checkpoint)
    found = folder.read()
    if not found.stores or not found.planned:
        return none
    provider, not_movable = folder.setting(PROVIDER), handle.not_movable
    if not not_movable and not provider.endswith("RocksDBStateStoreProvider"):
        not_movable = f"has its state in {provider.rpartition('.')[2] or 'a store of its own'}, which cannot be moved"
    state = QueryState(True, found.partitions[max(found.partitions)] or handle.partitions, not_movable)
    if not handle.moving:
        _known[handle] = handle.runs[-1], state
    return state


AlternativeRescale = Callable[[QueryHandle, QuerySpec, RescaleQuery, int], tuple[QueryRescaled | None, str]]
"""Another way, tried first: what came of it, or None where it is not for this query now; and why."""


def no_alternative(*_: object) -> tuple[None, str]:
    return None, ""


def rescale(handle: QueryHandle, wish: RescaleQuery, instead: AlternativeRescale = no_alternative) -> QueryRescaled:
    with handle.one_at_a_time:
        if handle.moving:
            raise EngineError(f"query {_called(handle)} is not moved: its program makes room for its next launch")
        state, written = read_query_state(handle, again=True), handle.written
        before = state.partitions
        if state.not_movable or written is None:
            raise EngineError(f"query {_called(handle)} cannot be moved: it {state.not_movable}")
        if not handle.isActive:
            raise EngineError(f"query {_called(handle)} has ended")
        _check_stages(written, wish)
        if wish.partitions == before == handle.partitions and {**written.stages, **wish.stages} == written.stages:
            return QueryRescaled(True, wish.partitions, handle.runs[-1], False, 0.0, 0.0)
        handle.begin_rescale()
        try:
            answer, how = instead(handle, written, wish, before)
            answer = replace(answer or _Move(handle, written, wish, before).go(), how=how)
        except BaseException as problem:
            as_wished = handle.runs_now() or handle.is_to_stop()
            down = f"query {_called(handle)} is down after a rescale that failed: {describe_error(problem)}"
            handle.arrived(None if as_wished else EngineError(down))
            raise
        handle.arrived()
        return answer


class _Move:
    def __init__(self, handle: QueryHandle, written: QuerySpec, wish: RescaleQuery, before: int) -> None:
        self._handle, self._written, self._wish, self._before = handle, written, wish, before
        self._stages_before = dict(written.stages)

    def go(self) -> QueryRescaled:
        handle, began = self._handle, time.monotonic()
        try:
            rested = come_to_rest(handle, began + self._wish.finish_within)
        except Exception:  # it may be held by now, and nobody could wake it: on with it
            rested = False
        finished = time.monotonic()
        if handle.is_to_stop() or not handle.runs_now():
            return self._answer(False, False, finished - began, 0.0, "the program ended the query meanwhile")
        handle.cutting_off = not rested
        handle._jsq.stop()
        handle.cutting_off = False
        if handle.is_to_stop() or handle.failed():
            return self._answer(False, not rested, finished - began, 0.0, "the query ended meanwhile")
        handle.stopped()
        detail = ""
        try:
            self._bring_up(self._wish.partitions, self._wish.stages)
        except Exception as problem:
            detail = describe_error(problem)
            write_line(f"query {_called(handle)} goes back to {self._before} partitions: {detail}")
            self._go_back()
        still, running = time.monotonic() - finished, read_query_state(handle, again=True).partitions
        if handle.is_to_stop():
            detail = detail or "the program ended the query meanwhile"
        elif not detail and running != self._wish.partitions:
            detail = "its first batch was planned before, with the number of then: ask again once it is done"
        return self._answer(not detail, not rested, finished - began, still, detail)

    def _bring_up(self, partitions: int, stages: Mapping[str, int], *, and_wait: bool = True) -> None:
        handle, written = self._handle, self._written
        written.give_stages(stages)
        prepare_checkpoint(written, handle.checkpoint, partitions)
        if handle.is_to_stop():
            return
        jsq, handle.partitions = start_query(written.spark, written.start_in_this_thread, partitions)
        handle.switch_run(jsq)
        if and_wait:
            self._await_first_batch()

    def _go_back(self) -> None:
        with suppress(Exception):
            self._handle._jsq.stop()
        self._bring_up(self._before, self._stages_before, and_wait=False)

    def _await_first_batch(self) -> None:
        """A query that cannot run like this fails in its first batch. Until then nobody is told."""
        handle, until, idle = self._handle, time.monotonic() + self._wish.first_within, IdleDetector()
        while time.monotonic() < until and not handle.is_to_stop():
            if not handle.runs_now():
                raise EngineError(_error(handle._jsq) or "the query ended by itself")
            if is_ready(handle, idle):
                return
            time.sleep(_POLL_SECONDS)

    def _answer(self, done: bool, cut_off: bool, finish: float, still: float, detail: str) -> QueryRescaled:
        running = read_query_state(self._handle, again=True).partitions
        return QueryRescaled(done, running, self._handle.runs[-1], cut_off, finish, still, detail)


def _check_stages(written: QuerySpec, wish: RescaleQuery) -> None:
    for name, number in wish.stages.items():
        checks.count(f"stages.{name}", number)
        if name not in written.stages:
            known = ", ".join(written.stages) or "none"
            raise InputError(
                "stages", "has no mark with a parallelism of that name", seen=name, remedy=f"take one of: {known}"
            )


class IdleDetector:
    """Whether a query has had nothing to do for a while."""

    def __init__(self) -> None:
        self._since: float | None = None

    def for_long(self, handle: QueryHandle) -> bool:
        if not is_between_batches(_status(handle._jsq)):
            self._since = None
            return False
        self._since = self._since or time.monotonic()
        return time.monotonic() - self._since >= _IDLE_SECONDS


def come_to_rest(handle: QueryHandle, until: float) -> bool:
    """False where the batch in flight does not end in time."""
    idle = IdleDetector()
    held, seen = pause_after_batch(handle._jsq), _batches(handle._jsq)
    while time.monotonic() < until and not handle.is_to_stop() and handle.runs_now():
        if idle.for_long(handle) or _waits_for_trigger(handle._jsq):
            return True
        if not held and _batches(handle._jsq) != seen:
            return True
        time.sleep(_POLL_SECONDS)
    return False


def is_ready(handle: QueryHandle, idle: IdleDetector) -> bool:
    """It has a batch behind it, or nothing to do."""
    return handle._jsq.lastProgress() is not None or idle.for_long(handle)


def pause_after_batch(jsq: Any) -> bool:
    """Its next batch is an hour away, from now on. False where this Spark is made in another way."""
    try:
        trigger = jsq.streamingQuery().triggerExecutor()
        field = trigger.getClass().getDeclaredField("intervalMs")
        field.setAccessible(True)
        field.set(trigger, _HOUR_MS)
    except Exception:  # py4j has many words for "there is no such thing"
        return False
    return True


def _waits_for_trigger(jsq: Any) -> bool:
    status = _status(jsq)
    return not status["isTriggerActive"] and status["message"] == "Waiting for next trigger"


def _status(jsq: Any) -> dict[str, Any]:
    status = jsq.status()
    return {"message": str(status.message()), "isTriggerActive": bool(status.isTriggerActive())}


def _batches(jsq: Any) -> int:
    progress = jsq.lastProgress()
    return -1 if progress is None else int(progress.batchId())


@contextmanager
def _session_says(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Its author may set another number meanwhile, which then stands."""
    conf: Any = spark._jsparkSession.sessionState().conf()
    before = spark.conf.get(SHUFFLE_PARTITIONS) if conf.contains(SHUFFLE_PARTITIONS) else None
    spark.conf.set(SHUFFLE_PARTITIONS, str(partitions))
    try:
        yield
    finally:
        if spark.conf.get(SHUFFLE_PARTITIONS) == str(partitions):
            spark.conf.unset(SHUFFLE_PARTITIONS) if before is None else spark.conf.set(SHUFFLE_PARTITIONS, before)


def _error(jsq: Any) -> str:
    error = jsq.exception()
    return explain_error(str(error.get().toString())) if error.isDefined() else ""


def describe_error(problem: BaseException) -> str:
    return str(problem) if isinstance(problem, EngineError) else explain_error(f"{type(problem).__name__}: {problem}")


def _called(handle: QueryHandle) -> str:
    return str(handle.name or handle.query_id)
