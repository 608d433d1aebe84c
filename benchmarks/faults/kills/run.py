"""A job under fire: it is rescaled, a process is killed in a chosen phase, and then it must run again with each record
counted once."""

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
_FILE_SECONDS, _RECORDS = 0.25, 40  # interval between files, records in a file
_NO_PROGRESS_SECONDS = 180.0
_UP_SECONDS = 420.0  # on a busy machine
_GONE_SECONDS = 20.0

# The phases of the benchmark, each with the possible points in the course of the controller.
PHASES: dict[str, tuple[str, ...]] = {
    "finishing the batch": ("before finish", "in finish", "before StopQuery", "in StopQuery"),
    "before the move": ("after StopQuery", "before Repartition", "in RunOpenBatch"),
    "in the move": ("in Repartition",),
    "after the move": ("after Repartition", "before StartQuery"),
    "before the first batch": ("in StartQuery", "after StartQuery"),
    "coming back": ("in Boot", "before ReadCheckpoint", "in StartQuery", "after StartQuery"),
    "any moment": ("",),
}
# Phases of a blue-green rescale; all but the last come before the hand-over.
OVERLAP_PHASES: dict[str, tuple[str, ...]] = {
    "copying": ("before CopyCheckpoint", "in CopyCheckpoint"),
    "moving the copy": ("before Repartition", "in Repartition"),
    "catching up": ("before CatchUp", "in CatchUp"),
    "handing over": ("before HandOver", "in HandOver"),
    "before the rename": ("after HandOver",),
    "after the rename": ("before LetWrite", "in LetWrite", "after LetWrite"),
}
# Phases of a relaunch with other executor sizes.
GOING_BACK = "going back"
RELAUNCH_PHASES: dict[str, tuple[str, ...]] = {
    "settings written": ("written",),
    "stopping": ("before finish", "in finish", "before StopQuery", "in StopQuery"),
    "stopped": ("left", "before Shutdown", "in Shutdown"),
    "begun": ("in Boot",),
    "before its first batch": ("before ReadCheckpoint", "in StartQuery", "after StartQuery"),
    GOING_BACK: tuple(f"{BACK}{phase}" for phase in ("in Boot", "before ReadCheckpoint", "in StartQuery")),
}
# With a fenced sink, a batch that was cut short is carried over instead of run first.
_CARRIED_OVER = {"in RunOpenBatch": ("in CopyCheckpoint", "before PlanBatch", "after PlanBatch")}
WITHOUT_STATE = ("finishing the batch", "before the first batch", "coming back", "any moment")
VICTIMS = ("driver", "JVM", "controller", "executor")


@dataclass(frozen=True)
class Kill:
    """A process to kill in a phase of a job."""

    job: str
    phase: str
    victim: str


@dataclass
class Outcome:
    """The state of the job after a kill.

    Attributes:
        kill: the kill.
        kills: processes that were killed.
        missed: the phase was not reached, so no process was killed.
        down: the job does not run again.
        lost, doubled: records that are missing, or counted too often.
        left: processes of former drivers that still run.
        records: records that the job got.
        seconds: duration.
        detail: reason for a failure.
    """

    kill: Kill
    kills: int = 0
    missed: bool = False
    down: bool = False
    lost: int = 0
    doubled: int = 0
    left: int = 0
    records: int = 0
    seconds: float = 0.0
    detail: str = ""


@dataclass
class Fire:
    """A home of a job, with a controller."""

    job_name: str
    folder: Path
    chance: random.Random
    master: str = "local[8]"  # slots for two queries at once
    conf: dict[str, str] = field(default_factory=dict)
    java: str = JAVA
    first: int = _RECORDS  # records in the first file
    fenced: bool = False  # a blue-green rescale is possible for each sink
    executors: Callable[[], list[int]] = list
    sized: bool = False  # the job can be relaunched

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
        self.driver, self.drivers, self.relaunches = 0, set[int](), 0
        self.parallelism = self.draw_parallelism({})
        self.process: Any = None
        self.pipe: Pipe
        self._fork("")
        self.feeder = Feeder(self.folder / "in", self.first)

    def draw_parallelism(self, other_than: dict[str, int]) -> dict[str, int]:
        """Return a random parallelism with another number of state partitions."""
        while True:
            drawn = {name: self.chance.randint(1, 2) for name in self.job.topology}
            drawn |= dict.fromkeys(
                (name for name, op in self.job.topology.operators.items() if op.stateful), self.chance.randint(1, 4)
            )
            stateful = [name for name, op in self.job.topology.operators.items() if op.stateful]
            if drawn != other_than and all(drawn[name] != other_than.get(name) for name in stateful):
                return drawn

    def up(self) -> Up:
        """Return the answer of the controller once the job runs, or is down."""
        answer = self._receive()
        assert isinstance(answer, Up), answer
        return self._note_driver(answer)

    def _note_driver(self, answer: Up) -> Up:
        if answer.driver:
            self.driver = answer.driver
            self.drivers.add(answer.driver)
        return answer

    def rescale(self, patience: float = 10.0, how: str = "in-place") -> Up:
        """Rescale without a kill. First the controller observes the job, and starts it if a late kill hit it."""
        self.pipe.send("look")
        self.up()
        self.pipe.send(Rescale(self.draw_parallelism(self.parallelism), patience, how=how))
        up = self.up()
        self.parallelism = up.running or self.parallelism
        return up

    def check(self, outcome: Outcome) -> None:
        """Pause the input until the job has processed all records, and compare the results.

        Records count as lost once the job makes no progress for `_NO_PROGRESS_SECONDS`.
        """
        try:
            self._compare(outcome, self.feeder.pause())
        finally:
            self.feeder.go_on()

    def _compare(self, outcome: Outcome, records: int) -> None:
        outcome.records = outcome.lost = records
        until = time.monotonic() + _NO_PROGRESS_SECONDS
        while not outcome.down:
            before = outcome.lost
            with contextlib.suppress(OSError, ValueError):  # a file is just being written
                outcome.lost, outcome.doubled = count_differences(self.job, records)
            if outcome.lost < before:
                until = time.monotonic() + _NO_PROGRESS_SECONDS
            if not outcome.lost or outcome.doubled or time.monotonic() > until:
                break
            time.sleep(0.5)
            self.pipe.send("look")
            up = self.up()
            outcome.down, outcome.detail = up.running is None, up.detail or outcome.detail

    def rescale_under_fire(self, kill: Kill) -> Outcome:
        """Rescale the job, kill a process in a phase, and compare the results."""
        began, outcome = time.monotonic(), Outcome(kill)
        point = cut = self.chance.choice({**PHASES, **OVERLAP_PHASES}[kill.phase])
        if self.fenced or self.job_name in FENCED:
            point = self.chance.choice(_CARRIED_OVER.get(cut, (cut,)))
        how = "overlap" if kill.phase in OVERLAP_PHASES else "in-place"
        back = kill.phase == "coming back"
        # A rescale that cuts a batch off must run it to its end before it moves state, or carry it over.
        patience = 0.0 if cut == "in RunOpenBatch" or self.chance.random() < 0.3 else 10.0
        first = self.chance.choice(("before finish", "after StopQuery", "before StartQuery")) if back else point
        self.pipe.send(Rescale(self.draw_parallelism(self.parallelism), patience, first, how))
        up = self._kill_in_phase(kill, first, outcome, then=point if back else "")
        return self._judge(outcome, up, began)

    def relaunch_under_fire(self, kill: Kill) -> Outcome:
        """Relaunch the job with another heap, kill a process, and compare. `GOING_BACK` needs a too small heap."""
        began, outcome = time.monotonic(), Outcome(kill)
        point, self.relaunches = self.chance.choice(RELAUNCH_PHASES[kill.phase]), self.relaunches + 1
        heap = 100 if kill.phase == GOING_BACK else 600 + 20 * (self.relaunches % 5)
        following = NextLaunch(self.relaunches, {"spark.executor.memory": f"{heap}m"}, PATIENCE.start, 600.0)
        self.pipe.send(Relaunch(following, point))
        self._judge(outcome, self._kill_in_phase(kill, point, outcome, then=""), began)
        launches = LaunchLog(self.folder / "home", self.settings.conf)
        if not outcome.down and launches.launch.former is not None and launches.arrived is None:
            outcome.down, outcome.detail = True, f"{launches.launch} did not come up"
        outcome.detail = outcome.detail or launches.launch.why
        return outcome

    def _judge(self, outcome: Outcome, up: Up, began: float) -> Outcome:
        outcome.missed = outcome.kills == 0
        outcome.down = up.running is None
        outcome.detail = up.detail
        if up.running is not None:
            self.parallelism = up.running
            self.check(outcome)
        outcome.left = self._count_leftovers()
        outcome.seconds = time.monotonic() - began
        return outcome

    def close(self) -> int:
        """End the job and return the number of processes that still run."""
        self.feeder.end()
        with contextlib.suppress(OSError):
            self.pipe.send("close")
        self.process.join(60)
        self.process.kill()
        self.process.join()
        return self._count_leftovers(closed=True)

    def _kill_in_phase(self, kill: Kill, point: str, outcome: Outcome, then: str) -> Up:
        """Wait for a phase, kill, and wait until the job runs again. `then` is a second phase, of the recovery."""
        answer = self._receive() if point else self._receive(within=self.chance.uniform(0.0, 6.0))
        if isinstance(answer, Up):
            self._note_driver(answer)
            if point:
                return answer  # the phase was not reached
            self._kill(kill.victim, outcome)  # the rescale is over; this is a moment too
            if kill.victim == "controller":
                self._fork("")
                return self.up()
            return answer
        if isinstance(answer, Reached):
            self.driver = answer.driver
            self.drivers.add(answer.driver)
        waits = isinstance(answer, Reached) and not answer.phase.startswith("in ")
        if not waits and point:
            time.sleep(self.chance.uniform(0.0, 1.5))
        self._kill(kill.victim, outcome)
        if kill.victim == "controller":
            self._fork(then)
        elif waits:
            self.pipe.send(then)
        return self._kill_in_phase(kill, then, outcome, "") if then else self.up()

    def _kill(self, victim: str, outcome: Outcome) -> None:
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
                    _await_death(self.driver)

    def _pids(self, victim: str) -> list[int]:
        if victim == "driver":
            return [self.driver]
        if victim == "JVM":
            return [process.pid for process in session_members(self.driver) if _name_of(process) == "java"]
        return self.executors()

    def _count_leftovers(self, *, closed: bool = False) -> int:
        """Return the number of processes of former drivers, or of all drivers when the job is `closed`."""
        drivers = self.drivers if closed else self.drivers - {self.driver}
        until = time.monotonic() + _GONE_SECONDS
        while left := sum(1 for driver in drivers for _ in session_members(driver)):
            if time.monotonic() > until:
                return left
            time.sleep(0.2)
        return 0

    def _fork(self, pause: str) -> None:
        """Fork a controller, which has its libraries loaded already."""
        fork = get_context("fork")
        ours, theirs = fork.Pipe()
        arguments = (theirs, self.settings, self.folder / "home", self.parallelism, pause, self.sized)
        self.process = fork.Process(target=control, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        self.pipe = ours

    def _receive(self, within: float = _UP_SECONDS) -> Any:
        """Return the next answer of the controller, or None without an answer in time."""
        try:
            if self.pipe.poll(within):
                return self.pipe.recv()
        except (EOFError, OSError):
            return Up(None, 0, "the controller ended by itself")
        return None if within < _UP_SECONDS else Up(None, 0, f"the controller did not answer for {within:.0f} s")


class Feeder:
    """Writes records, one file after the other."""

    def __init__(self, folder: Path, first: int) -> None:
        self._folder, self._records = folder, 0
        self._pausing, self._ended = threading.Lock(), threading.Event()
        self._write(first)
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def pause(self) -> int:
        """Stop writing and return the number of records so far."""
        self._pausing.acquire()
        return self._records

    def go_on(self) -> None:
        self._pausing.release()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _feed(self) -> None:
        while not self._ended.wait(_FILE_SECONDS):
            with self._pausing:
                self._write(_RECORDS)

    def _write(self, count: int) -> None:
        numbers = range(self._records, self._records + count)
        draft = self._folder / f".{self._records}.part"
        draft.write_text("".join(f'{{"n":{number}}}\n' for number in numbers))
        draft.rename(self._folder / f"{self._records}.json")
        self._records += count


def count_differences(job: Job, records: int) -> tuple[int, int]:
    """Return the numbers of missing and of doubled results."""
    found, expected = job.found(), job.expected(records)
    return (expected - found).total(), (found - expected).total()


def _await_death(pid: int) -> None:
    """Wait until a killed driver is gone. It ends a moment after its JVM, so an earlier look would find it alive."""
    until = time.monotonic() + _GONE_SECONDS
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        while process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1:
            if time.monotonic() > until:
                return
            time.sleep(0.02)


def _name_of(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return str(process.name())
    return ""
