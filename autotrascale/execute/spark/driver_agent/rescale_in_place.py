"""Rescale a running query in place: let it rest, stop it, move its state, start it again. Roll back if that fails.

Spark cannot end a query between two batches: `stop` breaks off the running batch. But a query has a trigger whose
interval is a field. Set to an hour while the query runs, it lets the query rest after the present batch or the next
one. Nothing is planned then, and the query can be stopped. If a Spark version has no such field, the query is stopped
right after a commit. A batch that is cut off runs again under its own number before state is moved.
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
from autotrascale.execute.spark.common.checkpoint_facts import MoveStateStep, RunOpenBatchStep, preparation_steps
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
    """State of a query.

    `partitions`: of its state, or of its shuffles if it has no state. `not_movable`: why it cannot be rescaled.
    """

    stateful: bool
    partitions: int
    not_movable: str


_known_states: WeakKeyDictionary[QueryHandle, tuple[str, QueryState]] = WeakKeyDictionary()  # with the run's id

AlternativeRescale = Callable[[QueryHandle, QuerySpec, RescaleQuery, int], tuple[QueryRescaled | None, str]]
"""Another way to rescale, tried first. Arguments: handle, spec, request, partitions before. Returns the result, or None
if this query is to be rescaled in place, and the reason."""


def repair_checkpoint(spec: QuerySpec) -> str:
    """Finish what an earlier driver left half done, before the author's own start.

    Returns why the query cannot be moved if that fails. The query starts anyway.
    """
    try:
        prepare_checkpoint(spec, spec.checkpoint, 0)
    except Exception as problem:
        return f"has a checkpoint that cannot be read or repaired: {describe_error(problem)}"
    return ""


def start_query(spark: SparkSession, start: Callable[[], Any], partitions: int | None = None) -> tuple[Any, int]:
    """Start a query with this number of shuffle partitions, and return Java's handle and the number that it has.

    Spark takes the number from the session, which all queries share. So queries start one after the other, and the
    session has the number no longer than a start takes.
    """
    with _one_start_at_a_time:
        if partitions is None:
            return start(), int(spark.conf.get(SHUFFLE_PARTITIONS) or 0)
        with _shuffle_partitions(spark, partitions):
            return start(), partitions


def prepare_checkpoint(spec: QuerySpec, checkpoint: str, wanted: int) -> None:
    """Bring the checkpoint of a stopped query to `wanted` state partitions; 0 keeps the present number."""
    if not checkpoint:
        return
    spark, folder = spec.spark, CheckpointFolder(spec.spark, checkpoint)
    for step in preparation_steps(folder.read, wanted, checkpoint):
        match step:
            case RunOpenBatchStep(batch):
                complete_sink_log_in(spark, spec.output_folder, checkpoint)
                run_open_batch(spark, batch, spec.run_open_batch, spec.output_folder, checkpoint)
            case MoveStateStep(partitions):
                repartition_state(spark, checkpoint, partitions)
    complete_sink_log_in(spark, spec.output_folder, checkpoint)


def read_query_state(handle: QueryHandle, *, refresh: bool = False) -> QueryState:
    """Return the state of a query by its checkpoint, whose number of partitions counts and not the session's.

    The checkpoint is read once per run, because it may be large and remote. `refresh` reads it again.
    """
    spec, stateless = handle.spec, QueryState(False, handle.partitions, handle.not_movable)
    if spec is None or not handle.checkpoint:
        return stateless
    known = _known_states.get(handle)
    if known is not None and known[0] == handle.runs[-1] and not refresh:
        return known[1]
    folder = CheckpointFolder(spec.spark, handle.checkpoint)
    found = folder.read()
    if not found.stores or not found.planned:
        return stateless
    provider, not_movable = folder.setting(PROVIDER), handle.not_movable
    if not not_movable and not provider.endswith("RocksDBStateStoreProvider"):
        not_movable = f"keeps its state in {provider.rpartition('.')[2] or 'an unknown store'}, which cannot be moved"
    state = QueryState(True, found.partitions[max(found.partitions)] or handle.partitions, not_movable)
    if not handle.is_rescaling:
        _known_states[handle] = handle.runs[-1], state
    return state


def rescale(handle: QueryHandle, request: RescaleQuery, alternative: AlternativeRescale) -> QueryRescaled:
    """Give a query other partitions. The alternative is tried first.

    Raises `EngineError` if the query cannot be rescaled, or is down after a rescale that failed.
    """
    with handle.one_at_a_time:
        if handle.is_rescaling:
            raise EngineError(f"query {handle.label} cannot be rescaled: its program is stopping for a relaunch")
        state, spec = read_query_state(handle, refresh=True), handle.spec
        before = state.partitions
        if state.not_movable or spec is None:
            raise EngineError(f"query {handle.label} cannot be rescaled: it {state.not_movable}")
        if not handle.isActive:
            raise EngineError(f"query {handle.label} has ended")
        _check_stages(spec, request)
        if request.partitions == before == handle.partitions and {**spec.stages, **request.stages} == spec.stages:
            return QueryRescaled(True, request.partitions, handle.runs[-1], False, 0.0, 0.0)
        handle.begin_rescale()
        try:
            result, how = alternative(handle, spec, request, before)
            result = replace(result or _RescaleInPlace(handle, spec, request, before).run(), how=how)
        except BaseException as problem:
            is_as_wanted = handle.runs_now() or handle.is_stop_requested()
            down = f"query {handle.label} is down after a rescale that failed: {describe_error(problem)}"
            handle.end_rescale(None if is_as_wanted else EngineError(down))
            raise
        handle.end_rescale()
        return result


class _RescaleInPlace:
    def __init__(self, handle: QueryHandle, spec: QuerySpec, request: RescaleQuery, before: int) -> None:
        self._handle, self._spec, self._request, self._before = handle, spec, request, before
        self._stages_before = dict(spec.stages)

    def run(self) -> QueryRescaled:
        handle, began = self._handle, time.monotonic()
        try:
            rested = come_to_rest(handle, began + self._request.finish_within)
        except Exception:  # the query may be paused already, and only a restart would wake it: go on
            rested = False
        finished = time.monotonic()
        if handle.is_stop_requested() or not handle.runs_now():
            return self._result(False, False, finished - began, 0.0, "the program ended the query meanwhile")
        handle.cutting_off = not rested
        handle._jsq.stop()
        handle.cutting_off = False
        if handle.is_stop_requested() or handle.has_failed():
            return self._result(False, not rested, finished - began, 0.0, "the query ended meanwhile")
        handle.keep_progress()
        detail = ""
        try:
            self._restart(self._request.partitions, self._request.stages)
            self._await_first_batch()
        except Exception as problem:
            detail = describe_error(problem)
            write_line(f"query {handle.label} goes back to {self._before} partitions: {detail}")
            self._roll_back()
        standstill = time.monotonic() - finished
        running = read_query_state(handle, refresh=True).partitions
        if handle.is_stop_requested():
            detail = detail or "the program ended the query meanwhile"
        elif not detail and running != self._request.partitions:
            detail = "the first batch was planned earlier, with the former partitions: ask again once it is done"
        return self._result(not detail, not rested, finished - began, standstill, detail)

    def _restart(self, partitions: int, stages: Mapping[str, int]) -> None:
        handle, spec = self._handle, self._spec
        spec.set_stage_partitions(stages)
        prepare_checkpoint(spec, handle.checkpoint, partitions)
        if handle.is_stop_requested():
            return
        jsq, handle.partitions = start_query(spec.spark, spec.start_in_this_thread, partitions)
        handle.switch_run(jsq)

    def _roll_back(self) -> None:
        with suppress(Exception):
            self._handle._jsq.stop()
        self._restart(self._before, self._stages_before)

    def _await_first_batch(self) -> None:
        """Wait until the new run is ready. A query that cannot run with the new partitions fails in its first batch."""
        handle, until, idle = self._handle, time.monotonic() + self._request.first_within, IdleDetector()
        while time.monotonic() < until and not handle.is_stop_requested():
            if not handle.runs_now():
                raise EngineError(_read_error(handle._jsq) or "the query ended by itself")
            if is_ready(handle, idle):
                return
            time.sleep(_POLL_SECONDS)

    def _result(self, done: bool, cut_off: bool, finish: float, standstill: float, detail: str) -> QueryRescaled:
        running = read_query_state(self._handle, refresh=True).partitions
        return QueryRescaled(done, running, self._handle.runs[-1], cut_off, finish, standstill, detail)


def _check_stages(spec: QuerySpec, request: RescaleQuery) -> None:
    for name, partitions in request.stages.items():
        checks.count(f"stages.{name}", partitions)
        if name not in spec.stages:
            problem, known = "names no mark that has a parallelism", ", ".join(spec.stages) or "none"
            raise InputError("stages", problem, seen=name, remedy=f"use one of: {known}")


class IdleDetector:
    """Tells whether a query has had nothing to do for half a second."""

    def __init__(self) -> None:
        self._since: float | None = None

    def is_idle(self, handle: QueryHandle) -> bool:
        if not is_between_batches(_read_status(handle._jsq)):
            self._since = None
            return False
        self._since = self._since or time.monotonic()
        return time.monotonic() - self._since >= _IDLE_SECONDS


def come_to_rest(handle: QueryHandle, until: float) -> bool:
    """Wait until the query is between two batches. Returns False if the present batch does not end by `until`.

    `until` is a time of `time.monotonic`, in seconds.
    """
    idle = IdleDetector()
    paused, batch = pause_after_batch(handle._jsq), _last_batch(handle._jsq)
    while time.monotonic() < until and not handle.is_stop_requested() and handle.runs_now():
        if idle.is_idle(handle) or _waits_for_trigger(handle._jsq):
            return True
        if not paused and _last_batch(handle._jsq) != batch:
            return True
        time.sleep(_POLL_SECONDS)
    return False


def is_ready(handle: QueryHandle, idle: IdleDetector) -> bool:
    """Return whether the present run has done a batch, or has nothing to do."""
    return handle._jsq.lastProgress() is not None or idle.is_idle(handle)


def pause_after_batch(jsq: Any) -> bool:
    """Delay the query's next batch by an hour. Returns False if this Spark version has no such field."""
    try:
        trigger = jsq.streamingQuery().triggerExecutor()
        field = trigger.getClass().getDeclaredField("intervalMs")
        field.setAccessible(True)
        field.set(trigger, _HOUR_MS)
    except Exception:  # py4j raises many kinds of errors for a missing field
        return False
    return True


def describe_error(problem: BaseException) -> str:
    """Return the error in one line."""
    return str(problem) if isinstance(problem, EngineError) else explain_error(f"{type(problem).__name__}: {problem}")


def _waits_for_trigger(jsq: Any) -> bool:
    status = _read_status(jsq)
    return not status["isTriggerActive"] and status["message"] == "Waiting for next trigger"


def _read_status(jsq: Any) -> dict[str, Any]:
    status = jsq.status()
    return {"message": str(status.message()), "isTriggerActive": bool(status.isTriggerActive())}


def _last_batch(jsq: Any) -> int:
    progress = jsq.lastProgress()
    return -1 if progress is None else int(progress.batchId())


@contextmanager
def _shuffle_partitions(spark: SparkSession, partitions: int) -> Iterator[None]:
    conf: Any = spark._jsparkSession.sessionState().conf()
    before = spark.conf.get(SHUFFLE_PARTITIONS) if conf.contains(SHUFFLE_PARTITIONS) else None
    spark.conf.set(SHUFFLE_PARTITIONS, str(partitions))
    try:
        yield
    finally:
        if spark.conf.get(SHUFFLE_PARTITIONS) == str(partitions):  # else the author has set another number meanwhile
            if before is None:
                spark.conf.unset(SHUFFLE_PARTITIONS)
            else:
                spark.conf.set(SHUFFLE_PARTITIONS, before)


def _read_error(jsq: Any) -> str:
    error = jsq.exception()
    return explain_error(str(error.get().toString())) if error.isDefined() else ""
