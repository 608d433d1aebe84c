"""A fence between the batches of a query and its `foreachBatch`.

With a fence, of two queries that read the same input only one writes each record.

    muted    batches that another generation has written: they are computed for their state and dropped
    shut     nothing is written yet: this generation is not live
    ended    nothing is written after a certain batch: another generation continues there

A batch that may not write waits uncommitted until it may write, or until its query is given up. Then the batch fails,
so that it does not count as written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.common.checkpoint_generations import VisibleBatches
from autotrascale.execute.spark.driver_agent.sinks import sink_format

BatchWriter = Callable[[DataFrame, int], None]

_ATTRIBUTE = "_autotrascale_fenceable"
_POLL_SECONDS = 0.005
_foreach_batch = DataStreamWriter.foreachBatch


class Fence:
    """The fence of one run of a query.

    Attributes:
        visible: the batches that may be written.
        reached: newest batch that was written or is being written.
        wrote_at: Unix time of the last write.
    """

    def __init__(self, visible: VisibleBatches, reached: int, *, shut: bool = False) -> None:
        self.visible, self.reached = visible, max(reached, visible.after)
        self.wrote_at = 0.0
        self._changed = threading.Condition()
        self._is_shut, self._is_given_up = shut, False
        self._last: int | None = None

    def write(self, batch: DataFrame, number: int, do: BatchWriter) -> None:
        """Write `batch` with `do` as soon as it may be written; drop it if another generation has written it.

        Raises `EngineError` if the query is given up first.
        """
        if number <= self.visible.after:
            run_without_writing(batch)
            return
        with self._changed:
            self._changed.wait_for(lambda: self._is_given_up or self._may_write(number))
            if not self._may_write(number):
                raise EngineError(f"batch {number} was not written: another query takes over at this batch")
            self.reached = number
            self._changed.notify_all()
        do(batch, number + self.visible.raised)
        self.wrote_at = time.time()

    def mute(self, visible: VisibleBatches) -> None:
        """Set the visible batches, before the query is started."""
        self.visible, self.reached = visible, visible.after

    def end(self, within: float, meanwhile: Callable[[], object] | None = None) -> int:
        """Forbid writes after the next batch and return its number.

        A batch that has just begun leaves the most time to prepare another query.

        Args:
            within: seconds to wait for the next batch; without one, the last batch before is returned.
            meanwhile: a quick action to repeat during the wait.
        """
        before, until = self.reached, time.monotonic() + within
        while meanwhile is not None and self.reached == before and time.monotonic() < until:
            meanwhile()
            time.sleep(_POLL_SECONDS)
        with self._changed:
            self._changed.wait_for(lambda: self.reached != before, until - time.monotonic())
            self._last = self.reached
            return self.reached

    def open(self) -> None:
        """Allow all writes."""
        with self._changed:
            self._is_shut, self._last = False, None
            self._changed.notify_all()

    def give_up(self) -> None:
        """Make a waiting batch fail, because its query is about to be stopped."""
        with self._changed:
            self._is_given_up = True
            self._changed.notify_all()

    def _may_write(self, number: int) -> bool:
        return not self._is_shut and (self._last is None or number <= self._last)


def run_without_writing(batch: DataFrame) -> None:
    """Compute `batch` for its state and drop the result."""
    batch.write.format("noop").mode("overwrite").save()


class _Fenceable:
    """The function that a job gave to `foreachBatch`, with a place for a fence."""

    def __init__(self, do: BatchWriter) -> None:
        self.do = do
        self.fence: Fence | None = None

    def __call__(self, batch: DataFrame, number: int) -> None:
        if self.fence is None:
            self.do(batch, number)
        else:
            self.fence.write(batch, number, self.do)


@contextmanager
def fenceable_writers() -> Iterator[None]:
    """Make each `foreachBatch` in the block fenceable."""
    original = DataStreamWriter.foreachBatch
    setattr(DataStreamWriter, "foreachBatch", make_fenceable)  # noqa: B010 - a method cannot be assigned
    try:
        yield
    finally:
        setattr(DataStreamWriter, "foreachBatch", original)  # noqa: B010


def make_fenceable(writer: DataStreamWriter, do: BatchWriter) -> DataStreamWriter:
    """Call `foreachBatch(do)` so that a fence can be attached later."""
    fenceable = _Fenceable(do)
    setattr(writer, _ATTRIBUTE, fenceable)
    return _foreach_batch(writer, fenceable)


def find_batch_writer(writer: DataStreamWriter) -> BatchWriter | None:
    """Return the function of a fenceable `foreachBatch`, or None if the writer writes in another way."""
    fenceable = _find_fenceable(writer)
    return None if fenceable is None else fenceable.do


def attach_fence(fence: Fence, writer: DataStreamWriter) -> bool:
    """Put `fence` before the sink of `writer`. Return False if its sink is not fenceable."""
    fenceable = _find_fenceable(writer)
    if fenceable is None:
        return False
    fenceable.fence = fence
    return True


def _find_fenceable(writer: DataStreamWriter) -> _Fenceable | None:
    """Return the fenceable function of `writer`, unless a later call set another sink."""
    fenceable: _Fenceable | None = getattr(writer, _ATTRIBUTE, None)
    return fenceable if fenceable is not None and sink_format(writer) == "foreachbatch" else None
