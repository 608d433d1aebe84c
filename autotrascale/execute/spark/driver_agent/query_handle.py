"""The handle that a program holds of a query, and that goes on working when the query is stopped and started again.

Everything that is not said here is answered by the run that there is now. While a query is on its way (`moving`) it has
not ended, whatever its last run says: nobody who waits for its end is woken, and no error of it is shown.

A thread waits for the end of each query, because Spark tells no other way which end is the real one.
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
_MOST_PROGRESS = 100  # reports, as Spark keeps by itself
_LOOK_SECONDS = 0.1


class QueryHandle(StreamingQuery):
    """`written` is None for a query that somebody else started: it is watched, and never moved."""

    def __init__(
        self, jsq: Any, written: QuerySpec | None, not_movable: str, ended: Callable[[QueryHandle], None]
    ) -> None:
        super().__init__(jsq)
        self.written, self.not_movable = written, not_movable
        self.query_id, self.runs = str(super().id), [str(super().runId)]
        self.ids = {self.query_id}  # with those that Spark knows copies of it by
        self._name = super().name
        self.checkpoint, self.partitions = "", 0
        self.changed = threading.Condition()
        self.one_at_a_time = threading.RLock()  # moving it and stopping it
        self.moving = self.cutting_off = self.stop_requested = self.over = self.left = False
        self.lost: EngineError | None = None
        self._earlier: list[StreamingQueryProgress] = []
        self._ended = ended
        threading.Thread(target=self._watch, name=f"{WATCH_THREAD_PREFIX}{self.query_id}", daemon=True).start()

    # -- what its author calls

    @property
    def id(self) -> str:
        """A query that took over from another one has a number of its own, until it is started again."""
        return self.query_id

    @property
    def name(self) -> str:
        return self._name

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self.moving or (self.lost is None and super().isActive)

    @property
    def status(self) -> dict[str, Any]:
        return dict(_STARTING) if self.moving and not super().isActive else super().status

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:  # noqa: N802
        return [*self._earlier, *super().recentProgress][-_MOST_PROGRESS:]

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:  # noqa: N802
        return super().lastProgress or (self._earlier[-1] if self._earlier else None)

    def exception(self) -> StreamingQueryException | None:
        return None if self.moving else super().exception()

    def awaitTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802
        _check_timeout(timeout, or_zero=False)
        if not self.await_end(timeout):
            return False
        return self.outcome(timeout)

    def processAllAvailable(self) -> None:  # noqa: N802
        """Again where it was moved meanwhile: the run that was asked knows nothing of what the next one takes."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: not self.moving)
                run = self._jsq
            try:
                super().processAllAvailable()
            except Exception:
                if not self._goes_on(run):
                    raise
            if not self._goes_on(run):
                return

    def stop(self) -> None:
        """A rescale that is under way ends first, or gives way. Only where a batch is being cut off nobody waits: it
        may be the batch itself that asks, and the rescale sees what was asked for."""
        with self.changed:
            self.stop_requested = True
            self.changed.notify_all()
        while not self.one_at_a_time.acquire(timeout=_LOOK_SECONDS):
            if self.cutting_off:
                return
        try:
            super().stop()
            if self.written is not None:  # the program may end right after it
                self.written.close_link()
        finally:
            self.one_at_a_time.release()

    # -- what moves it

    def begin_rescale(self) -> None:
        with self.changed:
            self.moving = True

    def stopped(self) -> None:
        """By us. What was told of this run is told on."""
        with suppress(Exception):
            self._earlier = self.recentProgress

    def switch_run(self, jsq: Any) -> None:
        """In another run, which has yet to show that it is well."""
        with self.changed:
            self._jsq = jsq
            self.runs.append(str(jsq.runId().toString()))

    def arrived(self, lost: EngineError | None = None) -> None:
        with self.changed:
            self.moving, self.cutting_off, self.lost = False, False, lost
            self.changed.notify_all()

    def leave(self) -> None:
        """The program makes room for its next life: whoever waits for its end is told of that one."""
        with self.changed:
            self.left = True
            self.changed.notify_all()

    def is_to_stop(self) -> bool:
        """Its author wants it to."""
        return self.stop_requested

    def runs_now(self) -> bool:
        """Its present run, whatever is told of it."""
        return bool(self._jsq.isActive())

    # -- its end

    def await_end(self, timeout: float | None) -> bool:
        with self.changed:
            ended = self.changed.wait_for(lambda: self.over or self.left, timeout)
        if self.left:
            raise make_stop_exception()
        return ended

    def outcome(self, timeout: float | None = None) -> bool | None:
        """Of a query that has ended: as Spark says it, its error with it."""
        if self.lost is not None:
            raise self.lost
        return super().awaitTermination(None if timeout is None else max(1, int(timeout)))

    def failed(self) -> bool:
        with suppress(Exception):
            return self.lost is not None or super().exception() is not None
        return True

    def _goes_on(self, run: Any) -> bool:
        with self.changed:
            self.changed.wait_for(lambda: not self.moving)
            return self._jsq is not run

    def _watch(self) -> None:
        while True:
            run = self._jsq
            with suppress(Exception):  # its own error, or a JVM that is gone: an end in either case
                run.awaitTermination()
            with self.changed:
                self.changed.wait_for(lambda: not self.moving)
                if self._jsq is run:
                    self.over = True
                    self.changed.notify_all()
                    break
        self._ended(self)


class QueryHandles:
    """Of all queries of the program, in the order in which they were started."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._handles: list[QueryHandle] = []
        self._ended: list[QueryHandle] = []  # since somebody forgot about those before
        self._left = False

    def all(self) -> list[QueryHandle]:
        with self._changed:
            return list(self._handles)

    def add(self, handle: QueryHandle) -> QueryHandle:
        with self._changed:
            self._handles.append(handle)
        return handle

    def of(self, query_id: str) -> QueryHandle | None:
        """The newest with this id: a program may start its query again."""
        return next((handle for handle in reversed(self.all()) if query_id in handle.ids), None)

    def has_ended(self, handle: QueryHandle) -> None:
        with self._changed:
            self._ended.append(handle)
            self._changed.notify_all()
        written = handle.written
        if written is not None:
            written.close_link()
        if written is not None and written.temporary and not handle.failed():
            with suppress(Exception):
                written.delete_temporary_checkpoint()

    def await_any_end(self, here: Callable[[QueryHandle], bool], timeout: float | None = None) -> QueryHandle | None:
        """One that has ended, a failed one first; None where none does in time."""
        _check_timeout(timeout, or_zero=True)
        with self._changed:
            self._changed.wait_for(lambda: self._left or any(map(here, self._ended)), timeout)
            if self._left:
                raise make_stop_exception()
            ended = [handle for handle in self._ended if here(handle)]
        return next((handle for handle in ended if handle.failed()), ended[0] if ended else None)

    def leave(self) -> None:
        """All of them."""
        for handle in self.all():
            handle.leave()
        with self._changed:
            self._left = True
            self._changed.notify_all()

    def forget_ended(self, here: Callable[[QueryHandle], bool]) -> None:
        with self._changed:
            self._ended = [handle for handle in self._ended if not here(handle)]


def _check_timeout(timeout: float | None, *, or_zero: bool) -> None:
    """As Spark does, before anybody waits."""
    if timeout is None:
        return
    if not isinstance(timeout, int | float) or timeout < 0 or (timeout == 0 and not or_zero):
        raise PySparkValueError(
            errorClass="VALUE_NOT_POSITIVE",
            messageParameters={"arg_name": "timeout", "arg_value": type(timeout).__name__},
        )
