"""Hooks into PySpark in the program's own process: opening a context, starting a query, listing queries.

Each of these calls is wrapped once. Everything else stays between the program and Spark.
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

from autotrascale.execute.spark.common.program_environment import ProgramOptions
from autotrascale.execute.spark.driver_agent.driver_log import write_line
from autotrascale.execute.spark.driver_agent.fence import make_fenceable
from autotrascale.execute.spark.driver_agent.interrupts import make_stop_exception
from autotrascale.execute.spark.driver_agent.query_handle import QueryHandle, QueryHandles
from autotrascale.execute.spark.driver_agent.query_spec import QuerySpec
from autotrascale.execute.spark.driver_agent.rescale_blue_green import link_checkpoint, unlink_checkpoint
from autotrascale.execute.spark.driver_agent.rescale_in_place import describe_error, repair_checkpoint, start_query
from autotrascale.execute.spark.driver_agent.session_settings import choose_session_settings

STARTED_BEFORE_ATTACH = "was started before attach()"


class AdoptedProgram:
    """The program that runs in this process, as AuTraScale knows it.

    Args:
        event_log: URI of a folder for the event log, used if the author names none
        options: permissions of AuTraScale in the program
        relaunch_settings: executor sizes that the program was relaunched with; they replace the author's
    """

    def __init__(
        self, event_log: str, options: ProgramOptions, relaunch_settings: Mapping[str, str] | None = None
    ) -> None:
        self.handles = QueryHandles()
        self.is_stopping = threading.Event()  # for a relaunch
        self.rescale = options.rescale
        self._event_log, self._options, self._relaunch_settings = event_log, options, dict(relaunch_settings or {})
        self._installing, self._registering = threading.Lock(), threading.RLock()
        self._is_installed = False

    def install_hooks(self) -> None:
        """Wrap PySpark's functions. A second call does nothing."""
        with self._installing:
            if self._is_installed:
                return
            self._is_installed = True
        _wrap_context(self)
        _wrap_builder()
        _wrap_writer(self)
        _wrap_manager(self)
        if self.rescale != "in-place":
            _wrap_foreach_batch()

    @property
    def context(self) -> SparkContext | None:
        """The program's open Spark context. PySpark registers a context before it is open."""
        context = SparkContext._active_spark_context
        return context if getattr(context, "_jsc", None) is not None else None

    @property
    def session(self) -> SparkSession | None:
        """A session of the program. Everything that is asked here is the same in all sessions."""
        if self.context is None:
            return None
        started = [handle.spec.spark for handle in self.handles.all() if handle.spec is not None]
        return started[-1] if started else SparkSession._instantiatedSession

    def add_settings(self, conf: Any) -> None:
        """Add settings to a context that is about to be opened, and tell the author of them."""

        def asked(name: str) -> str | None:
            return str(conf.get(name)) if conf.contains(name) else None

        chosen = choose_session_settings(asked, self._event_log, self._options, self._relaunch_settings)
        for name, value in chosen.settings.items():
            conf.set(name, value)
        for line in chosen.lines:
            write_line(line)

    def start(self, writer: DataStreamWriter, path: str | None, table: str | None) -> QueryHandle:
        """Start a query as its author wants it. Spark raises the author's errors."""
        if self.is_stopping.is_set():
            raise make_stop_exception()
        start: Callable[[], Any] = partial(_start_as_written, writer, path, table)
        spec, not_movable = None, ""
        try:
            spec = QuerySpec(writer, path, table)
        except Exception as problem:  # a Spark version whose writers have other fields
            not_movable = f"cannot be started again: {describe_error(problem)}"
        if spec is not None:
            trouble = repair_checkpoint(spec)
            not_movable = spec.not_movable or trouble
            start = spec.start if spec.temporary else start
        if not_movable:
            write_line(f"a query of this program cannot be rescaled: it {not_movable}")
        with self._registering:
            if spec is not None:
                link_checkpoint(spec, "in-place" if not_movable else self.rescale, self.handles.all())
            jsq, partitions = self._start(writer._df.sparkSession, spec, start)
            handle = QueryHandle(jsq, spec, not_movable, self.handles.record_end)
            handle.partitions = partitions
            handle.checkpoint = str(jsq.streamingQuery().resolvedCheckpointRoot())
            if spec is not None:
                spec.set_checkpoint(handle.checkpoint)
            return self.handles.add(handle)

    @staticmethod
    def _start(session: SparkSession, spec: QuerySpec | None, start: Callable[[], Any]) -> tuple[Any, int]:
        if spec is not None and spec.link is not None:
            try:
                return start_query(session, spec.start)
            except Exception:
                unlink_checkpoint(spec)
        return start_query(session, start)

    def watch(self, jsq: Any) -> QueryHandle:
        """Return the handle of a query that was not started through the hooks."""
        with self._registering:
            known = self.handles.find(str(jsq.id().toString()))
            if known is not None and not known.has_ended:
                return known
            return self.handles.add(QueryHandle(jsq, None, STARTED_BEFORE_ATTACH, self.handles.record_end))


def _start_as_written(writer: DataStreamWriter, path: str | None, table: str | None) -> Any:
    inner: Any = writer._jwrite
    if table is not None:
        return inner.toTable(table)
    return inner.start() if path is None else inner.start(path)


def _wrap_context(program: AdoptedProgram) -> None:
    inner = SparkContext._initialize_context

    @wraps(inner)
    def initialize(self: SparkContext, jconf: Any) -> Any:
        program.add_settings(jconf)
        return inner(self, jconf)

    SparkContext._initialize_context = initialize  # type: ignore[method-assign]


def _wrap_builder() -> None:
    """Tell the author that a session of Spark Connect has none of the other hooks."""
    builder: Any = SparkSession.Builder
    inner = builder.getOrCreate

    @wraps(inner)
    def get_or_create(self: Any) -> SparkSession:
        session: SparkSession = inner(self)
        if type(session).__module__.startswith("pyspark.sql.connect"):
            write_line("this program uses Spark Connect, whose driver runs on the server: it cannot be observed")
        return session

    builder.getOrCreate = get_or_create


def _wrap_writer(program: AdoptedProgram) -> None:
    """Wrap `start` and `toTable`. Signatures and the order of options are Spark's; only the last step differs."""

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
        _set_options(self, format, outputMode, partitionBy, queryName, options)
        return program.start(self, path, None)

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
        _set_options(self, format, outputMode, partitionBy, queryName, options)
        return program.start(self, None, tableName)

    DataStreamWriter.start = start  # type: ignore[method-assign]
    DataStreamWriter.toTable = to_table  # type: ignore[method-assign]


def _wrap_foreach_batch() -> None:
    """Let a fence be put before a function that is given to `foreachBatch`."""

    @wraps(DataStreamWriter.foreachBatch)
    def foreach_batch(self: DataStreamWriter, func: Callable[[Any, int], None]) -> DataStreamWriter:
        return make_fenceable(self, func)

    setattr(DataStreamWriter, "foreachBatch", foreach_batch)  # noqa: B010 - a method cannot be assigned


def _set_options(
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


def _wrap_manager(program: AdoptedProgram) -> None:
    handles = program.handles

    def belongs_to(manager: StreamingQueryManager) -> Callable[[QueryHandle], bool]:
        """Return a test for the queries of one session. Queries that were started without us are registered first."""
        for jsq in manager._jsqm.active():
            program.watch(jsq)
        return lambda handle: bool(handle._jsq.sparkSession().streams().equals(manager._jsqm))

    def active(self: StreamingQueryManager) -> list[StreamingQuery]:
        is_here = belongs_to(self)
        return [handle for handle in handles.all() if handle.isActive and is_here(handle)]

    def get(self: StreamingQueryManager, id: str) -> StreamingQuery | None:
        found = handles.find(id)
        if found is not None and found.isActive and belongs_to(self)(found):
            return found
        jsq = self._jsqm.get(id)
        return None if jsq is None else program.watch(jsq)

    def await_any(self: StreamingQueryManager, timeout: int | None = None) -> bool | None:
        ended = handles.await_any_end(belongs_to(self), timeout)
        if ended is None:
            return False
        ended.raise_or_return_end()
        return None if timeout is None else True

    def reset(self: StreamingQueryManager) -> None:
        handles.forget_ended(belongs_to(self))
        self._jsqm.resetTerminated()

    manager: Any = StreamingQueryManager
    manager.active = property(wraps(StreamingQueryManager.active.fget)(active))  # type: ignore[attr-defined]
    manager.get = wraps(StreamingQueryManager.get)(get)
    manager.awaitAnyTermination = wraps(StreamingQueryManager.awaitAnyTermination)(await_any)
    manager.resetTerminated = wraps(StreamingQueryManager.resetTerminated)(reset)
