"""A query takes over from another one: made ready while that one runs, and then both cut off at one offset.

    A runs ──────────────── last batch ─┤ stopped
       └ copy ─ move ─ catch up ─ its own start of that batch, muted ─┤ written from here on
                                                   generation.json ───┘

The next batch that A writes when it is told to end is its last, and B is given the same input, to its end, as one that
it works out and drops. Whatever records come after that are B's, however sources and triggers cut them into batches.
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
from autotrascale.execute.spark.driver_agent import copy_checkpoint as checkpoints
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
"""The query of a copy, not started, with this fence before what it writes to."""

PlanCopyBatch = Callable[[Path, Path, int], int]
"""Of the first query's checkpoint, the copy, and a batch of the first: plans the batch of the copy that ends where it
does, and says its number (`copying_checkpoints.give`)."""

_POLL_SECONDS = 0.01
_NEXT_BATCH_SECONDS = 5.0  # that one may be waited for, while everything goes on
_BY_BATCHES = {
    "EventTimeWatermark": "a watermark",
    "FlatMapGroups": "functions of its own over state",
    "TransformWithState": "functions of its own over state",
}


@dataclass
class RunningQuery:
    """A query that was started. Without a fence nobody can take over from it. `before`: the one that it takes over
    from, which writes nothing more and is still to be stopped. `replay`: of its own batches in a copy, one by one."""

    query: StreamingQuery
    writer: DataStreamWriter
    fence: Fence | None
    checkpoint: str
    before: RunningQuery | None = None
    replay: BatchFollower | None = None

    def describe(self) -> QueryDescription:
        """Asked of Spark; nothing is touched."""
        committed = checkpoints.newest_entry(Path(self.checkpoint), "commits") >= 0
        by_batches, named = _by_batches(self.writer), bool(self.query.name)
        fenced = self.fence is not None
        return QueryDescription(sink_format(self.writer), fenced, by_batches, named, committed, _keys(self.query))

    def catch_up(self, message: CatchUp, build: BuildCopyQuery, began: float) -> CaughtUp:
        """By one batch, to the newest commit: B then has everything compiled and loaded that it needs."""
        original, copy = Path(self.checkpoint), Path(message.checkpoint)
        if message.since is not None:
            self.replay = self.replay or BatchFollower(original, copy, message.since, build)
            return _caught_up(self.replay, message.within, began)
        own = checkpoints.newest_entry(copy, "offsets")
        given = checkpoints.plan_to_same_input(original, copy, checkpoints.newest_entry(original, "commits"))
        if given > own:
            writer = build(Fence(VisibleBatches(given), given)).trigger(once=True)
            writer.start().awaitTermination()
        return CaughtUp(time.monotonic() - began, int(given > own))

    def leave_behind(self) -> None:
        replay, self.replay = self.replay, None
        if replay is not None:
            replay.stop()

    def hand_over(
        self,
        message: HandOver,
        build: BuildCopyQuery,
        began: float,
        plan: PlanCopyBatch = checkpoints.plan_to_same_input,
    ) -> tuple[RunningQuery, HandedOver]:
        """Where anything fails, A goes on. To stop it would take a while and changes nothing: its fence is enough."""
        if self.fence is None:
            raise EngineError("what this query writes to cannot be fenced")
        original, copy = Path(self.checkpoint), Path(message.checkpoint)
        fence = Fence(VisibleBatches(), -1, shut=True)
        writer = build(fence)  # which takes a while, and A runs
        started, meanwhile = None, self.replay.step if self.replay is not None else None
        try:
            last = self.fence.end(_NEXT_BATCH_SECONDS, meanwhile)
            until = time.monotonic() + message.within
            muted = plan(original, copy, last) if self.replay is None else self._led_to(last, until)
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
        return RunningQuery(started, writer, fence, message.checkpoint, before=self), answer

    def _led_to(self, last: int, until: float) -> int:
        """A's last batch, planned in the copy that was led through those before it: its number there."""
        assert self.replay is not None
        muted = self.replay.come_to(last, until)
        self.leave_behind()
        return muted

    def let_write(self) -> None:
        if self.fence is not None:
            self.fence.open()
        self._stop_before()

    def stop(self) -> None:
        self.leave_behind()
        self._stop_before()
        if self.fence is not None:
            self.fence.give_up()
        self.query.stop()

    def _stop_before(self) -> None:
        before, self.before = self.before, None
        if before is not None:
            before.stop()


def _caught_up(replay: BatchFollower, within: float, began: float) -> CaughtUp:
    """With all batches that A had committed at the begin, if there was time."""
    done, last = replay.done, replay.newest
    replay.follow(last, began + within)
    return CaughtUp(time.monotonic() - began, replay.done - done, replay.newest - last, replay.behind)


def _await_commit(checkpoint: Path, batch: int, query: StreamingQuery, until: float) -> None:
    while not (checkpoint / "commits" / str(batch)).exists():
        if (error := query.exception()) is not None:
            raise error
        if not query.isActive:
            raise EngineError(f"{checkpoint}: the query ended before its batch {batch} was committed")
        if time.monotonic() > until:
            raise EngineError(f"{checkpoint}: batch {batch} was not committed in time to be handed over")
        time.sleep(_POLL_SECONDS)


def _by_batches(writer: Any) -> str:
    plan = str(writer._df._jdf.queryExecution().analyzed().toString())
    return next((why for name, why in _BY_BATCHES.items() if name in plan), "")


def _keys(query: StreamingQuery) -> float | None:
    progress = query.lastProgress
    if progress is None:
        return None
    return float(sum(operator["numRowsTotal"] for operator in progress["stateOperators"]))
