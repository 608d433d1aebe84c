"""A program on a cluster that is relaunched repeatedly; a process is killed in a chosen phase of each relaunch.

Afterwards one launch must go on, every record must be counted once, and the action log must have the result.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from autotrascale.domain.decision import Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.executor_window import ExecutorSizes
from autotrascale.execute.spark.common.program_environment import ProgramOptions
from autotrascale.execute.spark.common.program_folder import LAUNCH_FILE, PYTHON_FILE, READY_FILE, STOPPING_FILE
from autotrascale.execute.spark.common.program_records import belongs_to_program
from autotrascale.execute.spark.controller.program_command import parse_command
from autotrascale.execute.spark.controller.program_process import ProgramProcess
from autotrascale.knowledge.decision_journal import size_action_log as action_log
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.testing import standalone_cluster
from benchmarks.faults.relaunches import controller
from benchmarks.faults.relaunches import program as script

NAME = "counts"  # of the application
VICTIMS = ("driver", "JVM", "supervisor", "controller", "executor")
SMALL, LARGE, NONE = 512, 600, 100  # MB of heap; with the last one Spark does not start
BACK = "going back"
# In the first two phases the controller waits. All other phases are seen in files and processes.
PHASES = (
    controller.WRITTEN,
    controller.ASKED,
    "stopping",
    "stopped",
    "ended",
    "begun",
    "before its first batch",
    "on trial",
    BACK,
)
_UP_SECONDS, _PHASE_SECONDS, _DONE_SECONDS, _GONE_SECONDS = 300.0, 180.0, 300.0, 30.0
_LOOK_SECONDS = 0.01  # a phase may be short
_ENVIRONMENT = {**os.environ, "PYSPARK_PYTHON": sys.executable}
_JOB = """
job: counts
program: {executors: {minimum: 1, maximum: 1}}
sizes: {window_seconds: 2.0, a_day: 1000}
"""


@dataclass(frozen=True)
class Kill:
    phase: str
    victim: str


@dataclass
class Outcome:
    """Result of a kill. `launches_at_once`: the most at a time. `became`: the last entry of the action log."""

    kill: Kill
    killed: bool = False
    became: str = ""
    down: bool = False
    launches_at_once: int = 0
    lost: int = 0
    doubled: int = 0
    left: int = 0
    launch: int = 0
    why: str = ""  # by the last entry of the action log
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        wanted = ("taken-back",) if self.kill.phase == BACK else ("kept", "taken-back")
        faults = (self.down, self.launches_at_once != 1, self.lost, self.doubled, self.left, self.became not in wanted)
        return not any(faults)


@dataclass
class Fire:
    cluster: standalone_cluster.StandaloneCluster
    folder: Path
    chance: random.Random
    java: str = standalone_cluster.JAVA
    program: ProgramProcess = field(init=False)
    controllers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        (self.folder / "job.yaml").write_text(_JOB)
        (self.folder / "store").mkdir()
        self.decisions = DecisionJournal(self.folder / "store" / "decisions.db")
        settings = {
            **standalone_cluster.conf(1, f"{SMALL}m"),
            "spark.cores.max": "1",
            "spark.ui.enabled": "false",
            "spark.log.level": "OFF",
            "spark.driver.memory": "600m",
            "spark.sql.shuffle.partitions": "1",
            "spark.executor.memoryOverhead": "384m",
            "spark.driver.extraJavaOptions": self.java,
        }
        words = [str(Path(sys.executable).with_name("spark-submit")), "--master", self.cluster.url]
        for name, value in settings.items():
            words += ["--conf", f"{name}={value}"]
        words += [script.__file__, str(self.folder / "checkpoint"), str(self.out)]
        self.program = ProgramProcess.start(
            parse_command(words),
            self.folder / "p",
            ProgramOptions(apply=True, memory_metrics=True),
            environment=_ENVIRONMENT,
            all_to_stderr=True,
        )
        return self

    def up(self) -> bool:
        return self._await(lambda: self._batches() > 3, _UP_SECONDS)

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for each in self.controllers:
            each.kill()
            each.wait()
        self.program.kill()
        self.decisions.close()

    def under_fire(self, kill: Kill) -> Outcome:
        began, outcome = time.monotonic(), Outcome(kill)
        number = self._ask(kill)
        for sign in (controller.REACHED, controller.GO):
            (self.program.folder / sign).unlink(missing_ok=True)
        now = self._control(kill.phase)
        launch = self.program.launch.number
        if self._await(lambda: self._in(kill.phase, launch, number), _PHASE_SECONDS, _LOOK_SECONDS):
            outcome.killed = self._strike(kill.victim, now)
        (self.program.folder / controller.GO).touch()
        if kill.victim == "controller":
            self._control("")
        watch = _Watch(self.program.folder)
        self._await(lambda: watch.look() and self._became(number) in ("kept", "taken-back", "given-up"), _DONE_SECONDS)
        seen = self._batches()
        grows = self._await(lambda: watch.look() and self._batches() > seen + 2, _UP_SECONDS)
        outcome.down = not grows or self.program.exit_code() is not None
        outcome.became, outcome.why = self._became(number), self._why(number)
        outcome.launches_at_once = watch.most if not outcome.down else 0
        outcome.lost, outcome.doubled = script.lost_and_doubled(self.out)
        outcome.left, outcome.launch = self._left(), self.program.launch.number
        self._end_controllers()
        outcome.seconds = time.monotonic() - began
        return outcome

    def close(self) -> int:
        """End the program by SIGTERM, and return the number of processes that are left."""
        self.program.send_signal(signal.SIGTERM)
        self.program.wait(60.0)
        return self._left(closed=True)

    def _ask(self, kill: Kill) -> int:
        """Append a request to the action log, as a policy would."""
        done = action_log.read_actions(self.decisions, NAME)
        number = max((each.number for each in done), default=0) + 1
        heap = int(self.program.launch.settings.get("spark.executor.memory", f"{SMALL}m").removesuffix("m"))
        wanted = NONE if kill.phase == BACK else LARGE if heap == SMALL else SMALL
        before, after = ExecutorSizes(heap, 384, 1, 1), ExecutorSizes(wanted, 384, 1, 1)
        reason = Reason("P1-heap", "requested by the benchmark")
        action_log.append_actions(
            self.decisions, NAME, [SizeChange(number, "asked", time.time(), "P1", "heap", before, after, reason)]
        )
        return number

    def _control(self, phase: str) -> subprocess.Popen[bytes]:
        store = f"sqlite:///{self.folder / 'store' / 'mlflow.db'}"
        words = [phase, str(self.program.folder), str(self.folder / "job.yaml"), store]
        with (self.folder / "controllers.log").open("ab") as log:
            found = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.faults.relaunches.controller", *words],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**_ENVIRONMENT, "PYTHONPATH": str(Path(__file__).parents[3])},
            )
        self.controllers.append(found)
        return found

    def _end_controllers(self) -> None:
        for each in self.controllers:
            each.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                each.wait(30)
            each.kill()
            each.wait()
        self.controllers.clear()

    def _in(self, phase: str, launch: int, action: int) -> bool:
        folder = self.program.folder
        now = self.program.launch
        match phase:
            case controller.WRITTEN | controller.ASKED:
                return (folder / controller.REACHED).exists()
            case "stopping":
                return (folder / STOPPING_FILE).exists()
            case "stopped":
                return _says(folder / STOPPING_FILE, '"at"')
            case "ended":
                return (folder / STOPPING_FILE).exists() and not belongs_to_program(self.program.record.program, folder)
            case "begun":
                return now.number > launch
            case "before its first batch":
                return now.number > launch and self.program.record.launch == now.number and _fresh(folder)
            case "on trial":
                return now.number > launch and (folder / READY_FILE).exists()
            case _:
                return bool(now.number > launch and now.action == action and now.why)

    def _strike(self, victim: str, now: subprocess.Popen[bytes]) -> bool:
        if victim == "controller":
            now.kill()
            now.wait()
            return True
        until = time.monotonic() + _PHASE_SECONDS
        while time.monotonic() < until:
            pid = self._pid(victim)
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    return True
            time.sleep(0.05)
        return False

    def _pid(self, victim: str) -> int | None:
        match victim:
            case "supervisor":
                return self.program.record.supervisor
            case "executor":
                return next(iter(self.cluster.executors()), None)
            case "JVM":
                pid: int | None = self.program.record.program
            case _:
                pid = _driver(self.program.folder)
        return pid if pid is not None and belongs_to_program(pid, self.program.folder) else None

    def _became(self, number: int) -> str:
        said = [each.what for each in action_log.read_actions(self.decisions, NAME) if each.number == number]
        return said[-1] if said else ""

    def _why(self, number: int) -> str:
        said = [each.reason.text for each in action_log.read_actions(self.decisions, NAME) if each.number == number]
        return said[-1] if said else ""

    def _batches(self) -> int:
        return len(list(self.out.glob("*.json"))) if self.out.exists() else 0

    def _left(self, *, closed: bool = False) -> int:
        """Count processes of the program beside its supervisor and its present launch."""
        until = time.monotonic() + _GONE_SECONDS
        while left := len(list(self._strays(closed=closed))):
            if time.monotonic() > until:
                return left
            time.sleep(0.2)
        return 0

    def _strays(self, *, closed: bool) -> Iterator[psutil.Process]:
        record = self.program.record
        ours = () if closed else (record.supervisor, record.session)
        for process in psutil.process_iter():
            with suppress(OSError, psutil.Error):
                if belongs_to_program(process.pid, self.program.folder) and os.getsid(process.pid) not in ours:
                    yield process

    def _await(self, sign: Callable[[], bool], seconds: float, every: float = 0.3) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with suppress(InputError, FileNotFoundError):  # a file that is just being removed
                if sign():
                    return True
            time.sleep(every)
        return False


class _Watch:
    """Counts the drivers of a program that run at the same time."""

    _EVERY = 0.5

    def __init__(self, folder: Path) -> None:
        self.most, self._folder, self._due = 0, folder, 0.0

    def look(self) -> bool:
        if time.monotonic() < self._due:
            return True
        count = 0
        for process in psutil.process_iter(["name"]):
            with suppress(OSError, psutil.Error):
                if process.info["name"] == "java" and belongs_to_program(process.pid, self._folder):
                    count += "SparkSubmit" in " ".join(process.cmdline())
        self.most, self._due = max(self.most, count), time.monotonic() + self._EVERY
        return True


def _driver(folder: Path) -> int | None:
    import json

    with suppress(OSError, ValueError, KeyError):
        return int(json.loads((folder / PYTHON_FILE).read_text())["pid"])
    return None


def _fresh(folder: Path) -> bool:
    """Return whether the Python of the present launch has started."""
    with suppress(OSError):
        return (folder / PYTHON_FILE).stat().st_mtime > (folder / LAUNCH_FILE).stat().st_mtime
    return False


def _says(path: Path, text: str) -> bool:
    with suppress(OSError):
        return text in path.read_text()
    return False
