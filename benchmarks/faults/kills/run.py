"""One job under fire: it is rescaled, something is killed in a chosen phase, and then it must run again with every
record counted once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import psutil

from autotrascale.execute.spark.common.launches import NextLaunch
from autotrascale.execute.spark.common.processes import session_members
from autotrascale.execute.spark.common.spark_settings import SparkSettings, SparkTimeouts
from autotrascale.execute.spark.controller.launch_log import LaunchLog
from benchmarks.faults.kills.archive import JAVA
from benchmarks.faults.kills.controller import BACK, Reached, Relaunch, Rescale, Up, control
from benchmarks.faults.kills.jobs import FENCED, JOBS, Job

PATIENCE = SparkTimeouts(start=150.0, command=90.0, first_batch=120.0)
_EVERY, _RECORDS = 0.25, 40  # a file with so many records, every so many seconds
_NOTHING_FOR = 180.0  # seconds
_UP_WITHIN = 420.0  # seconds, on a busy machine
_GONE_WITHIN = 20.0

# The phases of the bench, and where in the controller's course each of them is: one of several, where it has several.
PHASES: dict[str, tuple[str, ...]] = {
    "finishing the batch": ("before finish", "in finish", "before StopQuery", "in StopQuery"),
    "before the move": ("after StopQuery", "before Repartition", "in RunOpenBatch"),
    "in the move": ("in Repartition",),
    "after the move": ("after Repartition", "before StartQuery"),
    "before the first batch": ("in StartQuery", "after StartQuery"),
    "coming back": ("in Boot", "before ReadCheckpoint", "in StartQuery", "after StartQuery"),
    "any moment": ("",),
}
# The same of a rescale that is overlapped: all but the last come before the hand-over.
OVERLAP_PHASES: dict[str, tuple[str, ...]] = {
    "copying": ("before CopyCheckpoint", "in CopyCheckpoint"),
    "moving the copy": ("before Repartition", "in Repartition"),
    "catching up": ("before CatchUp", "in CatchUp"),
    "handing over": ("before HandOver", "in HandOver"),
    "before the rename": ("after HandOver",),
    "after the rename": ("before LetWrite", "in LetWrite", "after LetWrite"),
}
# … and of a relaunch with executors of another size.
GOING_BACK = "going back"
RELAUNCH_PHASES: dict[str, tuple[str, ...]] = {
    "settings written": ("written",),
    "stopping": ("before finish", "in finish", "before StopQuery", "in StopQuery"),
    "stopped": ("left", "before Shutdown", "in Shutdown"),
    "begun": ("in Boot",),
    "before its first batch": ("before ReadCheckpoint", "in StartQuery", "after StartQuery"),
    GOING_BACK: tuple(f"{BACK}{phase}" for phase in ("in Boot", "before ReadCheckpoint", "in StartQuery")),
}
# Where the sink is fenced, a batch that was cut short is not run first, but taken along.
_TAKEN_ALONG = {"in RunOpenBatch": ("in CopyCheckpoint", "before PlanBatch", "after PlanBatch")}
WITHOUT_STATE = ("finishing the batch", "before the first batch", "coming back", "any moment")
VICTIMS = ("host", "JVM", "controller", "executor")


@dataclass(frozen=True)
class Kill:
    job: str
    phase: str
    victim: str


@dataclass
class Outcome:
    kill: Kill
    kills: int = 0
    missed: bool = False  # the phase did not come: nobody was killed
    down: bool = False
    lost: int = 0
    doubled: int = 0
    left: int = 0
    records: int = 0
    seconds: float = 0.0
    detail: str = ""


@dataclass
class Fire:
    """One home of one job, with a controller for it."""

    job_name: str
    folder: Path
    chance: random.Random
    master: str = "local[8]"  # slots for two queries, where one takes over from the other
    conf: dict[str, str] = field(default_factory=dict)
    java: str = JAVA
    first: int = _RECORDS  # in the first file
    fenced: bool = False  # also where Spark would write by itself: its rescales may be overlapped
    executors: Callable[[], list[int]] = list
    sized: bool = False  # it may be relaunched

    def __post_init__(self) -> None:
        for part in ("in", "work"):
            (self.folder / part).mkdir(parents=True)
        options = {"folder": str(self.folder)}
        self.job: Job = JOBS[self.job_name](**options)
        self.settings = SparkSettings(
            job=f"benchmarks.faults.kills.jobs:{type(self.job).__name__}",
            options=options,
            python_path=(str(Path(__file__).parents[3]),),
            master=self.master,
            conf={"spark.driver.extraJavaOptions": self.java, **self.conf},
            driver_memory="700m",
            prime_batches=2,
            p_max=4 if self.sized else None,
            patience=PATIENCE,
            rescale="overlap" if self.fenced else "in-place",
            work_dir=str(self.folder / "work"),
        )
        self.host, self.hosts, self.relaunches = 0, set[int](), 0
        self.parallelism = self.drawn({})
        self.process: Any = None
        self.pipe: Pipe
        self._fork("")
        self.feeder = Feeder(self.folder / "in", self.first)

    def drawn(self, other_than: dict[str, int]) -> dict[str, int]:
        """State goes to another number of partitions each time."""
        while True:
            drawn = {name: self.chance.randint(1, 2) for name in self.job.topology}
            drawn |= dict.fromkeys(
                (name for name, op in self.job.topology.operators.items() if op.stateful), self.chance.randint(1, 4)
            )
            stateful = [name for name, op in self.job.topology.operators.items() if op.stateful]
            if drawn != other_than and all(drawn[name] != other_than.get(name) for name in stateful):
                return drawn

    def up(self) -> Up:
        """What the controller says when the job runs, or is given up."""
        said = self._said()
        assert isinstance(said, Up), said
        return self._noted(said)

    def _noted(self, said: Up) -> Up:
        if said.host:
            self.host = said.host
            self.hosts.add(said.host)
        return said

    def rescale(self, patience: float = 10.0, how: str = "in-place") -> Up:
        """Without a kill, and after a look: whom the last one hit when all was done is started again first."""
        self.pipe.send("look")
        self.up()
        self.pipe.send(Rescale(self.drawn(self.parallelism), patience, how=how))
        up = self.up()
        self.parallelism = up.running or self.parallelism
        return up

    def check(self, outcome: Outcome) -> None:
        """Gives it no more records until it has taken all there are, and compares. A record is lost when nothing has
        come of any for a while, however long the job takes for all of them."""
        try:
            self._compare(outcome, self.feeder.pause())
        finally:
            self.feeder.go_on()

    def _compare(self, outcome: Outcome, records: int) -> None:
        outcome.records = outcome.lost = records
        until = time.monotonic() + _NOTHING_FOR
        while not outcome.down:
            before = outcome.lost
            with contextlib.suppress(OSError, ValueError):  # a file that is just being written
                outcome.lost, outcome.doubled = difference(self.job, records)
            if outcome.lost < before:
                until = time.monotonic() + _NOTHING_FOR
            if not outcome.lost or outcome.doubled or time.monotonic() > until:
                break
            time.sleep(0.5)
            self.pipe.send("look")
            up = self.up()
            outcome.down, outcome.detail = up.running is None, up.detail or outcome.detail

    def under_fire(self, kill: Kill) -> Outcome:
        began, outcome = time.monotonic(), Outcome(kill)
        point = cut = self.chance.choice({**PHASES, **OVERLAP_PHASES}[kill.phase])
        if self.fenced or self.job_name in FENCED:
            point = self.chance.choice(_TAKEN_ALONG.get(cut, (cut,)))
        how = "overlap" if kill.phase in OVERLAP_PHASES else "in-place"
        back = kill.phase == "coming back"
        # Cut off in mid-batch, a rescale must run that batch to its end before it moves state, or take it along.
        patience = 0.0 if cut == "in RunOpenBatch" or self.chance.random() < 0.3 else 10.0
        first = self.chance.choice(("before finish", "after StopQuery", "before StartQuery")) if back else point
        self.pipe.send(Rescale(self.drawn(self.parallelism), patience, first, how))
        up = self._hit(kill, first, outcome, then=point if back else "")
        return self._judged(outcome, up, began)

    def relaunched_under_fire(self, kill: Kill) -> Outcome:
        """With a heap that is another each time; to go back, with one with which Spark does not start."""
        began, outcome = time.monotonic(), Outcome(kill)
        point, self.relaunches = self.chance.choice(RELAUNCH_PHASES[kill.phase]), self.relaunches + 1
        heap = 100 if kill.phase == GOING_BACK else 600 + 20 * (self.relaunches % 5)
        following = NextLaunch(self.relaunches, {"spark.executor.memory": f"{heap}m"}, PATIENCE.start, 600.0)
        self.pipe.send(Relaunch(following, point))
        self._judged(outcome, self._hit(kill, point, outcome, then=""), began)
        launches = LaunchLog(self.folder / "home", self.settings.conf)
        if not outcome.down and launches.launch.former is not None and launches.arrived is None:
            outcome.down, outcome.detail = True, f"{launches.launch} never came up"
        outcome.detail = outcome.detail or launches.launch.why
        return outcome

    def _judged(self, outcome: Outcome, up: Up, began: float) -> Outcome:
        outcome.missed = outcome.kills == 0
        outcome.down = up.running is None
        outcome.detail = up.detail
        if up.running is not None:
            self.parallelism = up.running
            self.check(outcome)
        outcome.left = self._left()
        outcome.seconds = time.monotonic() - began
        return outcome

    def close(self) -> int:
        """The processes that are left when all is over."""
        self.feeder.end()
        with contextlib.suppress(OSError):
            self.pipe.send("close")
        self.process.join(60)
        self.process.kill()
        self.process.join()
        return self._left(closed=True)

    def _hit(self, kill: Kill, point: str, outcome: Outcome, then: str) -> Up:
        """Waits for the phase, kills, and waits until it runs again. `then`: and once more while it comes back."""
        said = self._said() if point else self._said(within=self.chance.uniform(0.0, 6.0))
        if isinstance(said, Up):
            self._noted(said)
            if point:
                return said  # the phase did not come
            self._strike(kill.victim, outcome)  # it runs already; that is a moment too
            if kill.victim == "controller":
                self._fork("")
                return self.up()
            return said
        if isinstance(said, Reached):
            self.host = said.host
            self.hosts.add(said.host)
        waits = isinstance(said, Reached) and not said.phase.startswith("in ")
        if not waits and point:
            time.sleep(self.chance.uniform(0.0, 1.5))
        self._strike(kill.victim, outcome)
        if kill.victim == "controller":
            self._fork(then)
        elif waits:
            self.pipe.send(then)
        return self._hit(kill, then, outcome, "") if then else self.up()

    def _strike(self, victim: str, outcome: Outcome) -> None:
        if victim == "controller":
            self.process.kill()
            self.process.join()
            outcome.kills += 1
            return
        until = time.monotonic() + 10.0
        while not (pids := self._pids(victim)) and time.monotonic() < until:
            time.sleep(0.05)
        for pid in pids[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                outcome.kills += 1
                if victim != "executor":
                    _await_death(self.host)

    def _pids(self, victim: str) -> list[int]:
        if victim == "host":
            return [self.host]
        if victim == "JVM":
            return [process.pid for process in session_members(self.host) if _named(process) == "java"]
        return self.executors()

    def _left(self, *, closed: bool = False) -> int:
        """Processes of hosts that are gone, or, in the end, of any."""
        hosts = self.hosts if closed else self.hosts - {self.host}
        until = time.monotonic() + _GONE_WITHIN
        while left := sum(1 for host in hosts for _ in session_members(host)):
            if time.monotonic() > until:
                return left
            time.sleep(0.2)
        return 0

    def _fork(self, pause: str) -> None:
        """A forked controller has its libraries loaded: it is there at once."""
        fork = get_context("fork")
        ours, theirs = fork.Pipe()
        arguments = (theirs, self.settings, self.folder / "home", self.parallelism, pause, self.sized)
        self.process = fork.Process(target=control, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        self.pipe = ours

    def _said(self, within: float = _UP_WITHIN) -> Any:
        """None when nothing was said in time."""
        try:
            if self.pipe.poll(within):
                return self.pipe.recv()
        except (EOFError, OSError):
            return Up(None, 0, "the controller ended by itself")
        return None if within < _UP_WITHIN else Up(None, 0, f"nothing was heard of it for {within:.0f} s")


class Feeder:
    """Brings records, file after file."""

    def __init__(self, folder: Path, first: int) -> None:
        self._folder, self._records = folder, 0
        self._paused, self._over = threading.Lock(), threading.Event()
        self._bring(first)
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def pause(self) -> int:
        """How many there are."""
        self._paused.acquire()
        return self._records

    def go_on(self) -> None:
        self._paused.release()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _feed(self) -> None:
        while not self._over.wait(_EVERY):
            with self._paused:
                self._bring(_RECORDS)

    def _bring(self, count: int) -> None:
        numbers = range(self._records, self._records + count)
        draft = self._folder / f".{self._records}.part"
        draft.write_text("".join(f'{{"n":{number}}}\n' for number in numbers))
        draft.rename(self._folder / f"{self._records}.json")
        self._records += count


def difference(job: Job, records: int) -> tuple[int, int]:
    """How many are missing in the results, and how many are there too often."""
    found, expected = job.found(), job.expected(records)
    return (expected - found).total(), (found - expected).total()


def _await_death(pid: int) -> None:
    """A host ends a moment after its JVM, and itself not at once: whoever looked before would find that all is well."""
    until = time.monotonic() + _GONE_WITHIN
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        while process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1:
            if time.monotonic() > until:
                return
            time.sleep(0.02)


def _named(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return str(process.name())
    return ""
