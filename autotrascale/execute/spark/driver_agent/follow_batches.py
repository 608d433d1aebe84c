"""Query B on a copy of a checkpoint, which runs the batches of running query A one after the other.

Each batch of B has the same records, watermark and time as the batch of A, so B has the same state and watermark after
it.

    offsets/x of A ─▶ offsets/y of the copy ─▶ B runs y, muted ─▶ commits/y      y − x is the same for all batches

Batches without records are repeated too: an advanced watermark closes windows in them.

Spark plans the batches of a running query itself, from the offsets that its sources report. It takes a batch that is
already planned only at a start. So B is started for the first batch. Then a clock of ours, which stands still between
two triggers, holds B. For each further batch, this module sets the fields that Spark sets at a start, and moves the
clock. All these fields are private in Spark; they are used in this file only.
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
from autotrascale.execute.spark.driver_agent.copy_checkpoint import newest_entry, plan_same_batch
from autotrascale.execute.spark.driver_agent.fence import BatchWriter, Fence

_POLL_SECONDS = 0.005
_START_SECONDS = 40.0
_HOUR_MS = 3_600_000
_CONTEXT = "org$apache$spark$sql$execution$streaming$runtime$TriggerExecutor$$execCtx"


class BatchFollower:
    """The follower B. `done` is the newest batch of A that was planned for B."""

    def __init__(self, original: Path, copy: Path, since: int, build: Callable[[Fence], DataStreamWriter]) -> None:
        """Prepare to follow.

        Args:
            original: checkpoint of A.
            copy: copy of it, in which B runs.
            since: batch of A that the copy was made as of.
            build: builds the query of B with a fence before its sink.
        """
        self.done = since
        self._original, self._copy, self._build = original, copy, build
        self._shift = newest_entry(copy, "offsets") - since
        self._fence = _HoldingFence()
        self._query: StreamingQuery | None = None
        self._clock: Any = None
        self._clock_ms = 0

    @property
    def newest(self) -> int:
        """Return the newest committed batch of A."""
        return newest_entry(self._original, "commits")

    @property
    def behind(self) -> int:
        """Return the number of committed batches of A that B has not committed."""
        return self.newest - self.done + self._is_in_batch()

    def step(self) -> None:
        """Begin the next committed batch of A, unless B is still in a batch."""
        if self._is_in_batch() or self.done >= self.newest:
            return
        number = self._plan(self.done + 1)
        if self._query is None:
            self._start()
        else:
            self._run_next(number)

    def follow(self, last: int, until: float) -> None:
        """Run the batches of A up to `last`, or until time `until` of the monotonic clock."""
        while (self.done < last or self._is_in_batch()) and time.monotonic() < until:
            self.step()
            time.sleep(_POLL_SECONDS)

    def come_to(self, last: int, until: float) -> int:
        """Stop B with batch `last` of A planned in the copy and all earlier batches committed.

        A may still be in batch `last`. Returns its number in the copy. Raises `EngineError` if B is not there by time
        `until` of the monotonic clock.
        """
        self.follow(last - 1, until)
        if self.done < last - 1 or self._is_in_batch():
            raise EngineError(f"{self._copy}: its query did not reach batch {last} in time for the hand-over")
        self.stop()
        return self._plan(last) if self.done < last else last + self._shift

    def _plan(self, batch: int) -> int:
        """Plan this batch of A in the copy and return its number there. B has committed all earlier batches."""
        number = batch + self._shift
        plan_same_batch(self._original, self._copy, batch, number)
        self.done = batch
        return number

    def stop(self) -> None:
        """Stop B."""
        query, self._query = self._query, None
        if query is not None:
            self._fence.may_go_on.set()
            query.stop()

    def _is_in_batch(self) -> bool:
        """Return whether B is in a batch. Raise the error that B failed with, if it did."""
        if self._query is None:
            return False
        if (error := self._query.exception()) is not None:
            raise error
        return not (self._copy / "commits" / str(self.done + self._shift)).exists()

    def _start(self) -> None:
        """Start B with the first planned batch, and replace its clock while that batch waits at the fence."""
        writer = self._build(self._fence).trigger(processingTime="1 hour")
        self._query = writer.start()
        until = time.monotonic() + _START_SECONDS
        while not self._fence.has_begun.wait(_POLL_SECONDS):
            self._is_in_batch()  # raises its error
            if time.monotonic() > until:
                raise EngineError(f"{self._copy}: its query began no batch within {_START_SECONDS:.0f} s")
        jvm, executor = writer._df.sparkSession._jvm, self._execution().triggerExecutor()
        assert jvm is not None
        self._clock = jvm.org.apache.spark.util.ManualClock(0)
        field = executor.getClass().getDeclaredField("clock")
        field.setAccessible(True)
        field.set(executor, self._clock)
        self._clock_ms = time.time_ns() // 1_000_000
        self._fence.may_go_on.set()

    def _run_next(self, number: int) -> None:
        """Set the next batch as `MicroBatchExecution.populateStartOffsets` does with an open batch, and trigger it."""
        execution = self._execution()
        while (batch := getattr(execution.triggerExecutor(), _CONTEXT)()).batchId() != number:
            self._is_in_batch()  # raises its error; the commit exists a moment before the next context
            time.sleep(_POLL_SECONDS)
        planned = execution.offsetLog().get(number).get()
        metadata = planned.metadataOpt().get()
        _set_field(batch, "endOffsets", planned.toStreamProgress(execution.sources(), execution.sourceIdMap()))
        _set_field(batch, "offsetSeqMetadata", metadata)
        execution.watermarkTracker().setWatermark(metadata.batchWatermarkMs())
        _set_field(batch, "isCurrentBatchConstructed", True)
        self._clock_ms += 2 * _HOUR_MS
        self._clock.setTime(self._clock_ms)

    def _execution(self) -> Any:
        assert self._query is not None
        return self._query._jsq.streamingQuery()


class _HoldingFence(Fence):
    """A fence that drops all batches and stops the first batch until the clock is replaced."""

    def __init__(self) -> None:
        super().__init__(VisibleBatches(after=sys.maxsize), -1)
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()

    def write(self, batch: DataFrame, number: int, do: BatchWriter) -> None:
        self.has_begun.set()
        self.may_go_on.wait()
        super().write(batch, number, do)


def _set_field(context: Any, name: str, value: Any) -> None:
    getattr(context, f"{name}_$eq")(value)
