"""A running query, and how a second query takes over from it at one offset.

    A runs ──────────────── last batch ─┤ stopped
       └ copy ─ move ─ catch up ─ B runs the same batch, muted ─┤ B writes from here on
                                             generation.json ───┘

The batch that A writes next is its last. B computes a batch with the same end of input and drops its result. All later
records belong to B, no matter how sources and triggers divide them into batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.common.checkpoint_generations import VisibleBatches
from autotrascale.execute.spark.driver_agent.copy_checkpoint import newest_entry, plan_to_same_input
from autotrascale.execute.spark.driver_agent.fence import Fence
from autotrascale.execute.spark.driver_agent.follow_batches import BatchFollower
from autotrascale.execute.spark.driver_agent.sinks import sink_format
from autotrascale.execute.spark.protocol.own_job_messages import (
    CatchUp,
    CaughtUp,
    HandedOver,
    HandOver,
    QueryDescription,
)

BuildCopyQuery = Callable[[Fence], DataStreamWriter]
"""Builds the query on the copy, not started, with a fence before its sink."""

PlanCopyBatch = Callable[[Path, Path, int], int]
"""Plans a batch in the copy: see `copy_checkpoint.plan_to_same_input`, which has the same arguments."""

_POLL_SECONDS = 0.01
_NEXT_BATCH_SECONDS = 5.0  # to wait for the next batch of A
# Nodes of a plan whose results depend on where batches end.
_BATCH_DEPENDENT_NODES = {
    "EventTimeWatermark": "a watermark",
    "FlatMapGroups": "user functions over state",
    "TransformWithState": "user functions over state",
}


@dataclass
class RunningQuery:
    """A started query.

    Attributes:
        query: the query.
        writer: the writer that started it.
        fence: fence before its sink; None if no other query can take over.
        checkpoint: its checkpoint.
        predecessor: query that it took over from, which writes no more and must still be stopped.
        follower: query on a copy that repeats its batches one by one.
    """

    query: StreamingQuery
    writer: DataStreamWriter
    fence: Fence | None
    checkpoint: str
    predecessor: RunningQuery | None = None
    follower: BatchFollower | None = None

    def describe(self) -> QueryDescription:
        """Return the properties that decide whether another query can take over."""
        return QueryDescription(
            sink=sink_format(self.writer),
            fenced=self.fence is not None,
            by_batches=_find_batch_dependence(self.writer),
            named=bool(self.query.name),
            committed=newest_entry(Path(self.checkpoint), "commits") >= 0,
            keys=_count_keys(self.query),
        )

    def catch_up(self, message: CatchUp, build: BuildCopyQuery, began: float) -> CaughtUp:
        """Run the committed batches of this query in the copy, as one batch or one by one.

        Afterwards B has compiled its code and loaded its state.
        """
        original, copy = Path(self.checkpoint), Path(message.checkpoint)
        if message.since is not None:
            self.follower = self.follower or BatchFollower(original, copy, message.since, build)
            return _follow(self.follower, message.within, began)
        newest = newest_entry(copy, "offsets")
        planned = plan_to_same_input(original, copy, newest_entry(original, "commits"))
        if planned > newest:
            writer = build(Fence(VisibleBatches(planned), planned)).trigger(once=True)
            writer.start().awaitTermination()
        return CaughtUp(time.monotonic() - began, int(planned > newest))

    def drop_follower(self) -> None:
        """Stop the query that repeats the batches one by one."""
        follower, self.follower = self.follower, None
        if follower is not None:
            follower.stop()

    def hand_over(
        self, message: HandOver, build: BuildCopyQuery, began: float, plan: PlanCopyBatch = plan_to_same_input
    ) -> tuple[RunningQuery, HandedOver]:
        """Start the query on the copy where this query ends, and return both it and the reply.

        This query (A) is not stopped yet: its fence keeps it from writing, and stopping takes a while. If anything
        fails, A goes on.

        Args:
            message: the request.
            build: builds the query on the copy.
            began: time of the monotonic clock at which the request came.
            plan: plans the muted batch in the copy.

        Raises:
            EngineError: the sink of A is not fenceable, or a batch was not committed in time.
        """
        if self.fence is None:
            raise EngineError("the sink of this query cannot be fenced")
        original, copy = Path(self.checkpoint), Path(message.checkpoint)
        fence = Fence(VisibleBatches(), -1, shut=True)
        writer = build(fence)  # takes a while; A runs meanwhile
        started, meanwhile = None, self.follower.step if self.follower is not None else None
        try:
            last = self.fence.end(_NEXT_BATCH_SECONDS, meanwhile)
            until = time.monotonic() + message.within
            muted = plan(original, copy, last) if self.follower is None else self._follow_to(last, until)
            fence.mute(visible := self.fence.visible.handed_over(last, muted))
            started = writer.start()
            _await_commit(original, last, self.query, until)
            _await_commit(copy, muted, started, until)
        except BaseException:
            fence.give_up()
            if started is not None:
                started.stop()
            self.fence.open()
            raise
        answer = HandedOver(str(started.runId), visible, self.fence.wrote_at, time.monotonic() - began)
        return RunningQuery(started, writer, fence, message.checkpoint, predecessor=self), answer

    def _follow_to(self, last: int, until: float) -> int:
        assert self.follower is not None
        muted = self.follower.come_to(last, until)
        self.drop_follower()
        return muted

    def let_write(self) -> None:
        """Allow this query to write, and stop its predecessor."""
        if self.fence is not None:
            self.fence.open()
        self._stop_predecessor()

    def stop(self) -> None:
        """Stop this query, its follower and its predecessor."""
        self.drop_follower()
        self._stop_predecessor()
        if self.fence is not None:
            self.fence.give_up()
        self.query.stop()

    def _stop_predecessor(self) -> None:
        predecessor, self.predecessor = self.predecessor, None
        if predecessor is not None:
            predecessor.stop()


def _follow(follower: BatchFollower, within: float, began: float) -> CaughtUp:
    """Repeat the batches that A has committed by now, for at most `within` seconds."""
    done, last = follower.done, follower.newest
    follower.follow(last, began + within)
    return CaughtUp(time.monotonic() - began, follower.done - done, follower.newest - last, follower.behind)


def _await_commit(checkpoint: Path, batch: int, query: StreamingQuery, until: float) -> None:
    while not (checkpoint / "commits" / str(batch)).exists():
        if (error := query.exception()) is not None:
            raise error
        if not query.isActive:
            raise EngineError(f"{checkpoint}: the query ended before its batch {batch} was committed")
        if time.monotonic() > until:
            raise EngineError(f"{checkpoint}: batch {batch} was not committed in time for the hand-over")
        time.sleep(_POLL_SECONDS)


def _find_batch_dependence(writer: Any) -> str:
    plan = str(writer._df._jdf.queryExecution().analyzed().toString())
    return next((operation for node, operation in _BATCH_DEPENDENT_NODES.items() if node in plan), "")


def _count_keys(query: StreamingQuery) -> float | None:
    progress = query.lastProgress
    if progress is None:
        return None
    return float(sum(operator["numRowsTotal"] for operator in progress["stateOperators"]))
