"""Bringing a query somewhere over a connection: to life, to rest, to another parallelism with its state.

Whatever breaks raises `QueryFailedError` or `HostLostError`; what that means for a trial, or for a job that runs, is
for the caller to say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.common import checkpoint_facts
from autotrascale.execute.spark.common.checkpoint_facts import CheckpointFacts, PreparationStep
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
    ForgetEntries,
    ReadCheckpoint,
    Repartition,
    RunOpenBatch,
    StopQuery,
    count_state_partitions,
)

POLL_SECONDS = 0.05
_IDLE_SECONDS = 1.0
_MORE_PRIMING = 7  # batches
_STILL_WARMING = 0.85  # a batch in less than this share of the best time before: the session gets faster yet


class NotBuiltError(QueryFailedError):
    """A query cannot be built as it was asked for. Nothing was touched: what ran runs on."""


@dataclass(frozen=True)
class RescaleReport:
    """How the job was brought to a parallelism: seconds by phase, and how long it stood still in all."""

    phases: Mapping[str, float] = field(default_factory=dict)
    standstill_seconds: float = 0.0
    how: str = ""  # overlapped or in place, and why
    overlap_seconds: float = 0.0  # in which the next query was made ready beside the one that ran


@dataclass(frozen=True)
class QueryRescaler:
    connection: DriverConnection
    settings: SparkSettings

    def begin(self, query: OwnQuery) -> RescaleReport:
        """With empty state, primed first; the load begins at the first moment at which the query is warm."""
        phases = self.start(query)
        stood_still = sum(phases.values())
        phases["prime"] = self._prime(query)
        query.begin_load()
        return RescaleReport(phases, stood_still)

    def start(self, query: OwnQuery) -> dict[str, float]:
        """From the checkpoint, if there is one, until the first batch is committed or there is nothing to commit."""
        phases = self.prepare(query)
        where = query.checkpoint, str(query.load_file), query.generation.visible
        started = self.connection.start_query(query.parallelism, *where)
        query.running, query.generated, query.not_replayable = True, started.generated, started.not_replayable
        phases |= {"start": started.seconds, "first_batch": self._await_batches(1, or_idle=True)}
        if query.generation.number:
            query.remove_copies()
        return phases

    def prepare(self, query: OwnQuery) -> dict[str, float]:
        """Of a query that is stopped: what was begun in its checkpoint and not finished is finished, and its state is
        brought to where `query.parallelism` wants it. Each step is decided from what is found there, so that this can
        break off anywhere and be done again, by anybody. (The sink of a later generation goes by numbers that we give
        it, so its open batch need not run first.)"""
        phases = self._take_along(query, query.parallelism) if query.generation.number else {}
        read = partial(self.read, query.checkpoint)
        for step in checkpoint_facts.preparation_steps(read, self._wanted(query), query.checkpoint):
            name, action = self._doing(step, query)
            phases[name] = phases.get(name, 0.0) + measure_seconds(action)
        return phases

    def rescale(self, query: OwnQuery, k: Mapping[str, int], rates: Mapping[str, float]) -> RescaleReport:
        """Stop between two batches, give the state its new partitions, start. The load goes on, so there is some
        catching up to do. (After a host has died there is nothing to stop, and the last batch runs again.)"""
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
        return RescaleReport(phases, self._stood_still(query, phases))

    def _stop_in_order(self, query: OwnQuery, k: Mapping[str, int]) -> dict[str, float]:
        """Once what comes next is built. A batch that had better not be waited for is cut short."""
        self._build(query, k)
        wanted = count_state_partitions(self.connection.topology, k)
        stays = wanted == self._wanted(query)  # then what is cut short begins anew as soon as the query does
        along = not stays and can_carry_over_open_batch(self.connection, self.settings)
        phases = {"finish": self.come_to_rest(query, k if stays or along else None)}
        phases["stop"] = measure_seconds(lambda: self.stop(query))
        return phases | (self._take_along(query, k) if along else {})

    def _take_along(self, query: OwnQuery, k: Mapping[str, int]) -> dict[str, float]:
        wanted = count_state_partitions(self.connection.topology, k)
        began = time.monotonic()
        taken = carry_over_open_batch(self.connection, self.settings, self.read, query, k, wanted)
        return {"take_along": time.monotonic() - began} if taken else {}

    def _build(self, query: OwnQuery, k: Mapping[str, int]) -> None:
        try:
            self.connection.ask(BuildQuery(dict(k), str(query.load_file)), self.settings.patience.command)
        except QueryFailedError as problem:
            raise NotBuiltError(str(problem)) from problem

    def check_replayable(self, query: OwnQuery) -> None:
        """A query that is started again asks its sources for what they gave before."""
        if query.not_replayable:
            name, formats = self.connection.ready.job, " and ".join(query.not_replayable)
            raise InputError(
                f"job {name}",
                f"reads from {formats}, which gives each record only once: a rescale would lose records",
                remedy="read from files, Kafka or another source that can give them again",
            )

    def repartition(self, query: OwnQuery, partitions: int) -> None:
        """Of a query that is stopped, and whose last batch is committed."""
        self.connection.ask(Repartition(query.checkpoint, partitions), self.settings.patience.command)

    def come_to_rest(self, query: OwnQuery, then: Mapping[str, int] | None = None) -> float:
        """Waits for the batch in flight, within reason; what is cut off runs again. There may be none for hours.
        `then`: not for one that is done sooner from its start at this parallelism."""
        began, batches = time.monotonic(), self.connection.watch.batches
        until = began + self.settings.patience.finish_batch
        query.hold_load()
        done, idle = len(batches), IdleWatch(self.connection)
        while (left := until - time.monotonic()) > 0:
            self.connection.poll()
            if query.generated and batches:
                at_rest = query.has_come_to_rest(batches[-1])
            elif query.generated:
                at_rest = idle.for_long()
            else:  # a source that is not ours cannot be held; the moment after a commit is the best there is
                at_rest = len(batches) > done or idle.now()
            if at_rest or (then is not None and should_cut_batch_short(self.connection.watch, then, left)):
                break
            time.sleep(POLL_SECONDS)
        query.last_commit_ms = self.connection.last_commit_ms()
        return time.monotonic() - began

    def stop(self, query: OwnQuery) -> None:
        """At once."""
        self.connection.ask(StopQuery(), self.settings.patience.command)
        query.running = False

    def read(self, place: str) -> CheckpointFacts:
        answer = self.connection.ask(ReadCheckpoint(place), self.settings.patience.command)
        assert isinstance(answer, CheckpointRead)
        return answer.found

    def _wanted(self, query: OwnQuery) -> int:
        return count_state_partitions(self.connection.topology, query.parallelism)

    def _doing(self, step: PreparationStep, query: OwnQuery) -> tuple[str, Callable[[], object]]:
        """A step's name among the phases, and how it is done."""
        match step:
            case checkpoint_facts.RunOpenBatchStep(batch):
                where = query.checkpoint, str(query.load_file), self.settings.sink, query.generation.visible
                run = RunOpenBatch(batch, dict(query.parallelism), *where, self.settings.may_overlap)
                return "open_batch", lambda: self.connection.ask(run, self.settings.patience.first_batch)
            case checkpoint_facts.MoveStateStep(partitions):
                return "repartition", lambda: self.repartition(query, partitions)
            case checkpoint_facts.ForgetEntriesStep(entries):
                forget = ForgetEntries(query.checkpoint, entries)
                return "mend", lambda: self.connection.ask(forget, self.settings.patience.command)

    def _stood_still(self, query: OwnQuery, phases: Mapping[str, float]) -> float:
        """From the last commit before to the first one after. A job without input did not stand still before it was
        asked to."""
        within = sum(phases.values())
        if not (batches := self.connection.watch.batches):
            query.window_from_ms = now_ms()
            return within - phases.get("finish", 0.0)
        query.window_from_ms = batches[0].started_ms
        since = query.last_commit_ms or batches[0].started_ms
        return min(within, max(0.0, (batches[0].committed_ms - since) / 1000))

    def _prime(self, query: OwnQuery) -> float:
        """Small batches until they get no faster: a cold JVM compiles for many of them, a warm one for none."""
        began = time.monotonic()
        if not query.generated:
            return self._await_batches(1, or_idle=True)
        for count in range(self.settings.prime_batches, self.settings.prime_batches + _MORE_PRIMING + 1):
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
            if or_idle and idle.for_long():
                break
            if time.monotonic() - began > patience:
                raise DriverLostError(f"no batch was committed within {patience:.0f} s")
            time.sleep(POLL_SECONDS)
        return time.monotonic() - began


class IdleWatch:
    """Whether a query that runs has nothing to do: a quiet topic at night is no fault."""

    def __init__(self, connection: DriverConnection) -> None:
        self._connection = connection
        self._since: float | None = None

    def now(self) -> bool:
        return self._connection.waits()

    def for_long(self) -> bool:
        """At each call for a second: what has just arrived is found within that time."""
        if not self.now():
            self._since = None
            return False
        self._since = self._since or time.monotonic()
        return time.monotonic() - self._since >= _IDLE_SECONDS


def measure_seconds(action: Callable[[], object]) -> float:
    """Seconds."""
    began = time.monotonic()
    action()
    return time.monotonic() - began
