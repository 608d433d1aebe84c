"""The handle of a query that a program holds. It keeps working when the query is stopped and started again.

Everything that is not defined here is answered by the present run. During a rescale the query has not ended,
although its last run has: threads that wait for its end keep waiting, and no error is shown.

One thread per query waits for its end, because Spark offers no other way to learn which end is final.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyspark.errors import PySparkValueError
from pyspark.errors.exceptions.base import StreamingQueryException
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.driver_agent.interrupts import WATCH_THREAD_PREFIX, make_stop_exception
from autotrascale.execute.spark.driver_agent.query_spec import QuerySpec

_STARTING = {"message": "Initializing sources", "isDataAvailable": False, "isTriggerActive": False}
_MAX_PROGRESS = 100  # reports; Spark's own default
_POLL_SECONDS = 0.1


class QueryHandle(StreamingQuery):
    """A query of the program, in all its runs.

    `spec` is None for a query that was not started through our hooks. Such a query is observed and never rescaled.
    """

    def __init__(
        self, jsq: Any, spec: QuerySpec | None, not_movable: str, on_end: Callable[[QueryHandle], None]
    ) -> None:
        super().__init__(jsq)
        self.spec, self.not_movable = spec, not_movable
        self.query_id, self.runs = str(super().id), [str(super().runId)]
        self.ids = {self.query_id}  # and the ids by which Spark knows copies of the query
        self._name = super().name
        self.checkpoint, self.partitions = "", 0
        self.changed = threading.Condition()
        self.one_at_a_time = threading.RLock()  # rescale or stop
        self.is_rescaling = self.cutting_off = self.has_ended = False
        self.failure: EngineError | None = None  # of a rescale that left the query down
        self._is_stop_requested = self._is_program_stopping = False
        self._earlier_progress: list[StreamingQueryProgress] = []
        self._on_end = on_end
        threading.Thread(target=self._watch, name=f"{WATCH_THREAD_PREFIX}{self.query_id}", daemon=True).start()

    # -- called by the program's author

    @property
    def id(self) -> str:
        """Id that the query had at first. Until its next start, Spark knows a query that took over by another id."""
        return self.query_id

    @property
    def name(self) -> str:
        return self._name

    @property
    def label(self) -> str:
        """Name for messages: the query's name, else its id."""
        return str(self.name or self.query_id)

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self.is_rescaling or (self.failure is None and super().isActive)

    @property
    def status(self) -> dict[str, Any]:
        return dict(_STARTING) if self.is_rescaling and not super().isActive else super().status

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:  # noqa: N802
        return [*self._earlier_progress, *super().recentProgress][-_MAX_PROGRESS:]

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:  # noqa: N802
        return super().lastProgress or (self._earlier_progress[-1] if self._earlier_progress else None)

    def exception(self) -> StreamingQueryException | None:
        return None if self.is_rescaling else super().exception()

    def awaitTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802
        _check_timeout(timeout, or_zero=False)
        if not self.await_end(timeout):
            return False
        return self.raise_or_return_end(timeout)

    def processAllAvailable(self) -> None:  # noqa: N802
        """Wait until all available data are processed; again, if a rescale began another run meanwhile."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: not self.is_rescaling)
                run = self._jsq
            try:
                super().processAllAvailable()
            except Exception:
                if not self._has_newer_run(run):
                    raise
            if not self._has_newer_run(run):
                return

    def stop(self) -> None:
        """Stop the query for good. A rescale that is under way ends first, or gives way.

        While a batch is being cut off, this returns at once: the caller may be that batch itself, and the rescale sees
        the request.
        """
        with self.changed:
            self._is_stop_requested = True
            self.changed.notify_all()
        while not self.one_at_a_time.acquire(timeout=_POLL_SECONDS):
            if self.cutting_off:
                return
        try:
            super().stop()
            if self.spec is not None:  # the program may end right after this
                self.spec.close_link()
        finally:
            self.one_at_a_time.release()

    # -- called by a rescale

    def begin_rescale(self) -> None:
        with self.changed:
            self.is_rescaling = True

    def keep_progress(self) -> None:
        """Keep the progress reports of a run that was stopped."""
        with suppress(Exception):
            self._earlier_progress = self.recentProgress

    def switch_run(self, jsq: Any) -> None:
        """Continue with another run, which has yet to show that it works."""
        with self.changed:
            self._jsq = jsq
            self.runs.append(str(jsq.runId().toString()))

    def end_rescale(self, failure: EngineError | None = None) -> None:
        with self.changed:
            self.is_rescaling, self.cutting_off, self.failure = False, False, failure
            self.changed.notify_all()

    def release_waiting_threads(self) -> None:
        """Raise SystemExit in threads that wait for the end of the query, because the program stops for a relaunch."""
        with self.changed:
            self._is_program_stopping = True
            self.changed.notify_all()

    def is_stop_requested(self) -> bool:
        """Return whether the author has asked the query to stop."""
        return self._is_stop_requested

    def runs_now(self) -> bool:
        """Return whether the present run is active, also during a rescale."""
        return bool(self._jsq.isActive())

    # -- end of the query

    def await_end(self, timeout: float | None) -> bool:
        with self.changed:
            ended = self.changed.wait_for(lambda: self.has_ended or self._is_program_stopping, timeout)
        if self._is_program_stopping:
            raise make_stop_exception()
        return ended

    def raise_or_return_end(self, timeout: float | None = None) -> bool | None:
        """Return or raise what Spark does for a query that has ended."""
        if self.failure is not None:
            raise self.failure
        return super().awaitTermination(None if timeout is None else max(1, int(timeout)))

    def has_failed(self) -> bool:
        with suppress(Exception):
            return self.failure is not None or super().exception() is not None
        return True

    def _has_newer_run(self, run: Any) -> bool:
        with self.changed:
            self.changed.wait_for(lambda: not self.is_rescaling)
            return self._jsq is not run

    def _watch(self) -> None:
        while True:
            run = self._jsq
            with suppress(Exception):  # an error of the query, or a JVM that is gone: an end in both cases
                run.awaitTermination()
            with self.changed:
                self.changed.wait_for(lambda: not self.is_rescaling)
                if self._jsq is run:
                    self.has_ended = True
                    self.changed.notify_all()
                    break
        self._on_end(self)


class QueryHandles:
    """Handles of all queries of the program, in the order of their starts."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._handles: list[QueryHandle] = []
        self._ended: list[QueryHandle] = []  # since the last `forget_ended`
        self._is_program_stopping = False

    def all(self) -> list[QueryHandle]:
        with self._changed:
            return list(self._handles)

    def active(self) -> list[QueryHandle]:
        return [handle for handle in self.all() if not handle.has_ended]

    def add(self, handle: QueryHandle) -> QueryHandle:
        with self._changed:
            self._handles.append(handle)
        return handle

    def find(self, query_id: str) -> QueryHandle | None:
        """Return the newest handle with this id: a program may start its query again."""
        return next((handle for handle in reversed(self.all()) if query_id in handle.ids), None)

    def record_end(self, handle: QueryHandle) -> None:
        with self._changed:
            self._ended.append(handle)
            self._changed.notify_all()
        spec = handle.spec
        if spec is None:
            return
        spec.close_link()
        if spec.temporary and not handle.has_failed():
            with suppress(Exception):
                spec.delete_temporary_checkpoint()

    def await_any_end(self, selects: Callable[[QueryHandle], bool], timeout: float | None = None) -> QueryHandle | None:
        """Return a selected query that has ended, a failed query first; None if none ends within `timeout` seconds."""
        _check_timeout(timeout, or_zero=True)
        with self._changed:
            self._changed.wait_for(lambda: self._is_program_stopping or any(map(selects, self._ended)), timeout)
            if self._is_program_stopping:
                raise make_stop_exception()
            ended = [handle for handle in self._ended if selects(handle)]
        return next((handle for handle in ended if handle.has_failed()), ended[0] if ended else None)

    def release_waiting_threads(self) -> None:
        """Raise SystemExit in all threads that wait for the end of a query."""
        for handle in self.all():
            handle.release_waiting_threads()
        with self._changed:
            self._is_program_stopping = True
            self._changed.notify_all()

    def forget_ended(self, selects: Callable[[QueryHandle], bool]) -> None:
        with self._changed:
            self._ended = [handle for handle in self._ended if not selects(handle)]


def _check_timeout(timeout: float | None, *, or_zero: bool) -> None:
    """Refuse a timeout that Spark refuses."""
    if timeout is None:
        return
    if not isinstance(timeout, int | float) or timeout < 0 or (timeout == 0 and not or_zero):
        raise PySparkValueError(
            errorClass="VALUE_NOT_POSITIVE",
            messageParameters={"arg_name": "timeout", "arg_value": type(timeout).__name__},
        )
