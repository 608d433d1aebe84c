"""The engine: trial after trial on one warm Spark session.

A trial is start → prime → load begins → batches until they can be judged → stop. Between trials the query starts
anew and the session stays. With `between_trials: keep` the query lives on instead, and is rescaled with its state.

What breaks in a trial is its verdict; after a host has died, the next trial starts another one.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from autotrascale.domain.errors import EngineError, InputError
from autotrascale.domain.topology import Topology, check_source_rates
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.spark import metrics
from autotrascale.execute.spark.connection import Connection, HostLostError, QueryFailedError
from autotrascale.execute.spark.facts import BatchFact
from autotrascale.execute.spark.messages import Repartition, StopQuery
from autotrascale.execute.spark.preflight import preflight
from autotrascale.execute.spark.query import Change, Query, now_ms
from autotrascale.execute.spark.settings import SparkSettings
from autotrascale.execute.spark.stability import Behind, Steady, Undecided, judge
from autotrascale.execute.spark.watch import samples

_POLL_SECONDS = 0.05
_MORE_PRIMING = 7  # batches
_STILL_WARMING = 0.85  # a batch in less than this share of the best time before: the session gets faster yet


class SparkEngine:
    """`Engine` on real Spark. After a trial, `window` and `change` say more about it than a `Trial` has room for."""

    simulated = False

    def __init__(self, settings: SparkSettings) -> None:
        self.settings = settings
        self.window: metrics.WindowFacts | None = None
        self.change = Change()
        self._query: Query | None = None
        self._connection: Connection | None = None
        self._trials = 0
        base = settings.work_dir or tempfile.gettempdir()
        Path(base).mkdir(parents=True, exist_ok=True)
        self._work = Path(tempfile.mkdtemp(prefix="autotrascale-", dir=base))
        self._held: list[Connection] = []
        self._keep_log = False
        self._finalizer = weakref.finalize(self, _end_all, self._held, self._work)

    @property
    def topology(self) -> Topology:
        return self._ready().topology

    @property
    def job_name(self) -> str:
        return self._ready().ready.job

    @property
    def p_max(self) -> int:
        """The upper bound for each operator: the slots of the master, unless the settings say otherwise."""
        return self.settings.p_max or self._ready().ready.slots

    @property
    def log(self) -> Path:
        """The log of host, JVM and workers."""
        return self._work / "host.log"

    def run(self, parallelism: Mapping[str, int], source_rates: Mapping[str, float]) -> Trial:
        """One trial. Raises `EngineError` when no host can be started, `InputError` for a vector that cannot be."""
        connection = self._ready()
        self._check(parallelism, source_rates)
        self.window, self.change = None, Change()
        asked = dict(parallelism)
        try:
            self.change = self._bring(connection, asked, source_rates)
            trial = self._measure(connection, asked, source_rates)
        except QueryFailedError as failure:
            self._keep_log = True
            self._forget_query()
            return Trial(asked, Verdict.FAILED, detail=f"{failure}; see {self.log}")
        except HostLostError as loss:
            self._keep_log = True
            self._drop(connection)
            self._forget_query()
            return Trial(asked, Verdict.FAILED, detail=f"{loss}; see {self.log}")
        if self.settings.between_trials == "fresh":
            self._end_trial(connection)
        return trial

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        for connection in self._held:
            connection.kill()
        if self._keep_log and self.log.exists():
            for entry in self._work.iterdir():
                if entry != self.log:
                    _remove(entry)
            self._finalizer.detach()
        self._finalizer()
        self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ready(self) -> Connection:
        """The host's connection; a host is started when there is none, or when it has died meanwhile."""
        if not self._finalizer.alive:
            raise EngineError("the engine is closed")
        if self._connection is not None and self._connection.lost():
            self._drop(self._connection)
        if self._connection is None:
            preflight(self.settings)
            connection = Connection(self.settings, self._work, self.log)
            self._held.append(connection)
            try:
                connection.open()
            except HostLostError as loss:
                self._keep_log = True
                self._drop(connection)
                raise EngineError(f"{loss}; see {self.log}") from None
            except QueryFailedError as failure:
                self._drop(connection)
                raise EngineError(str(failure)) from None
            self._connection = connection
        return self._connection

    def _drop(self, connection: Connection) -> None:
        connection.kill()
        self._held.remove(connection)
        self._connection = None
        if self._query is not None and self._query.running:
            self._query.running = False
            self._query.last_commit_ms = connection.last_commit_ms()

    def _check(self, parallelism: Mapping[str, int], source_rates: Mapping[str, float]) -> None:
        for name in parallelism:
            if name not in self.topology.operators:
                remedy = f"use {', '.join(self.topology)}"
                raise InputError(f"parallelism.{name}", "names an operator that does not exist", remedy=remedy)
        for name in self.topology:
            if name not in parallelism:
                raise InputError("parallelism", f"has no entry for {name!r}", seen=dict(parallelism), remedy="add it")
            if not 1 <= parallelism[name] <= self.p_max:
                remedy = f"give 1 to {self.p_max}, or set spark.p_max or more slots in spark.master"
                raise InputError(f"parallelism.{name}", "is out of bounds", seen=parallelism[name], remedy=remedy)
        check_source_rates(self.topology, source_rates)
        if not any(source_rates.values()):
            remedy = "give at least one source a rate above zero: without records there is nothing to measure"
            raise InputError("source_rates", "are all zero", remedy=remedy)

    def _bring(self, connection: Connection, k: Mapping[str, int], rates: Mapping[str, float]) -> Change:
        """To this parallelism and these rates, from wherever the job is."""
        query = self._query
        if query is None or self.settings.between_trials == "fresh":
            return self._start_afresh(connection, k, rates)
        if query.running and dict(query.parallelism) == dict(k):
            query.change_rates(rates)
            return Change()
        return self._rescale(connection, query, k, rates)

    def _start_afresh(self, connection: Connection, k: Mapping[str, int], rates: Mapping[str, float]) -> Change:
        """Empty state, primed first; the load begins at the first moment at which the query is warm."""
        began = time.monotonic()
        self._stop(connection)
        self._trials += 1
        query = self._query = Query.new(self.settings, self._work / f"trial-{self._trials}", k, rates)
        phases = {"stop": time.monotonic() - began, **self._start(connection, query)}
        stood_still = sum(phases.values())
        phases["prime"] = self._prime(connection, query)
        query.begin_load()
        return Change(phases, stood_still)

    def _prime(self, connection: Connection, query: Query) -> float:
        """Small batches until they get no faster: a cold JVM compiles for many of them, a warm one for none."""
        began = time.monotonic()
        least = self.settings.prime_batches if query.generated else 1
        for count in range(least, least + _MORE_PRIMING + 1):
            self._await_batches(connection, count)
            seconds = [batch.seconds for batch in connection.watch.batches]
            if not query.generated or seconds[-1] > _STILL_WARMING * min(seconds[:-1], default=0.0):
                break
            query.prime_further()
        return time.monotonic() - began

    def _rescale(
        self, connection: Connection, query: Query, k: Mapping[str, int], rates: Mapping[str, float]
    ) -> Change:
        """Stop between two batches, give the state its new partitions, start. The load goes on, so there is some
        catching up to do. (After a host has died there is nothing to stop, and the last batch runs again.)"""
        phases = {}
        if query.running:
            phases["finish"] = self._come_to_rest(connection, query)
            phases["stop"] = _timed(lambda: connection.ask(StopQuery(), self.settings.patience.command))
            query.running = False
        if (partitions := self._state_partitions(k)) != self._state_partitions(query.parallelism):
            move = Repartition(query.checkpoint, partitions)
            phases["repartition"] = _timed(lambda: connection.ask(move, self.settings.patience.command))
        query.parallelism = dict(k)
        query.release_load()
        query.change_rates(rates)
        phases |= self._start(connection, query)
        first = connection.watch.batches[0]
        query.window_from_ms = first.started_ms
        stood_ms = first.committed_ms - (query.last_commit_ms or first.started_ms)
        return Change(phases, max(0.0, stood_ms / 1000))

    def _come_to_rest(self, connection: Connection, query: Query) -> float:
        """Waits for the batch in flight, within reason. A sink that goes by batch numbers then sees no batch twice."""
        began, batches = time.monotonic(), connection.watch.batches
        query.hold_load()
        done = len(batches)
        while time.monotonic() - began < self.settings.patience.finish_batch:
            connection.poll()
            # A source that is not ours cannot be held; the moment after a commit is the best there is.
            if query.has_come_to_rest(batches[-1]) if query.generated else len(batches) > done:
                break
            time.sleep(_POLL_SECONDS)
        query.last_commit_ms = connection.watch.batches[-1].committed_ms
        return time.monotonic() - began

    def _start(self, connection: Connection, query: Query) -> dict[str, float]:
        """Start the query and see its first batch committed."""
        started = connection.start_query(query.parallelism, query.checkpoint, str(query.load_file))
        query.running, query.generated = True, started.generated
        return {"start": started.seconds, "first_batch": self._await_batches(connection, 1)}

    def _await_batches(self, connection: Connection, count: int) -> float:
        began = time.monotonic()
        patience = self.settings.patience.first_batch
        while len(connection.watch.batches) < count:
            connection.poll()
            if time.monotonic() - began > patience:
                raise HostLostError(f"no batch was committed within {patience:.0f} s")
            time.sleep(_POLL_SECONDS)
        return time.monotonic() - began

    def _measure(self, connection: Connection, k: Mapping[str, int], rates: Mapping[str, float]) -> Trial:
        """Looks on until the batches can be judged."""
        assert self._query is not None
        began_ms = self._query.window_from_ms
        watch, rules = connection.watch, self.settings.window
        while True:
            connection.poll()
            batches, now = watch.since(began_ms), now_ms()
            seen = samples(batches, began_ms)
            judgement = judge(seen, rules, (now - began_ms) / 1000, watch.in_flight(now))
            if not isinstance(judgement, Undecided):
                return self._trial(judgement, batches, k, rates)
            time.sleep(_POLL_SECONDS)

    def _trial(
        self, judgement: Steady | Behind, batches: list[BatchFact], k: Mapping[str, int], rates: Mapping[str, float]
    ) -> Trial:
        """A job that fell behind is measured too: its true rates say by how much, and what would be enough."""
        steady = isinstance(judgement, Steady)
        taken = batches[-judgement.batches :] if isinstance(judgement, Steady) else batches[1:] or batches
        snapshot = None
        if taken:
            assert self._query is not None
            own = [source for source in self.topology.sources if source not in self._query.generated]
            offered = {**rates, **metrics.observed_rates(own, taken)}
            snapshot = metrics.snapshot(self.job_name, self.topology, self.p_max, offered, taken)
            self.window = metrics.window_facts(taken)
        return Trial(
            parallelism=dict(k),
            verdict=Verdict.STABLE if steady else Verdict.CANNOT_KEEP_UP,
            snapshot=snapshot,
            detail=judgement.note if isinstance(judgement, Steady) else judgement.reason,
            downtime_seconds=self.change.downtime_seconds,
        )

    def _end_trial(self, connection: Connection) -> None:
        """A query that cannot be stopped takes its host with it; the verdict of its trial stands."""
        try:
            self._stop(connection)
        except (QueryFailedError, HostLostError):
            self._drop(connection)

    def _stop(self, connection: Connection) -> None:
        try:
            if self._query is not None and self._query.running:
                connection.ask(StopQuery(), self.settings.patience.command)
        finally:
            self._forget_query()

    def _forget_query(self) -> None:
        """With `keep` only that it runs is forgotten: its checkpoint is what the next trial goes on from."""
        if self._query is None:
            return
        self._query.running = False
        if self.settings.between_trials == "fresh" or not self._query.begun:
            self._query.remove()
            self._query = None

    def _state_partitions(self, k: Mapping[str, int]) -> int:
        return max((k[name] for name, operator in self.topology.operators.items() if operator.stateful), default=0)


def _end_all(held: list[Connection], work: Path) -> None:
    for connection in held:
        connection.kill()
    _remove(work)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _timed(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began
