"""A copy's query, B, led through the batches of the query that runs, A, one after the other: the same records in each,
at the same watermark and by the same clock, so that after each of them its state and its watermark are A's.

    A's offsets/x ─▶ offsets/y of the copy ─▶ B runs y, muted ─▶ commits/y      y - x is the same for all

Batches without records are A's too: a watermark that moved on closes windows in them.

Spark plans the batches of a query that runs by itself, each as far as it then finds its sources; what somebody else has
planned it takes at a start only. So B is started for the first of them, and held by a clock of ours, which stands still
between two triggers. For each of the others it is told what Spark tells itself at a start, and the clock moves on. All
of that is Spark's own and not promised to anybody: it stands in this one file.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.common.checkpoint_generations import VisibleBatches
from autotrascale.execute.spark.driver_agent import copy_checkpoint as checkpoints
from autotrascale.execute.spark.driver_agent.fence import BatchWriter, Fence

_POLL_SECONDS = 0.005
_STARTS_WITHIN = 40.0  # seconds
_HOUR = 3_600_000
_NEXT = "org$apache$spark$sql$execution$streaming$runtime$TriggerExecutor$$execCtx"


class BatchFollower:
    """`done`: the newest of A's batches that B was given. `since`: the one that the copy was made as of."""

    def __init__(self, original: Path, copy: Path, since: int, build: Callable[[Fence], DataStreamWriter]) -> None:
        self.done = since
        self._original, self._copy, self._build = original, copy, build
        self._raised = checkpoints.newest_entry(copy, "offsets") - since
        self._fence = _Drops()
        self._query: StreamingQuery | None = None
        self._clock: Any = None
        self._at = 0

    @property
    def newest(self) -> int:
        """Of A's batches that are committed."""
        return checkpoints.newest_entry(self._original, "commits")

    @property
    def behind(self) -> int:
        """How many of those B has not committed."""
        return self.newest - self.done + self._runs()

    def step(self) -> None:
        """Begins A's next batch, where there is one and B is through with the one before."""
        if self._runs() or self.done >= self.newest:
            return
        number = self._plan(self.done + 1)
        if self._query is None:
            self._start()
        else:
            self._lead(number)

    def follow(self, last: int, until: float) -> None:
        """Through A's batches to the end of this one, which is committed; or until then, by the monotonic clock."""
        while (self.done < last or self._runs()) and time.monotonic() < until:
            self.step()
            time.sleep(_POLL_SECONDS)

    def come_to(self, last: int, until: float) -> int:
        """B is stopped with this batch of A's planned in the copy, and all before it committed; A may be in it still.
        Its number there."""
        self.follow(last - 1, until)
        if self.done < last - 1 or self._runs():
            raise EngineError(f"{self._copy}: its query did not come to batch {last} in time to be handed over")
        self.stop()
        return self._plan(last) if self.done < last else last + self._raised

    def _plan(self, batch: int) -> int:
        """In the log of the copy, and its number there. B is through with the one before."""
        number = batch + self._raised
        checkpoints.plan_same_batch(self._original, self._copy, batch, number)
        self.done = batch
        return number

    def stop(self) -> None:
        query, self._query = self._query, None
        if query is not None:
            self._fence.held.set()
            query.stop()

    def _runs(self) -> bool:
        """Whether B is in a batch."""
        if self._query is None:
            return False
        if (error := self._query.exception()) is not None:
            raise error
        return not (self._copy / "commits" / str(self.done + self._raised)).exists()

    def _start(self) -> None:
        """The first batch is the one in the log. While it comes to be written the clock is put in."""
        writer = self._build(self._fence).trigger(processingTime="1 hour")
        self._query = writer.start()
        until = time.monotonic() + _STARTS_WITHIN
        while not self._fence.begun.wait(_POLL_SECONDS):
            self._runs()  # raises what it failed with
            if time.monotonic() > until:
                raise EngineError(f"{self._copy}: its query began no batch within {_STARTS_WITHIN:.0f} s")
        jvm, executor = writer._df.sparkSession._jvm, self._execution().triggerExecutor()
        assert jvm is not None
        self._clock = jvm.org.apache.spark.util.ManualClock(0)
        field = executor.getClass().getDeclaredField("clock")
        field.setAccessible(True)
        field.set(executor, self._clock)
        self._at = time.time_ns() // 1_000_000
        self._fence.held.set()

    def _lead(self, number: int) -> None:
        """As `MicroBatchExecution.populateStartOffsets` does with an open batch."""
        execution = self._execution()
        while (batch := getattr(execution.triggerExecutor(), _NEXT)()).batchId() != number:
            self._runs()  # raises what it failed with; its commit is there a moment before the next is
            time.sleep(_POLL_SECONDS)
        planned = execution.offsetLog().get(number).get()
        metadata = planned.metadataOpt().get()
        _set(batch, "endOffsets", planned.toStreamProgress(execution.sources(), execution.sourceIdMap()))
        _set(batch, "offsetSeqMetadata", metadata)
        execution.watermarkTracker().setWatermark(metadata.batchWatermarkMs())
        _set(batch, "isCurrentBatchConstructed", True)
        self._at += 2 * _HOUR
        self._clock.setTime(self._at)

    def _execution(self) -> Any:
        assert self._query is not None
        return self._query._jsq.streamingQuery()


class _Drops(Fence):
    """Nothing is written. The first batch waits until its query is held."""

    def __init__(self) -> None:
        super().__init__(VisibleBatches(after=sys.maxsize), -1)
        self.begun, self.held = threading.Event(), threading.Event()

    def write(self, batch: DataFrame, number: int, do: BatchWriter) -> None:
        self.begun.set()
        self.held.wait()
        super().write(batch, number, do)


def _set(context: Any, name: str, value: Any) -> None:
    getattr(context, f"{name}_$eq")(value)
