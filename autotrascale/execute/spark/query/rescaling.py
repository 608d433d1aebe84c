"""Bringing a query somewhere over a connection: to life, to rest, to another parallelism with its state.

Whatever breaks raises `QueryFailedError` or `HostLostError`; what that means for a trial, or for a job that runs, is
for the caller to say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from autotrascale.execute.spark.connection.connection import Connection, HostLostError
from autotrascale.execute.spark.connection.messages import Repartition, StopQuery, state_partitions
from autotrascale.execute.spark.query.query import Query
from autotrascale.execute.spark.settings import SparkSettings

POLL_SECONDS = 0.05
_MORE_PRIMING = 7  # batches
_STILL_WARMING = 0.85  # a batch in less than this share of the best time before: the session gets faster yet


@dataclass(frozen=True)
class Change:
    """How the job was brought to a parallelism: seconds by phase, and how long it stood still in all."""

    phases: Mapping[str, float] = field(default_factory=dict)
    downtime_seconds: float = 0.0


@dataclass(frozen=True)
class Changes:
    connection: Connection
    settings: SparkSettings

    def begin(self, query: Query) -> Change:
        """With empty state, primed first; the load begins at the first moment at which the query is warm."""
        phases = self.start(query)
        stood_still = sum(phases.values())
        phases["prime"] = self._prime(query)
        query.begin_load()
        return Change(phases, stood_still)

    def start(self, query: Query) -> dict[str, float]:
        """From the checkpoint, if there is one, until the first batch is committed."""
        started = self.connection.start_query(query.parallelism, query.checkpoint, str(query.load_file))
        query.running, query.generated = True, started.generated
        return {"start": started.seconds, "first_batch": self._await_batches(1)}

    def rescale(self, query: Query, k: Mapping[str, int], rates: Mapping[str, float]) -> Change:
        """Stop between two batches, give the state its new partitions, start. The load goes on, so there is some
        catching up to do. (After a host has died there is nothing to stop, and the last batch runs again.)"""
        phases = {}
        if query.running:
            phases["finish"] = self.come_to_rest(query)
            phases["stop"] = _timed(lambda: self.stop(query))
        topology = self.connection.topology
        if (partitions := state_partitions(topology, k)) != state_partitions(topology, query.parallelism):
            phases["repartition"] = _timed(lambda: self.repartition(query, partitions))
        query.parallelism = dict(k)
        query.release_load()
        query.change_rates(rates)
        phases |= self.start(query)
        first = self.connection.watch.batches[0]
        query.window_from_ms = first.started_ms
        stood_ms = first.committed_ms - (query.last_commit_ms or first.started_ms)
        return Change(phases, max(0.0, stood_ms / 1000))

    def repartition(self, query: Query, partitions: int) -> None:
        """Of a query that is stopped. To where its state is already is fine."""
        self.connection.ask(Repartition(query.checkpoint, partitions), self.settings.patience.command)

    def come_to_rest(self, query: Query) -> float:
        """Waits for the batch in flight, within reason. A sink that goes by batch numbers then sees no batch twice."""
        began, batches = time.monotonic(), self.connection.watch.batches
        query.hold_load()
        done = len(batches)
        while time.monotonic() - began < self.settings.patience.finish_batch:
            self.connection.poll()
            # A source that is not ours cannot be held; the moment after a commit is the best there is.
            if _at_rest(query, self.connection) if query.generated else len(batches) > done:
                break
            time.sleep(POLL_SECONDS)
        query.last_commit_ms = self.connection.last_commit_ms()
        return time.monotonic() - began

    def stop(self, query: Query) -> None:
        """At once."""
        self.connection.ask(StopQuery(), self.settings.patience.command)
        query.running = False

    def _prime(self, query: Query) -> float:
        """Small batches until they get no faster: a cold JVM compiles for many of them, a warm one for none."""
        began = time.monotonic()
        least = self.settings.prime_batches if query.generated else 1
        for count in range(least, least + _MORE_PRIMING + 1):
            self._await_batches(count)
            seconds = [batch.seconds for batch in self.connection.watch.batches]
            if not query.generated or seconds[-1] > _STILL_WARMING * min(seconds[:-1], default=0.0):
                break
            query.prime_further()
        return time.monotonic() - began

    def _await_batches(self, count: int) -> float:
        began = time.monotonic()
        patience = self.settings.patience.first_batch
        while len(self.connection.watch.batches) < count:
            self.connection.poll()
            if time.monotonic() - began > patience:
                raise HostLostError(f"no batch was committed within {patience:.0f} s")
            time.sleep(POLL_SECONDS)
        return time.monotonic() - began


def _at_rest(query: Query, connection: Connection) -> bool:
    batches = connection.watch.batches
    return bool(batches) and query.has_come_to_rest(batches[-1])


def _timed(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began
