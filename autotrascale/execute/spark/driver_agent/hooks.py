"""Where a program meets Spark: its context is opened, a query is started, somebody asks for the queries there are.

These are wrapped, once, in the program's own process; whatever else it does is between it and Spark.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

from pyspark.core.context import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.execute.spark.driver_agent import rescale_blue_green, rescale_in_place
from autotrascale.execute.spark.driver_agent.driver_log import write_line
from autotrascale.execute.spark.driver_agent.fence import make_fenceable
from autotrascale.execute.spark.driver_agent.interrupts import make_stop_exception
from autotrascale.execute.spark.driver_agent.query_handle import QueryHandle, QueryHandles
from autotrascale.execute.spark.driver_agent.query_spec import QuerySpec
from autotrascale.execute.spark.driver_agent.session_settings import choose_session_settings
from autotrascale.plan.migration.rescale_mode import RescaleMode

STARTED_BEFORE_ATTACH = "was started before attach()"


class AdoptedProgram:
    """What is known of the program that runs in this process."""

    def __init__(
        self,
        event_log: str,
        *,
        apply: bool,
        executors: tuple[int, int] | None = None,
        measured: bool = False,
        life: Mapping[str, str] | None = None,
        rescale: RescaleMode = "in-place",
    ) -> None:
        """`life`: settings that it was relaunched with, over its author's."""
        self.handles = QueryHandles()
        self.leaving = threading.Event()
        self._measured, self._life = measured, dict(life or {})
        self.lines: tuple[str, ...] = ()
        self.rescale = rescale
        self._event_log, self._apply, self._bounds = event_log, apply, executors
        self._installing, self._registering = threading.Lock(), threading.RLock()
        self._installed = False

    def install(self) -> None:
        with self._installing:
            if self._installed:
                return
            self._installed = True
        _wrap_context(self)
        _wrap_builder()
        _wrap_writer(self)
        _wrap_manager(self)
        if self.rescale != "in-place":
            _wrap_foreach_batch()

    @property
    def context(self) -> SparkContext | None:
        """The program's, while it is open. It is known to PySpark before it is."""
        context = SparkContext._active_spark_context
        return context if getattr(context, "_jsc", None) is not None else None

    @property
    def session(self) -> SparkSession | None:
        """One of the program's: what is asked for here is the same in all."""
        if self.context is None:
            return None
        started = [handle.written.spark for handle in self.handles.all() if handle.written is not None]
        return started[-1] if started else SparkSession._instantiatedSession

    def set_up(self, conf: Any) -> None:
        """Of a context that is about to be opened."""

        def asked(name: str) -> str | None:
            return str(conf.get(name)) if conf.contains(name) else None

        chosen = choose_session_settings(
            asked, self._event_log, apply=self._apply, executors=self._bounds, measured=self._measured, life=self._life
        )
        for name, value in chosen.settings.items():
            conf.set(name, value)
        self.lines = chosen.lines
        for line in chosen.lines:
            write_line(line)

    def start(self, writer: DataStreamWriter, path: str | None, table: str | None) -> QueryHandle:
        """Its author's errors are Spark's to raise."""
        if self.leaving.is_set():
            raise make_stop_exception()
        begin: Callable[[], Any] = partial(_as_told, writer, path, table)
        written, not_movable = None, ""
        try:
            written = QuerySpec(writer, path, table)
        except Exception as problem:  # a Spark that keeps its writers in another way
            not_movable = f"cannot be started again: {rescale_in_place.describe_error(problem)}"
        if written is not None:
            trouble = rescale_in_place.repair_checkpoint(written)
            not_movable = written.not_movable or trouble
            begin = written.start if written.temporary else begin
        if not_movable:
            write_line(f"a query of this program cannot be moved: it {not_movable}")
        with self._registering:
            if written is not None:
                rescale_blue_green.link_checkpoint(
                    written, "in-place" if not_movable else self.rescale, self.handles.all()
                )
            jsq, partitions = self._started(writer._df.sparkSession, written, begin)
            handle = QueryHandle(jsq, written, not_movable, self.handles.has_ended)
            handle.partitions = partitions
            handle.checkpoint = str(jsq.streamingQuery().resolvedCheckpointRoot())
            if written is not None:
                written.at(handle.checkpoint)
            return self.handles.add(handle)

    @staticmethod
    def _started(session: SparkSession, written: QuerySpec | None, begin: Callable[[], Any]) -> tuple[Any, int]:
        if written is not None and written.place is not None:
            try:
                return rescale_in_place.start_query(session, written.start)
            except Exception:
                rescale_blue_green.unlink_checkpoint(written)
        return rescale_in_place.start_query(session, begin)

    def watch(self, jsq: Any) -> QueryHandle:
        """A query that was not started here."""
        with self._registering:
            known = self.handles.of(str(jsq.id().toString()))
            if known is not None and not known.over:
                return known
            return self.handles.add(QueryHandle(jsq, None, STARTED_BEFORE_ATTACH, self.handles.has_ended))


def _as_told(writer: DataStreamWriter, path: str | None, table: str | None) -> Any:
    inner: Any = writer._jwrite
    if table is not None:
        return inner.toTable(table)
    return inner.start() if path is None else inner.start(path)


def _wrap_context(adoption: AdoptedProgram) -> None:
    inner = SparkContext._initialize_context

    @wraps(inner)
    def initialize(self: SparkContext, jconf: Any) -> Any:
        adoption.set_up(jconf)
        return inner(self, jconf)

    SparkContext._initialize_context = initialize  # type: ignore[method-assign]


def _wrap_builder() -> None:
    """Only to say what cannot be done: a session of Spark Connect has none of the rest."""
    builder: Any = SparkSession.Builder
    inner = builder.getOrCreate

    @wraps(inner)
    def get_or_create(self: Any) -> SparkSession:
        session: SparkSession = inner(self)
        if type(session).__module__.startswith("pyspark.sql.connect"):
            write_line(
                "this program goes through Spark Connect, whose driver is elsewhere: nothing of it is seen or moved"
            )
        return session

    builder.getOrCreate = get_or_create


def _wrap_writer(adoption: AdoptedProgram) -> None:
    """Signatures and the order of what is told are Spark's own; only the last step differs."""

    @wraps(DataStreamWriter.start)
    def start(
        self: DataStreamWriter,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: Any,
    ) -> StreamingQuery:
        _tell(self, format, outputMode, partitionBy, queryName, options)
        return adoption.start(self, path, None)

    @wraps(DataStreamWriter.toTable)
    def to_table(
        self: DataStreamWriter,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: Any,
    ) -> StreamingQuery:
        _tell(self, format, outputMode, partitionBy, queryName, options)
        return adoption.start(self, None, tableName)

    DataStreamWriter.start = start  # type: ignore[method-assign]
    DataStreamWriter.toTable = to_table  # type: ignore[method-assign]


def _wrap_foreach_batch() -> None:
    """With room for a fence."""

    @wraps(DataStreamWriter.foreachBatch)
    def foreach_batch(self: DataStreamWriter, func: Callable[[Any, int], None]) -> DataStreamWriter:
        return make_fenceable(self, func)

    setattr(DataStreamWriter, "foreachBatch", foreach_batch)  # noqa: B010 - a method cannot be assigned


def _tell(
    writer: DataStreamWriter,
    format: str | None,
    mode: str | None,
    partition_by: str | list[str] | None,
    name: str | None,
    options: dict[str, Any],
) -> None:
    writer.options(**options)
    if mode is not None:
        writer.outputMode(mode)
    if partition_by is not None:
        writer.partitionBy(partition_by)
    if format is not None:
        writer.format(format)
    if name is not None:
        writer.queryName(name)


def _wrap_manager(adoption: AdoptedProgram) -> None:
    handles = adoption.handles

    def here(manager: StreamingQueryManager) -> Callable[[QueryHandle], bool]:
        """The queries of one session. Those that somebody else started are known from when they are first seen."""
        for jsq in manager._jsqm.active():
            adoption.watch(jsq)
        return lambda handle: bool(handle._jsq.sparkSession().streams().equals(manager._jsqm))

    def active(self: StreamingQueryManager) -> list[StreamingQuery]:
        of_this = here(self)
        return [handle for handle in handles.all() if handle.isActive and of_this(handle)]

    def get(self: StreamingQueryManager, id: str) -> StreamingQuery | None:
        found = handles.of(id)
        if found is not None and found.isActive and here(self)(found):
            return found
        jsq = self._jsqm.get(id)
        return None if jsq is None else adoption.watch(jsq)

    def await_any(self: StreamingQueryManager, timeout: int | None = None) -> bool | None:
        ended = handles.await_any_end(here(self), timeout)
        if ended is None:
            return False
        ended.outcome()
        return None if timeout is None else True

    def reset(self: StreamingQueryManager) -> None:
        handles.forget_ended(here(self))
        self._jsqm.resetTerminated()

    manager: Any = StreamingQueryManager
    manager.active = property(wraps(StreamingQueryManager.active.fget)(active))  # type: ignore[attr-defined]
    manager.get = wraps(StreamingQueryManager.get)(get)
    manager.awaitAnyTermination = wraps(StreamingQueryManager.awaitAnyTermination)(await_any)
    manager.resetTerminated = wraps(StreamingQueryManager.resetTerminated)(reset)
