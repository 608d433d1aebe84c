"""Blue-green rescaling: a second query takes over while the first one runs, so the job hardly stands still.

    copy ─▶ move its state ─▶ catch up, at most three times ─▶ hand over ─▶ generation.json ─▶ write

The second query runs on a copy of the checkpoint. If results depend on where batches end, it catches up by repeating
the batches of the first query one by one, until it is close enough or will never be (`plan/migration/catch_up.py`).

Until generation.json is replaced, the first query and its checkpoint are untouched, and a failure costs only the copy.
From then on, the second query is the job (`common/checkpoint_generations.py`). `driver_agent/running_query.py` carries
out the steps.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.common.checkpoint_facts import MoveStateStep, count_state_partitions, preparation_steps
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
)
from autotrascale.plan.migration.catch_up import CatchUpRound, decide_catch_up
from autotrascale.plan.migration.rescale_mode import RescaleChoice, RescaleConditions, choose_rescale_mode

_MAX_CATCH_UPS = 3
_SHORT_SECONDS = 1.5  # after such a short catch-up, another one would not shorten the hand-over


class HandOverFailedError(Exception):
    """The second query could not take over. The first query runs on."""


class CatchUpFailedError(Exception):
    """The second query does not keep up with the first one, which runs on."""


@dataclass(frozen=True)
class BlueGreenRescaler:
    """Rescales a query by a second query that takes over."""

    rescaler: QueryRescaler

    def choose_mode(self, query: OwnQuery, k: Mapping[str, int]) -> RescaleChoice:
        """Return how to rescale `query` to parallelism `k`: strategy, reason and expected time."""
        connection, settings = self.rescaler.connection, self.rescaler.settings
        if settings.rescale == "in-place":  # saves the request to the driver
            return choose_rescale_mode(settings.rescale, RescaleConditions(fenced=False))
        description = connection.ask(DescribeQuery(), settings.patience.command)
        assert isinstance(description, QueryDescription)
        return choose_rescale_mode(
            settings.rescale,
            RescaleConditions(
                fenced=description.fenced,
                sink=description.sink,
                not_replayable=query.once_only,
                by_batches=description.by_batches,
                can_follow=True,
                named=description.named,
                local=not settings.checkpoint_dir,
                committed=description.committed,
                slots=connection.ready.slots,
                needed=max(query.parallelism.values()) + max(k.values()),
                keys=description.keys,
            ),
        )

    def rescale(self, query: OwnQuery, k: Mapping[str, int], *, one_by_one: bool = False) -> RescaleReport:
        """Rescale `query` to parallelism `k`.

        Args:
            query: the running query.
            k: wanted parallelism.
            one_by_one: catch up by repeating the batches of the first query.

        Raises:
            HandOverFailedError, CatchUpFailedError: the first query runs on as before.
            DriverLostError: the driver died.
        """
        try:
            phases = self._prepare(query, k, one_by_one)
            overlap = sum(phases.values())
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
        self.rescaler.connection.watch.follow(handed.run)
        written_at = self._await_output(handed.visible.after)
        phases["first_batch"] = time.monotonic() - began
        query.remove_copies()
        standstill = max(0.0, written_at - handed.wrote_at) if written_at and handed.wrote_at else 0.0
        return RescaleReport(phases, standstill, overlap_seconds=overlap)

    def _prepare(self, query: OwnQuery, k: Mapping[str, int], one_by_one: bool) -> dict[str, float]:
        copy, phases, began = str(query.next_checkpoint), dict[str, float](), time.monotonic()
        copied = self._ask(CopyCheckpoint(query.checkpoint, copy))
        assert isinstance(copied, CheckpointCopied)
        phases["copy"] = time.monotonic() - began
        wanted = count_state_partitions(self.rescaler.connection.topology, k)
        for step in preparation_steps(partial(self.rescaler.read, copy), wanted, copy):
            if not isinstance(step, MoveStateStep):
                raise EngineError(f"{copy}: the copy ends at a commit, but needs {step}")
            phases["repartition"] = measure_seconds(partial(self._ask, Repartition(copy, step.partitions)))
        message = CatchUp(dict(k), copy, str(query.load_file), copied.batch if one_by_one else None)
        phases["catch_up"] = self._catch_up_one_by_one(message) if one_by_one else self._catch_up(message)
        return phases

    def _catch_up(self, message: CatchUp) -> float:
        seconds = 0.0
        for _ in range(_MAX_CATCH_UPS):
            answer = self._ask_catch_up(message)
            seconds += answer.seconds
            if not answer.ran or answer.seconds < _SHORT_SECONDS:
                break
        return seconds

    def _catch_up_one_by_one(self, message: CatchUp) -> float:
        rounds, patience = list[CatchUpRound](), self.rescaler.settings.patience.first_batch
        while (step := decide_catch_up(rounds, patience)).do == "follow":
            left = patience - sum(each.seconds for each in rounds)
            answer = self._ask_catch_up(replace(message, within=left))
            rounds.append(CatchUpRound(answer.seconds, answer.ran, answer.committed, answer.behind))
        if step.do == "give up":
            raise CatchUpFailedError(step.why)
        return sum(each.seconds for each in rounds)

    def _ask_catch_up(self, message: CatchUp) -> CaughtUp:
        patience = self.rescaler.settings.patience
        answer = self.rescaler.connection.ask(message, patience.first_batch + patience.command)
        assert isinstance(answer, CaughtUp)
        return answer

    def _hand_over(self, query: OwnQuery, k: Mapping[str, int]) -> tuple[HandedOver, float]:
        patience = self.rescaler.settings.patience
        within = patience.first_batch / 2
        message = HandOver(dict(k), str(query.next_checkpoint), str(query.load_file), within)
        answer = self.rescaler.connection.ask(message, within + patience.command)
        assert isinstance(answer, HandedOver)
        return answer, answer.seconds

    def _await_output(self, after: int) -> float | None:
        """Return the Unix time of the first commit after batch `after`, or None if there is nothing to do.

        Batches up to `after` were not written, so they are not measured.
        """
        connection, idle = self.rescaler.connection, IdleWatch(self.rescaler.connection)
        until = time.monotonic() + self.rescaler.settings.patience.first_batch
        while time.monotonic() < until:
            connection.poll()
            batches = connection.watch.batches
            batches[:] = [batch for batch in batches if batch.batch > after]
            if batches:
                return batches[0].committed_ms / 1000
            if idle.has_lasted():
                return None
            time.sleep(POLL_SECONDS)
        return None

    def _ask(self, message: CopyCheckpoint | Repartition | DropCopy | LetWrite) -> Message:
        return self.rescaler.connection.ask(message, self.rescaler.settings.patience.command)
