"""Start, stop and rescale the query of an own job over a connection to its driver.

Failures raise `QueryFailedError` or `DriverLostError`. The caller decides about the trial or the running job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.common.checkpoint_facts import (
    CheckpointFacts,
    MoveStateStep,
    RunOpenBatchStep,
    count_state_partitions,
    preparation_steps,
)
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.carry_over_open_batch import (
    can_carry_over_open_batch,
    carry_over_open_batch,
    should_cut_batch_short,
)
from autotrascale.execute.spark.controller.driver_connection import DriverConnection, DriverLostError, QueryFailedError
from autotrascale.execute.spark.controller.own_query import OwnQuery, now_ms
from autotrascale.execute.spark.protocol.own_job_messages import (
    BuildQuery,
    CheckpointRead,
    ReadCheckpoint,
    Repartition,
    RunOpenBatch,
    StopQuery,
)

POLL_SECONDS = 0.05
_IDLE_SECONDS = 1.0
_MORE_PRIMING_BATCHES = 7
_STILL_WARMING = 0.85  # a batch faster than this share of the best batch before: the session still gets faster


class NotBuiltError(QueryFailedError):
    """The query cannot be built at the wanted parallelism. The running query goes on."""


@dataclass(frozen=True)
class RescaleReport:
    """The course of a start or a rescale.

    Attributes:
        phases: seconds by phase.
        standstill_seconds: seconds without output.
        how: the way of rescaling and the reason for it.
        overlap_seconds: seconds in which the next query was prepared beside the running one.
    """

    phases: Mapping[str, float] = field(default_factory=dict)
    standstill_seconds: float = 0.0
    how: str = ""
    overlap_seconds: float = 0.0


@dataclass(frozen=True)
class QueryRescaler:
    """Starts, stops and rescales a query in place."""

    connection: DriverConnection
    settings: SparkSettings

    def begin(self, query: OwnQuery) -> RescaleReport:
        """Start a query with empty state, prime it, and begin the load as soon as it is warm."""
        phases = self.start(query)
        standstill = sum(phases.values())
        phases["prime"] = self._prime(query)
        query.begin_load()
        return RescaleReport(phases, standstill)

    def start(self, query: OwnQuery) -> dict[str, float]:
        """Start a query from its checkpoint, if there is one. Return the seconds by phase.

        Waits until the first batch is committed, or until there is nothing to commit.
        """
        phases = self.prepare(query)
        place = query.checkpoint, str(query.load_file), query.generation.visible
        started = self.connection.start_query(query.parallelism, *place)
        query.running, query.generated, query.once_only = True, started.generated, started.once_only
        phases |= {"start": started.seconds, "first_batch": self._await_batches(1, or_idle=True)}
        if query.generation.number:
            query.remove_copies()
        return phases

    def prepare(self, query: OwnQuery) -> dict[str, float]:
        """Bring the checkpoint of a stopped query to `query.parallelism`. Return the seconds by phase.

        Finishes steps that an earlier process began. May break off anywhere and be repeated. In a later generation the
        open batch need not run first, because AuTraScale gives the sink its batch numbers.
        """
        phases = self._carry_over(query, query.parallelism) if query.generation.number else {}
        read = partial(self.read, query.checkpoint)
        for step in preparation_steps(read, self._count_partitions(query.parallelism), query.checkpoint):
            began = time.monotonic()
            match step:
                case RunOpenBatchStep(batch):
                    phase = "open_batch"
                    place = query.checkpoint, str(query.load_file), self.settings.sink, query.generation.visible
                    run = RunOpenBatch(batch, dict(query.parallelism), *place, self.settings.may_overlap)
                    self.connection.ask(run, self.settings.patience.first_batch)
                case MoveStateStep(partitions):
                    phase = "repartition"
                    self.repartition(query, partitions)
            phases[phase] = phases.get(phase, 0.0) + time.monotonic() - began
        return phases

    def rescale(self, query: OwnQuery, k: Mapping[str, int], rates: Mapping[str, float]) -> RescaleReport:
        """Stop the query between two batches, move its state, and start it at parallelism `k`.

        The load goes on meanwhile, so the query has to catch up. After the loss of a driver there is nothing to stop,
        and the last batch runs again.
        """
        self.check_replayable(query)
        phases: dict[str, float] = {}
        if query.running:
            phases |= self._stop_in_order(query, k)
        else:
            self.stop(query)
        query.parallelism = dict(k)
        query.release_load()
        query.change_rates(rates)
        phases |= self.start(query)
        return RescaleReport(phases, self._measure_standstill(query, phases))

    def check_replayable(self, query: OwnQuery) -> None:
        """Raise `InputError` if a source of the query delivers each record only once."""
        if query.once_only:
            name, formats = self.connection.ready.job, " and ".join(query.once_only)
            raise InputError(
                f"job {name}",
                f"reads from {formats}, which delivers each record only once: a rescale would lose records",
                remedy="read from files, Kafka or another source that can deliver records again",
            )

    def repartition(self, query: OwnQuery, partitions: int) -> None:
        """Move the state of a stopped query whose last batch is committed."""
        self.connection.ask(Repartition(query.checkpoint, partitions), self.settings.patience.command)

    def come_to_rest(self, query: OwnQuery, then: Mapping[str, int] | None = None) -> float:
        """Hold the load and wait for the batch in flight. Return the seconds waited.

        A batch that does not finish within `patience.finish_batch` is cut off by the stop and runs again.

        Args:
            query: the running query.
            then: do not wait for a batch that would finish sooner after a restart at this parallelism.
        """
        began, batches = time.monotonic(), self.connection.watch.batches
        until = began + self.settings.patience.finish_batch
        query.hold_load()
        done, idle = len(batches), IdleWatch(self.connection)
        while (left := until - time.monotonic()) > 0:
            self.connection.poll()
            if query.generated and batches:
                is_at_rest = query.has_come_to_rest(batches[-1])
            elif query.generated:
                is_at_rest = idle.has_lasted()
            else:  # other sources cannot be held: stop right after a commit
                is_at_rest = len(batches) > done or self.connection.is_waiting()
            if is_at_rest or (then is not None and should_cut_batch_short(self.connection.watch, then, left)):
                break
            time.sleep(POLL_SECONDS)
        query.last_commit_ms = self.connection.last_commit_ms()
        return time.monotonic() - began

    def stop(self, query: OwnQuery) -> None:
        """Stop the query at once."""
        self.connection.ask(StopQuery(), self.settings.patience.command)
        query.running = False

    def read(self, checkpoint: str) -> CheckpointFacts:
        """Return the contents of a checkpoint."""
        answer = self.connection.ask(ReadCheckpoint(checkpoint), self.settings.patience.command)
        assert isinstance(answer, CheckpointRead)
        return answer.facts

    def _stop_in_order(self, query: OwnQuery, k: Mapping[str, int]) -> dict[str, float]:
        """Build the next query, wait for the batch in flight if that is worth it, and stop."""
        self._build(query, k)
        keeps_partitions = self._count_partitions(k) == self._count_partitions(query.parallelism)
        can_carry_over = not keeps_partitions and can_carry_over_open_batch(self.connection, self.settings)
        # A batch that is cut short runs again at `k` only if state stays as it is or the batch is carried over.
        phases = {"finish": self.come_to_rest(query, k if keeps_partitions or can_carry_over else None)}
        phases["stop"] = measure_seconds(lambda: self.stop(query))
        return phases | (self._carry_over(query, k) if can_carry_over else {})

    def _carry_over(self, query: OwnQuery, k: Mapping[str, int]) -> dict[str, float]:
        began = time.monotonic()
        wanted = self._count_partitions(k)
        is_done = carry_over_open_batch(self.connection, self.settings, self.read, query, k, wanted)
        return {"carry_over": time.monotonic() - began} if is_done else {}

    def _build(self, query: OwnQuery, k: Mapping[str, int]) -> None:
        try:
            self.connection.ask(BuildQuery(dict(k), str(query.load_file)), self.settings.patience.command)
        except QueryFailedError as problem:
            raise NotBuiltError(str(problem)) from problem

    def _count_partitions(self, k: Mapping[str, int]) -> int:
        return count_state_partitions(self.connection.topology, k)

    def _measure_standstill(self, query: OwnQuery, phases: Mapping[str, float]) -> float:
        """Return the seconds from the last commit before to the first one after.

        For a job without input, the standstill begins with the stop.
        """
        total = sum(phases.values())
        if not (batches := self.connection.watch.batches):
            query.window_from_ms = now_ms()
            return total - phases.get("finish", 0.0)
        query.window_from_ms = batches[0].started_ms
        since = query.last_commit_ms or batches[0].started_ms
        return min(total, max(0.0, (batches[0].committed_ms - since) / 1000))

    def _prime(self, query: OwnQuery) -> float:
        """Run small batches until they get no faster: a cold JVM compiles during many of them, a warm one in none."""
        began = time.monotonic()
        if not query.generated:
            return self._await_batches(1, or_idle=True)
        for count in range(self.settings.prime_batches, self.settings.prime_batches + _MORE_PRIMING_BATCHES + 1):
            self._await_batches(count)
            seconds = [batch.seconds for batch in self.connection.watch.batches]
            if seconds[-1] > _STILL_WARMING * min(seconds[:-1], default=0.0):
                break
            query.prime_further()
        return time.monotonic() - began

    def _await_batches(self, count: int, *, or_idle: bool = False) -> float:
        began, idle = time.monotonic(), IdleWatch(self.connection)
        patience = self.settings.patience.first_batch
        while len(self.connection.watch.batches) < count:
            self.connection.poll()
            if or_idle and idle.has_lasted():
                break
            if time.monotonic() - began > patience:
                raise DriverLostError(f"no batch was committed within {patience:.0f} s")
            time.sleep(POLL_SECONDS)
        return time.monotonic() - began


class IdleWatch:
    """Detects a running query without work, such as a quiet topic at night."""

    def __init__(self, connection: DriverConnection) -> None:
        self._connection = connection
        self._since: float | None = None

    def has_lasted(self) -> bool:
        """Return whether the query was idle at each call for a second. Spark finds new input within that time."""
        if not self._connection.is_waiting():
            self._since = None
            return False
        self._since = self._since or time.monotonic()
        return time.monotonic() - self._since >= _IDLE_SECONDS


def measure_seconds(action: Callable[[], object]) -> float:
    """Return how long `action` takes."""
    began = time.monotonic()
    action()
    return time.monotonic() - began
