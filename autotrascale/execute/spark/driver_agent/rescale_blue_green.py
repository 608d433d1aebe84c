"""Rescale a query of a program while it runs on: a second query, made from a copy of its checkpoint, takes over.

    copy ─▶ move the copy's state ─▶ catch up ─▶ end the first query at a batch ─▶ number the copy like the first,
         plan that batch in it without output ─▶ point the checkpoint's name to the copy ─▶ let it write

Until the name points to the copy (`checkpoint_link.py`) the first query is whole, and a failure costs nothing but the
copy. From then on the second query is the job. The copy's batches continue the numbers of the first query
(`rewrite_batch_ids.py`). So the copy is an ordinary checkpoint, for sinks that depend on batch numbers and for a script
that is started without AuTraScale.

The fence between both queries works as in Flow jobs (`running_query.py`).
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
from autotrascale.execute.spark.driver_agent import rescale_in_place
from autotrascale.execute.spark.driver_agent.checkpoint_folder import CheckpointFolder
from autotrascale.execute.spark.driver_agent.checkpoint_link import CheckpointLink, find_checkpoint_link
from autotrascale.execute.spark.driver_agent.copy_checkpoint import copy_checkpoint, newest_entry, plan_to_same_input
from autotrascale.execute.spark.driver_agent.driver_log import write_line
from autotrascale.execute.spark.driver_agent.fence import Fence
from autotrascale.execute.spark.driver_agent.query_handle import QueryHandle
from autotrascale.execute.spark.driver_agent.query_spec import QuerySpec
from autotrascale.execute.spark.driver_agent.repartition_state import repartition_state
from autotrascale.execute.spark.driver_agent.rewrite_batch_ids import rewrite_batch_ids
from autotrascale.execute.spark.driver_agent.running_query import RunningQuery
from autotrascale.execute.spark.driver_agent.spark_session import count_slots
from autotrascale.execute.spark.protocol.agent_messages import QueryRescaled, RescaleQuery
from autotrascale.execute.spark.protocol.own_job_messages import CatchUp, HandedOver, HandOver
from autotrascale.plan.migration.rescale_mode import RescaleChoice, RescaleConditions, RescaleMode, choose_rescale_mode

_MAX_CATCH_UPS = 3
_SHORT_CATCH_UP_SECONDS = 1.5  # after a shorter one, another would not shorten the hand-over
_POLL_SECONDS = 0.05
_QUIET_SECONDS = 2.0  # without a planned batch: there is nothing to write
_STOP_ON_RESTART = "spark.sql.streaming.stopActiveRunOnRestart"


def link_checkpoint(spec: QuerySpec, mode: RescaleMode, running: Iterable[QueryHandle]) -> None:
    """Make the checkpoint's name a link before the first start, if sink and disk allow a take-over later."""
    link = None
    with suppress(Exception):  # Spark itself reports a wrong name
        link = find_checkpoint_link(spec.spark, spec.checkpoint) if spec.checkpoint else None
    if link is None:
        return
    if spec.spark.conf.get(_STOP_ON_RESTART, "true") == "true":
        # Spark stops an active run by its id, which is another id after a take-over.
        for handle in running:
            if not handle.has_ended and handle.spec is not None and _has_link(handle.spec, link):
                handle.stop()
    if mode == "in-place" or not spec.is_fenceable:
        with suppress(OSError):
            link.close()  # an earlier start may have left it open
        return
    try:
        spec.set_checkpoint(str(link.open()))
    except EngineError as problem:
        write_line(f"a query of this program is rescaled in place: {problem}")
        return
    spec.link = link


def unlink_checkpoint(spec: QuerySpec) -> None:
    """Give up the link of a query that does not start with it."""
    if spec.link is not None:
        name = str(spec.link.name)
        spec.close_link()
        spec.link = None
        spec.set_checkpoint(name)


def rescale(handle: QueryHandle, request: RescaleQuery, mode: RescaleMode) -> QueryRescaled:
    """Rescale a query, overlapped if `mode` and the query allow it, else in place."""
    return rescale_in_place.rescale(handle, request, partial(_try_overlap, mode=mode))


def _has_link(spec: QuerySpec, link: CheckpointLink) -> bool:
    return spec.link is not None and spec.link.name == link.name


def _try_overlap(
    handle: QueryHandle, spec: QuerySpec, request: RescaleQuery, before: int, mode: RescaleMode
) -> tuple[QueryRescaled | None, str]:
    """Return the result and the reason for the overlap, or None and the reason to rescale in place."""
    if mode == "in-place":
        return None, ""
    if not rescale_in_place.read_query_state(handle).stateful:
        return None, "in place: the query has no state to move and is only restarted"
    running, choice = _find_running(handle, spec), _choose(handle, spec, request, before, mode)
    if running is None or not choice.overlap:
        return None, choice.why
    return _Overlap(handle, spec, request, running).run(), choice.why


def _find_running(handle: QueryHandle, spec: QuerySpec) -> RunningQuery | None:
    if spec.link is None or spec.fenced is None:
        return None
    return RunningQuery(_PresentRun(handle), *spec.fenced, str(spec.link.live))


def _choose(
    handle: QueryHandle, spec: QuerySpec, request: RescaleQuery, before: int, mode: RescaleMode
) -> RescaleChoice:
    running = _find_running(handle, spec)
    if running is None:
        return choose_rescale_mode(mode, RescaleConditions(fenced=spec.is_fenceable, sink=spec.sink, local=False))
    found = running.describe()
    conditions = RescaleConditions(
        fenced=found.fenced,
        sink=found.sink,
        by_batches=found.by_batches,
        committed=found.committed,
        slots=count_slots(spec.spark.sparkContext),
        needed=before + request.partitions,
        keys=found.keys,
    )
    return choose_rescale_mode(mode, conditions)


class _PresentRun(StreamingQuery):
    """The present run of a query. It counts as ended once the author asks for its end: a batch may wait for that."""

    def __init__(self, handle: QueryHandle) -> None:
        super().__init__(handle._jsq)
        self._handle = handle

    @property
    def isActive(self) -> bool:  # noqa: N802
        return super().isActive and not self._handle.is_stop_requested()


class _CopyWriter(DataStreamWriter):
    """Writer of the query on the copy. The hooks must not see its start: the program has one query, not two."""

    def __init__(self, writer: DataStreamWriter, begin: Callable[[Callable[[], Any]], Any]) -> None:
        super().__init__(writer._df)
        self._jwrite, self._begin = writer._jwrite, begin

    def start(self, *_: Any, **__: Any) -> StreamingQuery:
        return StreamingQuery(self._begin(self._jwrite.start))


@dataclass
class _Overlap:
    handle: QueryHandle
    spec: QuerySpec
    request: RescaleQuery
    running: RunningQuery

    def run(self) -> QueryRescaled:
        link, began, stages = self._link(), time.monotonic(), dict(self.spec.stages)
        # A query has run on the first copy when its batches get other numbers, so they get them in a second copy.
        first_copy, second_copy = link.new_generation(), link.new_generation()
        try:
            self.spec.set_stage_partitions(self.request.stages)
            self._make_ready(link.live, first_copy)
            overlap_seconds = time.monotonic() - began
            successor, handed_over = self._hand_over(first_copy, second_copy)
        except Exception as problem:
            self.spec.set_stage_partitions(stages)
            link.remove_others()
            return self._result(False, 0.0, f"runs on as before: {rescale_in_place.describe_error(problem)}")
        self._take_over(successor, second_copy)
        link.remove_others()
        # The first query may have been quiet before the rescale began.
        standstill = min(self._measure_standstill(successor, handed_over.wrote_at), time.monotonic() - began)
        return self._result(True, standstill, "", overlap_seconds)

    def _make_ready(self, live: Path, copy: Path) -> None:
        copy_checkpoint(live, copy)
        self._check_running()
        spark = self.spec.spark
        for step in preparation_steps(CheckpointFolder(spark, str(copy)).read, self.request.partitions, str(copy)):
            if not isinstance(step, MoveStateStep):
                raise EngineError(f"{copy}: was copied at a commit, and still needs {step}")
            repartition_state(spark, str(copy), step.partitions)
        self._register_id(copy)
        for _ in range(_MAX_CATCH_UPS):
            self._check_running()
            message = CatchUp({}, str(copy), "")
            caught_up = self.running.catch_up(message, partial(self._build_writer, copy), time.monotonic())
            if not caught_up.ran or caught_up.seconds < _SHORT_CATCH_UP_SECONDS:
                break

    def _hand_over(self, first_copy: Path, second_copy: Path) -> tuple[RunningQuery, HandedOver]:
        self._check_running()
        message = HandOver({}, str(second_copy), "", self.request.first_within / 2)

        def plan_with_same_number(original: Path, copy: Path, last: int) -> int:
            rewrite_batch_ids(first_copy, copy, last - plan_to_same_input(original, first_copy, last))
            self._register_id(copy)
            return plan_to_same_input(original, copy, last)

        successor, handed_over = self.running.hand_over(
            message, partial(self._build_writer, second_copy), time.monotonic(), plan_with_same_number
        )
        try:
            self._check_running()
            # The running query has read the file; its next start finds the id that the program knows.
            write_atomically(second_copy / "metadata", json.dumps({"id": self.handle.query_id}))
            self._link().make_live(second_copy)
        except BaseException:
            if successor.fence is not None:
                successor.fence.give_up()
            successor.query.stop()
            if self.running.fence is not None:
                self.running.fence.open()
            raise
        return successor, handed_over

    def _take_over(self, successor: RunningQuery, checkpoint: Path) -> None:
        """Make the second query the program's query. After a crash from here on, the next start finds it."""
        handle, spec, fence = self.handle, self.spec, successor.fence
        assert fence is not None
        fence.open()  # first of all: nothing below is needed before output continues
        spec.fenced = successor.writer, fence
        handle.keep_progress()
        handle.switch_run(successor.query._jsq)
        handle.checkpoint, handle.partitions = str(checkpoint), self.request.partitions
        spec.set_checkpoint(str(checkpoint))
        with suppress(Exception):  # the last batch of the first query, which was meant to fail
            successor.let_write()

    def _measure_standstill(self, successor: RunningQuery, wrote_at: float) -> float:
        """Return the seconds between the last write of the first query and the first write of the second, 0 if none."""
        fence, began = successor.fence, time.monotonic()
        assert fence is not None
        while (waited := time.monotonic() - began) < self.request.first_within and self.handle.runs_now():
            if fence.wrote_at:
                return max(0.0, fence.wrote_at - wrote_at) if wrote_at else 0.0
            planned = newest_entry(Path(successor.checkpoint), "offsets")
            if self.handle.is_stop_requested() or (waited > _QUIET_SECONDS and planned <= fence.visible.after):
                break
            time.sleep(_POLL_SECONDS)
        return 0.0

    def _result(self, done: bool, standstill: float, detail: str, overlap_seconds: float = 0.0) -> QueryRescaled:
        running = rescale_in_place.read_query_state(self.handle, refresh=True).partitions
        run = self.handle.runs[-1]
        return QueryRescaled(done, running, run, False, 0.0, standstill, detail, overlap_seconds=overlap_seconds)

    def _build_writer(self, checkpoint: Path, fence: Fence) -> DataStreamWriter:
        spec = self.spec

        def begin(start: Callable[[], Any]) -> Any:
            spec.apply_thread_properties()
            return rescale_in_place.start_query(spec.spark, start, self.request.partitions)[0]

        return _CopyWriter(spec.build_fenced_writer(fence, str(checkpoint), named=False), begin)

    def _register_id(self, copy: Path) -> None:
        """Tell the handle the copy's id before the copy runs: the program may list Spark's queries at any time."""
        self.handle.ids.add(json.loads((copy / "metadata").read_text())["id"])

    def _check_running(self) -> None:
        if self.handle.is_stop_requested() or not self.handle.runs_now():
            raise EngineError("the query has ended meanwhile")

    def _link(self) -> CheckpointLink:
        assert self.spec.link is not None
        return self.spec.link
