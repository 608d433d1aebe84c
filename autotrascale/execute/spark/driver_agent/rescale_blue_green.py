"""Giving a query of a program another number of partitions while it runs on: a second one is made ready from a copy of
its checkpoint, in the same driver, and takes over from it at one offset.

    copy ─▶ move its state ─▶ catch up ─▶ end at a batch ─▶ give the copy its number, and the batch, muted
         ─▶ point to the copy ─▶ write

Until the name of the checkpoint points to the copy (`place.py`) the first query is whole, and whatever breaks costs
nothing but the copy; from then on the second is the job. Nothing else is to be remembered: the copy's batches have the
numbers that the first would have gone on with (`host/renumbering.py`), so that it is a checkpoint as any other, for a
sink that goes by numbers and for a script that is started without us.

What each query does, and the fence between them, is as for jobs of our own (`host/overlap.py`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.atomic_files import write_atomically
from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.common.checkpoint_facts import MoveStateStep, preparation_steps
from autotrascale.execute.spark.driver_agent import copy_checkpoint, rescale_in_place, spark_session
from autotrascale.execute.spark.driver_agent.checkpoint_folder import CheckpointFolder
from autotrascale.execute.spark.driver_agent.checkpoint_link import CheckpointLink, find_checkpoint_link
from autotrascale.execute.spark.driver_agent.driver_log import write_line
from autotrascale.execute.spark.driver_agent.fence import Fence
from autotrascale.execute.spark.driver_agent.query_handle import QueryHandle
from autotrascale.execute.spark.driver_agent.query_spec import QuerySpec
from autotrascale.execute.spark.driver_agent.repartition_state import repartition_state
from autotrascale.execute.spark.driver_agent.rewrite_batch_ids import rewrite_batch_ids
from autotrascale.execute.spark.driver_agent.running_query import RunningQuery
from autotrascale.execute.spark.protocol.agent_messages import QueryRescaled, RescaleQuery
from autotrascale.execute.spark.protocol.own_job_messages import CatchUp, HandedOver, HandOver
from autotrascale.plan.migration import rescale_mode
from autotrascale.plan.migration.rescale_mode import RescaleChoice, RescaleConditions, choose_rescale_mode

_CATCHING_UP = 3  # times at most
_SHORT = 1.5  # seconds: then another time would not shorten the hand-over
_POLL_SECONDS = 0.05
_QUIET_SECONDS = 2.0  # without a batch that is planned: there is nothing to write, or not yet
_RESTART = "spark.sql.streaming.stopActiveRunOnRestart"


def link_checkpoint(written: QuerySpec, asked: rescale_mode.RescaleMode, running: Iterable[QueryHandle]) -> None:
    """Before its first start: from then on another query can take over, where its sink and its disk allow it."""
    place = None
    with suppress(Exception):  # it is Spark's to say what is the matter with its name
        place = find_checkpoint_link(written.spark, written.checkpoint) if written.checkpoint else None
    if place is None:
        return
    if written.spark.conf.get(_RESTART, "true") == "true":
        for handle in running:  # which Spark would know by its number, if it had not been taken over from
            if not handle.over and handle.written is not None and _is_at(handle.written, place):
                handle.stop()
    if asked == "in-place" or not written.is_fenceable:
        with suppress(OSError):
            place.close()  # as an earlier start has left it
        return
    try:
        written.at(str(place.open()))
    except EngineError as problem:
        write_line(f"a query of this program is rescaled in place: {problem}")
        return
    written.place = place


def unlink_checkpoint(written: QuerySpec) -> None:
    """It does not start so."""
    if written.place is not None:
        name = str(written.place.name)
        written.close_link()
        written.place = None
        written.at(name)


def rescale(handle: QueryHandle, wish: RescaleQuery, asked: rescale_mode.RescaleMode) -> QueryRescaled:
    return rescale_in_place.rescale(handle, wish, partial(_overlapped, asked=asked))


def _is_at(written: QuerySpec, place: CheckpointLink) -> bool:
    return written.place is not None and written.place.name == place.name


def _overlapped(
    handle: QueryHandle, written: QuerySpec, wish: RescaleQuery, before: int, asked: rescale_mode.RescaleMode
) -> tuple[QueryRescaled | None, str]:
    """None where it is to be done in place, and why."""
    if asked == "in-place":
        return None, ""
    if not rescale_in_place.read_query_state(handle).stateful:
        return None, "in place: it has no state to be moved, and is only started again"
    running, found = _running(handle, written), _choice(handle, written, wish, before, asked)
    if running is None or not found.overlap:
        return None, found.why
    return _Overlap(handle, written, wish, running).go(), found.why


def _running(handle: QueryHandle, written: QuerySpec) -> RunningQuery | None:
    if written.place is None or written.fenced is None:
        return None
    return RunningQuery(_Run(handle), *written.fenced, str(written.place.live))


def _choice(
    handle: QueryHandle, written: QuerySpec, wish: RescaleQuery, before: int, asked: rescale_mode.RescaleMode
) -> RescaleChoice:
    running = _running(handle, written)
    if running is None:
        return choose_rescale_mode(
            asked, RescaleConditions(fenced=written.is_fenceable, sink=written.sink, local=False)
        )
    found = running.describe()
    return choose_rescale_mode(
        asked,
        RescaleConditions(
            fenced=found.fenced,
            sink=found.sink,
            by_batches=found.by_batches,
            committed=found.committed,
            slots=spark_session.count_slots(written.spark.sparkContext),
            needed=before + wish.partitions,
            keys=found.keys,
        ),
    )


class _Run(StreamingQuery):
    """The present run of a query. It counts as ended as soon as its author wants it to: a batch of it may wait for
    that."""

    def __init__(self, handle: QueryHandle) -> None:
        super().__init__(handle._jsq)
        self._handle = handle

    @property
    def isActive(self) -> bool:  # noqa: N802
        return super().isActive and not self._handle.is_to_stop()


class _Beside(DataStreamWriter):
    """The query of a copy. Not started by the hooks: to the program it is the one that it has."""

    def __init__(self, told: DataStreamWriter, begin: Callable[[Callable[[], Any]], Any]) -> None:
        super().__init__(told._df)
        self._jwrite, self._begin = told._jwrite, begin

    def start(self, *_: Any, **__: Any) -> StreamingQuery:
        return StreamingQuery(self._begin(self._jwrite.start))


@dataclass
class _Overlap:
    handle: QueryHandle
    written: QuerySpec
    wish: RescaleQuery
    running: RunningQuery

    def go(self) -> QueryRescaled:
        place, began, stages = self._place(), time.monotonic(), dict(self.written.stages)
        first, second = place.fresh(), place.fresh()
        try:
            self.written.give_stages(self.wish.stages)
            self._make_ready(place.live, first)
            both = time.monotonic() - began
            successor, handed = self._hand_over(first, second)
        except Exception as problem:
            self.written.give_stages(stages)
            place.remove_others()
            return self._answer(False, 0.0, f"runs on as it was: {rescale_in_place.describe_error(problem)}")
        self._take_over(successor, second)
        place.remove_others()
        still = min(self._still(successor, handed.wrote_at), time.monotonic() - began)  # it may have been quiet before
        return self._answer(True, still, "", both)

    def _make_ready(self, live: Path, copy: Path) -> None:
        copy_checkpoint.copy_checkpoint(live, copy)
        self._go_on()
        spark = self.written.spark
        for step in preparation_steps(CheckpointFolder(spark, str(copy)).read, self.wish.partitions, str(copy)):
            if not isinstance(step, MoveStateStep):
                raise EngineError(f"{copy}: was copied as of a commit, and still needs {step}")
            repartition_state(spark, str(copy), step.partitions)
        self._known_as_ours(copy)
        for _ in range(_CATCHING_UP):
            self._go_on()
            caught = self.running.catch_up(CatchUp({}, str(copy), ""), partial(self._beside, copy), time.monotonic())
            if not caught.given or caught.seconds < _SHORT:
                break

    def _hand_over(self, first: Path, second: Path) -> tuple[RunningQuery, HandedOver]:
        self._go_on()
        message = HandOver({}, str(second), "", self.wish.first_within / 2)

        def with_its_number(original: Path, copy: Path, last: int) -> int:
            rewrite_batch_ids(first, copy, last - copy_checkpoint.plan_to_same_input(original, first, last))
            self._known_as_ours(copy)
            return copy_checkpoint.plan_to_same_input(original, copy, last)

        successor, handed = self.running.hand_over(
            message, partial(self._beside, second), time.monotonic(), with_its_number
        )
        try:
            self._go_on()
            # What runs has read it. When it is started again, it is the query that it was.
            write_atomically(second / "metadata", json.dumps({"id": self.handle.query_id}))
            self._place().make_live(second)
        except BaseException:
            if successor.fence is not None:
                successor.fence.give_up()
            successor.query.stop()
            if self.running.fence is not None:
                self.running.fence.open()
            raise
        return successor, handed

    def _take_over(self, successor: RunningQuery, checkpoint: Path) -> None:
        """Whoever dies now, the next start finds the second query."""
        handle, written, fence = self.handle, self.written, successor.fence
        assert fence is not None
        fence.open()  # the rest is no reason to wait
        written.fenced = successor.writer, fence
        handle.stopped()
        handle.switch_run(successor.query._jsq)
        handle.checkpoint, handle.partitions = str(checkpoint), self.wish.partitions
        written.at(str(checkpoint))
        with suppress(Exception):  # of the first one's last batch, which was to fail
            successor.let_write()

    def _still(self, successor: RunningQuery, wrote_at: float) -> float:
        """Between two batches that were written, where there is something to write."""
        fence, began = successor.fence, time.monotonic()
        assert fence is not None
        while (waited := time.monotonic() - began) < self.wish.first_within and self.handle.runs_now():
            if fence.wrote_at:
                return max(0.0, fence.wrote_at - wrote_at) if wrote_at else 0.0
            planned = copy_checkpoint.newest_entry(Path(successor.checkpoint), "offsets")
            if self.handle.is_to_stop() or (waited > _QUIET_SECONDS and planned <= fence.visible.after):
                break
            time.sleep(_POLL_SECONDS)
        return 0.0

    def _answer(self, done: bool, still: float, detail: str, both: float = 0.0) -> QueryRescaled:
        running = rescale_in_place.read_query_state(self.handle, again=True).partitions
        return QueryRescaled(done, running, self.handle.runs[-1], False, 0.0, still, detail, overlap_seconds=both)

    def _beside(self, checkpoint: Path, fence: Fence) -> DataStreamWriter:
        written = self.written

        def begin(start: Callable[[], Any]) -> Any:
            written.apply_thread_properties()
            return rescale_in_place.start_query(written.spark, start, self.wish.partitions)[0]

        return _Beside(written.behind(fence, str(checkpoint), named=False), begin)

    def _known_as_ours(self, copy: Path) -> None:
        """Before it runs: the program may ask Spark for all queries at any time."""
        self.handle.ids.add(json.loads((copy / "metadata").read_text())["id"])

    def _go_on(self) -> None:
        if self.handle.is_to_stop() or not self.handle.runs_now():
            raise EngineError("the query has ended meanwhile")

    def _place(self) -> CheckpointLink:
        assert self.written.place is not None
        return self.written.place
