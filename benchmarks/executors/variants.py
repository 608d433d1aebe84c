"""One day with one way to decide on executors, in a driver of its own."""

from __future__ import annotations

import math
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from autotrascale.execute.spark.executors.executor import Executor
from autotrascale.execute.spark.executors.scheduler import Executors
from autotrascale.execute.spark.executors.settings import settings
from autotrascale.plan.sizing.executors import (
    Application,
    Bounds,
    GrowExecutors,
    MovePartitions,
    Query,
    ShrinkExecutors,
    executor_seconds,
    executors_for,
    plan_executors,
)
from autotrascale.testing.standalone import JAVA, conf
from benchmarks.executors import day as days

CORES = 1
_LOOK_SECONDS = 3.0
_POLL_SECONDS = 0.25
_WINDOW_SECONDS = 10.0
_START_WITHIN = 180.0
_WARM_BATCHES = 8
_TELLING_RECORDS = 50  # the cost of fewer is that of a batch, and not of a record
_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "700m",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
# Spark's own way, in the shape in which it works without a shuffle service: an executor goes when it has had nothing to
# do for ten seconds (by default sixty, which in a day of minutes would be hours).
_DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.executorIdleTimeout": "10s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "10s",
}


@dataclass(frozen=True)
class Look:
    """What a controller is shown. `seconds_per_record`: of a slot, everything counted; None before there is a batch."""

    at: float
    rate: float  # records per second that arrive
    backlog: float  # records that have arrived and are not counted yet
    seconds_per_record: float | None
    latency: float | None  # of the newest batch, in the mean
    batch_seconds: float | None
    partitions: int


Control = Callable[[Executors, Look], int | None]
"""Asks for executors and gives them back. Answers with another number of partitions where state is to move."""


@dataclass(frozen=True)
class Variant:
    name: str
    control: Callable[[Bounds], Control] | None = None
    conf: dict[str, str] = field(default_factory=dict)
    start: int | None = None  # executors; None: as many as there may be


@dataclass(frozen=True)
class Outcome:
    variant: str
    seconds: float
    executor_seconds: float
    most: int
    records: int
    lost: int
    doubled: int
    windows: int
    in_target: int
    mean_latency: float
    releases: list[float]  # seconds from the decision to the end of an executor
    moves: int


class ByRate:
    """A simple controller: slots for the rate at the cost of a record, with room to spare; down after some looks."""

    USE, PATIENT_LOOKS, CATCH_UP_SECONDS = 0.6, 4, 30.0

    def __init__(self, bounds: Bounds) -> None:
        self._bounds, self._fewer = bounds, 0

    def __call__(self, executors: Executors, look: Look) -> int | None:
        if look.seconds_per_record is None:
            return None
        standing = executors.standing()
        number = len(standing.staying)
        # A batch's worth of records is always under way.
        behind = max(0.0, look.backlog - look.rate * 2 * (look.batch_seconds or 0.0))
        slots = (look.rate + behind / self.CATCH_UP_SECONDS) * look.seconds_per_record / self.USE
        needed = executors_for(math.ceil(slots), CORES)
        self._fewer = self._fewer + 1 if needed < number else 0
        if 0 < self._fewer < self.PATIENT_LOOKS:
            needed = number
        queries = (Query("day", needed, look.partitions),)
        for step in plan_executors(Application(number, CORES, queries), self._bounds).steps:
            match step:
                case GrowExecutors(total) | ShrinkExecutors(total):
                    executors.bring_to(total)
                case MovePartitions(partitions=partitions):
                    return partitions
            if isinstance(step, GrowExecutors):
                return None  # state moves when they are there
        return None


def by_rate(bounds: Bounds) -> Control:
    return ByRate(bounds)


VARIANTS = (
    Variant("static peak"),
    Variant("dynamic allocation", conf=_DYNAMIC),
    Variant("ours", by_rate, start=1),
)


def run(variant: Variant, master: str, day: days.Day, folder: Path, most: int, target: float) -> Outcome:
    """In a process of its own: one process can have one JVM."""
    spawn = get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_run, args=(theirs, variant, master, day, folder, most, target))
    process.start()
    theirs.close()
    try:
        done, answer = ours.recv()
        process.join(30)
    except EOFError:
        raise RuntimeError(f"the driver of {variant.name} ended without a word") from None
    finally:
        process.kill()  # if it has not ended by itself, or nobody waits for it any more
        process.join()
    if not done:
        raise RuntimeError(f"{variant.name}: {answer}")
    assert isinstance(answer, Outcome)
    return answer


def _run(
    pipe: Connection, variant: Variant, master: str, day: days.Day, folder: Path, most: int, target: float
) -> None:
    os.chdir(folder)
    try:
        pipe.send((True, _Run(variant, master, day, folder, Bounds(1, most), target).outcome()))
    except Exception as error:
        pipe.send((False, f"{type(error).__name__}: {error}"))


class _Run:
    def __init__(
        self, variant: Variant, master: str, day: days.Day, folder: Path, bounds: Bounds, target: float
    ) -> None:
        self._variant, self._day, self._bounds, self._target = variant, day, bounds, target
        usual = {each.name: each.value for each in settings(master, (bounds.least, bounds.most), CORES)}
        dynamic = {"spark.dynamicAllocation.maxExecutors": str(bounds.most)} if variant.conf else {}
        builder: Any = SparkSession.builder.master(master).appName(variant.name)
        for name, value in {**_CONF, **conf(CORES), **usual, **dynamic, **variant.conf}.items():
            builder = builder.config(name, value)
        self._spark: SparkSession = builder.getOrCreate()
        self._executors = Executors(self._spark)
        self._control = variant.control(bounds) if variant.control else None
        self._feeder = days.Feeder(folder / "in", day)
        self._query = days.Query(self._spark, folder, day, bounds.most * CORES)
        self._changes: list[tuple[float, int]] = []
        self._releases: list[float] = []
        self._busy_ms, self._seen, self._arrived = 0, 0, [(0.0, 0)]
        self._costs: list[float] = []

    def outcome(self) -> Outcome:
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(over,))
        try:
            self._warm_up()
            began = self._feeder.start()
            watch.start()
            while time.time() < began + self._day.seconds:
                self._query.check()
                self._look(time.time())
                time.sleep(_LOOK_SECONDS)
            over.set()
            watch.join()
            return self._judged(began)
        finally:
            over.set()
            self._feeder.end()
            self._spark.stop()

    def _warm_up(self) -> None:
        """Some batches of the night, until their code is compiled; then there are as many executors as the variant
        starts with."""
        start = self._variant.start
        until = time.monotonic() + _START_WITHIN
        while len(self._query.batches()) < _WARM_BATCHES:
            self._query.check()
            self._feeder.bring(int(self._day.low), time.time())
            if time.monotonic() > until:
                raise TimeoutError(f"not {_WARM_BATCHES} batches within {_START_WITHIN:.0f} s")
            time.sleep(1.0)
        while start is not None and len(self._executors.running()) != start:
            self._executors.bring_to(start)
            if time.monotonic() > until:
                raise TimeoutError(f"not {start} executors within {_START_WITHIN:.0f} s")
            time.sleep(_POLL_SECONDS)
        self._busy_ms, self._seen = self._busy(), self._records()

    def _look(self, now: float) -> None:
        batches = self._query.batches()
        busy, seen = self._busy(), self._records()
        if seen - self._seen >= _TELLING_RECORDS:
            self._costs.append((busy - self._busy_ms) / 1000 / (seen - self._seen))
            self._busy_ms, self._seen = busy, seen
        # An executor that has just come compiles its code in its first batch, which says nothing of the next.
        cost = statistics.median(self._costs[-5:]) if self._costs else None
        self._arrived = [*self._arrived[-4:], (now, self._feeder.records)]
        (then, before), arrived = self._arrived[0], self._feeder.records
        rate = (arrived - before) / (now - then) if then else 0.0
        last = batches[-1]
        look = Look(now, rate, arrived - seen, cost, last.latency, last.seconds, self._query.partitions)
        self._say(look)
        partitions = self._control(self._executors, look) if self._control else None
        if partitions is not None and partitions != self._query.partitions:
            self._query.move(partitions)

    def _say(self, look: Look) -> None:
        """A line for each look, to see afterwards what it went by."""
        cost = "?" if look.seconds_per_record is None else f"{1000 * look.seconds_per_record:.1f} ms"
        print(
            f"{self._variant.name} {look.at - self._feeder.began:4.0f} s: {look.rate:4.0f}/s arrive,"
            f" {look.backlog:5.0f} behind, {cost} each; newest batch {look.batch_seconds:.1f} s, its latency"
            f" {look.latency:.1f} s; {self._changes[-1][1] if self._changes else '?'} executors,"
            f" {look.partitions} partitions",
            file=sys.stderr,
            flush=True,
        )

    def _watch(self, over: threading.Event) -> None:
        """Executors that leave are paid for until they are gone. With eyes of its own: a rescale must not blind it."""
        executors, before = Executors(self._spark), dict[str, Executor]()
        while not over.wait(_POLL_SECONDS):
            now, there = time.time(), {each.id: each for each in executors.running()}
            if not self._changes or self._changes[-1][1] != len(there):
                self._changes.append((now, len(there)))
            for name, executor in before.items():
                if name not in there and executor.leaving_since is not None:
                    self._releases.append(round(now - executor.leaving_since, 1))
            before = there

    def _busy(self) -> int:
        """Milliseconds that executors have worked on tasks."""
        summaries = self._spark.sparkContext._jsc.sc().statusStore().executorList(False)
        return sum(int(summaries.apply(i).totalDuration()) for i in range(summaries.size()))

    def _records(self) -> int:
        return sum(each.records for each in self._query.batches())

    def _judged(self, began: float) -> Outcome:
        self._feeder.end()
        lost, doubled = days.difference(self._query.drain(), self._feeder.records)
        batches = [each for each in self._query.batches() if each.first >= began]
        # By when records arrived: what comes late is late in its own window.
        windows: list[list[days.Batch]] = [[] for _ in range(int(self._day.seconds / _WINDOW_SECONDS))]
        for each in batches:
            first, last = (int((at - began) / _WINDOW_SECONDS) for at in (each.first, each.last))
            for window in windows[first : last + 1]:
                window.append(each)
        ended = began + self._day.seconds
        return Outcome(
            self._variant.name,
            self._day.seconds,
            round(executor_seconds([(max(at, began), number) for at, number in self._changes], ended), 1),
            max(number for _, number in self._changes),
            self._feeder.records,
            lost,
            doubled,
            len(windows),
            sum(bool(window) and _mean_latency(window) <= self._target for window in windows),
            round(_mean_latency(batches), 2),
            self._releases,
            self._query.moves,
        )


def _mean_latency(batches: list[days.Batch]) -> float:
    return statistics.fmean([each.latency for each in batches], weights=[each.records for each in batches])
