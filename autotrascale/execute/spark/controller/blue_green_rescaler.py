"""Rescaling without standing still: a second query is brought to the wanted parallelism on a copy of the checkpoint,
catches up while the first one runs on, and takes over from it at one offset.

    copy ─▶ move its state ─▶ catch up, twice ─▶ hand over ─▶ generation.json ─▶ write

A query whose results hang on where its batches end catches up by the first one's own batches, one after the other,
until it is near enough or never will be (`plan/migration/following.py`).

Until `generation.json` is replaced the first query and its checkpoint are untouched, and whatever breaks costs nothing
but the copy; from then on the second is the job (`generation.py`). What each step does is in `host/overlap.py`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.common import checkpoint_facts
from autotrascale.execute.spark.common.checkpoint_facts import MoveStateStep
from autotrascale.execute.spark.controller.driver_connection import QueryFailedError
from autotrascale.execute.spark.controller.own_query import OwnQuery
from autotrascale.execute.spark.controller.query_rescaler import (
    POLL_SECONDS,
    IdleWatch,
    QueryRescaler,
    RescaleReport,
    measure_seconds,
)
from autotrascale.execute.spark.protocol.own_job_messages import (
    CatchUp,
    CaughtUp,
    CheckpointCopied,
    CopyCheckpoint,
    DescribeQuery,
    DropCopy,
    HandedOver,
    HandOver,
    LetWrite,
    Message,
    QueryDescription,
    Repartition,
    count_state_partitions,
)
from autotrascale.plan.migration import catch_up
from autotrascale.plan.migration.catch_up import CatchUpRound
from autotrascale.plan.migration.rescale_mode import RescaleChoice, RescaleConditions, choose_rescale_mode

_CATCHING_UP = 3  # times at most
_SHORT = 1.5  # seconds: then another time would not shorten the hand-over


class HandOverFailedError(Exception):
    """The first query runs on."""


class CatchUpFailedError(Exception):
    """The first query runs on, and a second one does not keep up with it."""


@dataclass(frozen=True)
class BlueGreenRescaler:
    changes: QueryRescaler

    def choice(self, query: OwnQuery, k: Mapping[str, int]) -> RescaleChoice:
        connection, settings = self.changes.connection, self.changes.settings
        if settings.rescale == "in-place":  # nobody need be asked
            return choose_rescale_mode(settings.rescale, RescaleConditions(fenced=False))
        found = connection.ask(DescribeQuery(), settings.patience.command)
        assert isinstance(found, QueryDescription)
        return choose_rescale_mode(
            settings.rescale,
            RescaleConditions(
                fenced=found.fenced,
                sink=found.sink,
                not_replayable=query.not_replayable,
                by_batches=found.by_batches,
                can_follow=True,
                named=found.named,
                local=not settings.checkpoint_dir,
                committed=found.committed,
                slots=connection.ready.slots,
                needed=max(query.parallelism.values()) + max(k.values()),
                keys=found.keys,
            ),
        )

    def rescale(self, query: OwnQuery, k: Mapping[str, int], *, one_by_one: bool = False) -> RescaleReport:
        """Raises `NotHandedOverError` or `NeverNearError` where the first query runs on as before."""
        try:
            phases = self._make_ready(query, k, one_by_one)
            both = sum(phases.values())
            handed, phases["hand_over"] = self._hand_over(query, k)
        except (QueryFailedError, EngineError, CatchUpFailedError) as problem:
            if one_by_one:
                self._ask(DropCopy())
            query.remove_copies()
            if isinstance(problem, CatchUpFailedError):
                raise
            raise HandOverFailedError(str(problem)) from problem
        began = time.monotonic()
        query.hand_over(handed.visible, k)
        self._ask(LetWrite())
        self.changes.connection.watch.follow(handed.run)
        written_at = self._await_output(handed.visible.after)
        phases["first_batch"] = time.monotonic() - began
        query.remove_copies()
        stood_still = max(0.0, written_at - handed.wrote_at) if written_at and handed.wrote_at else 0.0
        return RescaleReport(phases, stood_still, overlap_seconds=both)

    def _make_ready(self, query: OwnQuery, k: Mapping[str, int], one_by_one: bool) -> dict[str, float]:
        copy, phases, began = str(query.next_checkpoint), dict[str, float](), time.monotonic()
        copied = self._ask(CopyCheckpoint(query.checkpoint, copy))
        assert isinstance(copied, CheckpointCopied)
        phases["copy"] = time.monotonic() - began
        wanted = count_state_partitions(self.changes.connection.topology, k)
        for step in checkpoint_facts.preparation_steps(partial(self.changes.read, copy), wanted, copy):
            if not isinstance(step, MoveStateStep):
                raise EngineError(f"{copy}: was copied as of a commit, and still needs {step}")
            phases["repartition"] = measure_seconds(partial(self._ask, Repartition(copy, step.partitions)))
        message = CatchUp(dict(k), copy, str(query.load_file), copied.batch if one_by_one else None)
        phases["catch_up"] = self._follow(message) if one_by_one else self._catch_up(message)
        return phases

    def _catch_up(self, message: CatchUp) -> float:
        seconds = 0.0
        for _ in range(_CATCHING_UP):
            answer = self._caught_up(message)
            seconds += answer.seconds
            if not answer.given or answer.seconds < _SHORT:
                break
        return seconds

    def _follow(self, message: CatchUp) -> float:
        rounds, patience = list[CatchUpRound](), self.changes.settings.patience.first_batch
        while (step := catch_up.decide_catch_up(rounds, patience)).do == "follow":
            left = patience - sum(one.seconds for one in rounds)
            answer = self._caught_up(replace(message, within=left))
            rounds.append(CatchUpRound(answer.seconds, answer.given, answer.came, answer.behind))
        if step.do == "give up":
            raise CatchUpFailedError(step.why)
        return sum(one.seconds for one in rounds)

    def _caught_up(self, message: CatchUp) -> CaughtUp:
        patience = self.changes.settings.patience
        answer = self.changes.connection.ask(message, patience.first_batch + patience.command)
        assert isinstance(answer, CaughtUp)
        return answer

    def _hand_over(self, query: OwnQuery, k: Mapping[str, int]) -> tuple[HandedOver, float]:
        patience = self.changes.settings.patience
        within = patience.first_batch / 2
        message = HandOver(dict(k), str(query.next_checkpoint), str(query.load_file), within)
        answer = self.changes.connection.ask(message, within + patience.command)
        assert isinstance(answer, HandedOver)
        return answer, answer.seconds

    def _await_output(self, after: int) -> float | None:
        """When the first batch behind this one was committed, in seconds of Unix time; None where there is nothing to
        do. Those before were never written, and are not measured."""
        connection, idle = self.changes.connection, IdleWatch(self.changes.connection)
        until = time.monotonic() + self.changes.settings.patience.first_batch
        while time.monotonic() < until:
            connection.poll()
            batches = connection.watch.batches
            batches[:] = [batch for batch in batches if batch.batch > after]
            if batches:
                return batches[0].committed_ms / 1000
            if idle.for_long():
                return None
            time.sleep(POLL_SECONDS)
        return None

    def _ask(self, message: CopyCheckpoint | Repartition | DropCopy | LetWrite) -> Message:
        return self.changes.connection.ask(message, self.changes.settings.patience.command)
