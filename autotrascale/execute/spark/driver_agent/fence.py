"""What stands between the batches of one run of a query and its `foreachBatch`: so that of two queries that read the
same input, each record is written by one of them.

    muted    batches that another generation has written: they are worked out, for their state, and dropped
    shut     nothing is written yet: this generation is not the live one
    ended    nothing is written after a certain batch: another generation goes on from there

A batch that may not write waits, uncommitted, until it may, or until its query is given up; then it fails, so that
nobody takes it for written.
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

_OWN = "_autotrascale_fenceable"
_POLL_SECONDS = 0.005
_foreach_batch = DataStreamWriter.foreachBatch


class Fence:
    """`reached`: the newest batch that was written, or is being written."""

    def __init__(self, visible: VisibleBatches, reached: int, *, shut: bool = False) -> None:
        self.visible, self.reached = visible, max(reached, visible.after)
        self.wrote_at = 0.0  # when it was last written, in seconds of Unix time
        self._changed = threading.Condition()
        self._shut, self._given_up = shut, False
        self._last: int | None = None

    def write(self, batch: DataFrame, number: int, do: BatchWriter) -> None:
        if number <= self.visible.after:
            run_without_writing(batch)
            return
        with self._changed:
            self._changed.wait_for(lambda: self._given_up or self._may_write(number))
            if not self._may_write(number):
                raise EngineError(f"batch {number} is not written: another query goes on from here")
            self.reached = number
            self._changed.notify_all()
        do(batch, number + self.visible.raised)
        self.wrote_at = time.time()

    def mute(self, visible: VisibleBatches) -> None:
        """Before its query is started."""
        self.visible, self.reached = visible, visible.after

    def end(self, within: float, meanwhile: Callable[[], object] | None = None) -> int:
        """Nothing is written after the next batch: which one that is. Where none comes within so many seconds, after
        the last one. A batch that has just begun leaves the most time to make another query ready. `meanwhile` is done
        again and again, and must be quick."""
        before, until = self.reached, time.monotonic() + within
        while meanwhile is not None and self.reached == before and time.monotonic() < until:
            meanwhile()
            time.sleep(_POLL_SECONDS)
        with self._changed:
            self._changed.wait_for(lambda: self.reached != before, until - time.monotonic())
            self._last = self.reached
            return self.reached

    def open(self) -> None:
        """From now on everything is written."""
        with self._changed:
            self._shut, self._last = False, None
            self._changed.notify_all()

    def give_up(self) -> None:
        """What waits fails: its query is about to be stopped."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()

    def _may_write(self, number: int) -> bool:
        return not self._shut and (self._last is None or number <= self._last)


def run_without_writing(batch: DataFrame) -> None:
    """For its state, and drop what comes of it."""
    batch.write.format("noop").mode("overwrite").save()


class _Fenceable:
    """What a job gave to `foreachBatch`."""

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
    """Within, a fence can be put before what a writer is given as its `foreachBatch`, later."""
    kept = DataStreamWriter.foreachBatch
    setattr(DataStreamWriter, "foreachBatch", make_fenceable)  # noqa: B010 - a method cannot be assigned
    try:
        yield
    finally:
        setattr(DataStreamWriter, "foreachBatch", kept)  # noqa: B010


def make_fenceable(writer: DataStreamWriter, do: BatchWriter) -> DataStreamWriter:
    """As `foreachBatch`, with room for a fence."""
    held = _Fenceable(do)
    setattr(writer, _OWN, held)
    return _foreach_batch(writer, held)


def find_batch_writer(writer: DataStreamWriter) -> BatchWriter | None:
    """What a writer was given as its `foreachBatch`, if that is what it writes by, and room was left for a fence."""
    held = getattr(writer, _OWN, None)
    return held.do if held is not None and sink_format(writer) == "foreachbatch" else None


def attach_fence(fence: Fence, writer: DataStreamWriter) -> bool:
    """Whether it can stand there: what a writer writes with is what it was told last."""
    held = getattr(writer, _OWN, None)
    if held is None or sink_format(writer) != "foreachbatch":
        return False
    held.fence = fence
    return True
