"""Run the same program for a day with one way to decide on executors."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotrascale.domain.errors import AuTraScaleError
from autotrascale.execute.spark.clusters.elasticity_settings import choose_elasticity_settings
from autotrascale.execute.spark.common.processes import kill_session
from autotrascale.execute.spark.controller.program_process import ProgramProcess
from autotrascale.execute.spark.driver_agent.session_settings import PROVIDER, ROCKSDB
from autotrascale.plan.sizing.executor_plan import sum_executor_seconds
from autotrascale.testing.standalone_cluster import JAVA, StandaloneCluster, conf
from benchmarks.quality.executors import day as days

CORES = 1
WINDOW_SECONDS = 10.0
_POLL_SECONDS = 0.5
_SAID_SECONDS = 10.0
_START_WITHIN = 180.0
_END_WITHIN = 120.0
_WARM_BATCHES = 8
_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "700m",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.sql.adaptive.enabled": "false",
    PROVIDER: ROCKSDB,
}
# Spark's dynamic allocation without a shuffle service. An executor is released after ten idle seconds: 60 seconds, the
# default, would be hours of the compressed day.
_DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.executorIdleTimeout": "10s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "10s",
}


@dataclass(frozen=True)
class Variant:
    """A way to decide on executors. `kept`: `autotrascale run --apply` decides."""

    name: str
    conf: Mapping[str, str] = field(default_factory=dict)
    kept: bool = False


VARIANTS = (Variant("static peak"), Variant("dynamic allocation", _DYNAMIC), Variant("ours", kept=True))


@dataclass(frozen=True)
class Wanted:
    """Requirements. `target` and `night`, the time before the day, in seconds. `price`: of an executor hour."""

    most: int
    target: float
    night: float
    price: float


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
    late: list[tuple[int, float | None]]  # missed windows: number and mean latency
    releases: list[float]  # seconds from the decision to release executors until they were gone
    rescales: int
    summary: str  # of `autotrascale explain`


def run(variant: Variant, cluster: StandaloneCluster, day: days.Day, folder: Path, wanted: Wanted) -> Outcome:
    return _Run(variant, cluster, day, folder, wanted).outcome()


class _Run:
    def __init__(
        self, variant: Variant, cluster: StandaloneCluster, day: days.Day, folder: Path, wanted: Wanted
    ) -> None:
        self._variant, self._cluster, self._day = variant, cluster, day
        self._folder, self._wanted = folder, wanted
        self._store = f"sqlite:///{folder}/mlflow.db"
        self._feeder = days.Feeder(folder / "in", day)
        self._changes: list[tuple[float, int]] = []
        self._decisions: list[tuple[float, dict[str, Any]]] = []
        self._process: subprocess.Popen[str] | None = None

    def outcome(self) -> Outcome:
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(over,), daemon=True)
        self._process = self._started()
        reader = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        try:
            reader.start()
            watch.start()
            self._feeder.start()
            began = self._night()
            while (left := began + self._day.seconds - time.time()) > 0:
                time.sleep(min(left, _SAID_SECONDS))
                self._check()
                self._say(time.time() - began)
            ended = time.time()
            self._feeder.end()
            (self._folder / "end").touch()
            self._process.wait(_END_WITHIN)
            reader.join(_END_WITHIN)
            return self._judged(began, ended)
        finally:
            over.set()
            self._feeder.end()
            self._end()

    # -- the program ---------------------------------------------------------------------------------------------------

    def _started(self) -> subprocess.Popen[str]:
        program = Path(__file__).with_name("program.py")
        words = [*self._submit(), str(program), str(self._folder), str(self._day.wait_ms)]
        if self._variant.kept:
            words = [*self._keeping(), "--", *words]
        bin_folder = str(Path(sys.executable).parent)
        return subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self._folder,
            start_new_session=True,
            env={**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", "PYSPARK_PYTHON": sys.executable},
        )

    def _submit(self) -> list[str]:
        bounds = (1, self._wanted.most)
        usual = {each.name: each.value for each in choose_elasticity_settings(self._cluster.url, bounds, CORES)}
        most = {"spark.dynamicAllocation.maxExecutors": str(bounds[1])} if self._variant.conf else {}
        # `autotrascale run` itself adds these settings.
        given = {**_CONF, **conf(CORES), **({} if self._variant.kept else usual), **most, **self._variant.conf}
        # Two tasks for each slot of the peak, as Spark's tuning guide recommends.
        given["spark.sql.shuffle.partitions"] = str(2 * bounds[1] * CORES)
        words = [str(Path(sys.executable).with_name("spark-submit")), "--master", self._cluster.url]
        for name, value in given.items():
            words += ["--conf", f"{name}={value}"]
        return words

    def _keeping(self) -> list[str]:
        job = self._folder / "calls.yaml"
        job.write_text(job_file(self._wanted))
        words = [sys.executable, "-m", "autotrascale.cli.main", "run", "--apply", "--format", "json"]
        return [*words, "--store", self._store, "--metrics", "none", str(job)]

    def _listen(self, process: subprocess.Popen[str]) -> None:
        """Read one decision per line, and the time at which it came."""
        assert process.stdout is not None
        for line in process.stdout:
            entry = json.loads(line)
            if "action" in entry:  # else the line is the advice at the end
                self._decisions.append((time.time(), entry))
                self._say_decision()

    def _check(self) -> None:
        assert self._process is not None
        if (code := self._process.poll()) is not None:
            raise RuntimeError(f"{self._variant.name}: the program ended with {code} before its day did")

    def _end(self) -> None:
        """Kill all processes that are left."""
        if self._process is None:
            return
        for found in self._folder.glob("live/*/program-*"):
            with suppress(AuTraScaleError):
                ProgramProcess.find(found).kill()
        kill_session(self._process.pid)
        self._process.wait()

    # -- its day -------------------------------------------------------------------------------------------------------

    def _night(self) -> float:
        """Wait for compiled code and a night of records, and return the time at which the day begins."""
        until, first = time.monotonic() + _START_WITHIN, math.inf
        while len(found := self._batches()) < _WARM_BATCHES or time.time() < first + self._wanted.night:
            self._check()
            first = found[0].ended if found else math.inf
            if time.monotonic() > until + self._wanted.night:
                raise TimeoutError(f"not {_WARM_BATCHES} batches within {_START_WITHIN:.0f} s")
            time.sleep(1.0)
        return self._feeder.begin_day()

    def _batches(self) -> list[days.Batch]:
        return days.batches(self._folder / "progress.jsonl")

    def _watch(self, over: threading.Event) -> None:
        """Record the number of executor processes. A leaving executor is paid until its process is gone."""
        while not over.wait(_POLL_SECONDS):
            there = len(self._cluster.executors())
            if not self._changes or self._changes[-1][1] != there:
                self._changes.append((time.time(), there))

    def _say(self, at: float) -> None:
        """Print the state of the day."""
        found = self._batches()
        behind = self._feeder.records - sum(each.records for each in found)
        last = found[-1]
        say(
            f"{self._variant.name} {at:4.0f} s: {self._day.rate(at):3.0f}/s arrive, {behind:4} behind, newest batch"
            f" {last.seconds:4.1f} s, its mean latency {last.ended - (last.first + last.last) / 2:4.1f} s;"
            f" {self._changes[-1][1] if self._changes else '?'} executors"
        )

    def _say_decision(self) -> None:
        entry = self._decisions[-1][1]
        rate, latency = (entry[name] or math.nan for name in ("rate", "latency_seconds"))
        said = "; ".join(f"{each['code']}: {each['text']}" for each in entry["reasons"])
        say(
            f"    {entry['action']} {_executors(entry['running'])} → {_executors(entry['wanted'])} at"
            f" {rate:.0f}/s, {latency:.1f} s: {said}"
        )

    def _judged(self, began: float, ended: float) -> Outcome:
        counts = json.loads((self._folder / "counts.json").read_text())
        found = Counter({int(customer): int(count) for customer, count in counts.items()})
        lost, doubled = days.count_differences(found, self._feeder.records)
        seconds, batches = self._day.seconds, self._batches()
        windows = days.latencies(batches, began, seconds, WINDOW_SECONDS)
        late = [(n, latency) for n, latency in enumerate(windows) if latency is None or latency > self._wanted.target]
        changes = _since(self._changes, began)
        return Outcome(
            self._variant.name,
            seconds,
            round(sum_executor_seconds(changes, began + seconds), 1),
            max(number for _, number in changes),
            self._feeder.records,
            lost,
            doubled,
            len(windows),
            len(windows) - len(late),
            round(days.mean_latency(batches, began, seconds) or math.nan, 2),
            [(n, None if latency is None else round(latency, 1)) for n, latency in late],
            self._releases(began, ended),
            sum(entry["action"] == "rescale" and at >= began for at, entry in self._decisions),
            self._explained() if self._variant.kept else "",
        )

    def _explained(self) -> str:
        words = [sys.executable, "-m", "autotrascale.cli.main", "explain", "calls.calls", "--store", self._store]
        done = subprocess.run([*words, "--format", "json"], capture_output=True, text=True, check=True)
        return str(json.loads(done.stdout)["summary"])

    def _releases(self, began: float, ended: float) -> list[float]:
        """Return the seconds of each release of the day; infinite if a later decision came first."""
        decided = [(at, entry) for at, entry in self._decisions if entry["action"] == "rescale" and at >= began]
        found = []
        for number, (at, entry) in enumerate(decided, 1):
            later = decided[number][0] if number < len(decided) else ended
            wanted = _executors(entry["wanted"])
            gone = next((then for then, there in self._changes if at <= then < later and there <= wanted), None)
            if wanted < _executors(entry["running"]):
                found += [math.inf if gone is None else round(gone - at, 1)]
        return found


def job_file(wanted: Wanted) -> str:
    """Return a job file for a compressed day, with the shortest times that suit a loop."""
    return f"""
version: 1
job: calls
program: {{executors: {{minimum: 1, maximum: {wanted.most}}}, price: {wanted.price}}}
target: {{latency_seconds: {wanted.target}}}
manager: {{interval_seconds: 4.0, running_seconds: 6.0, scale_down_delay_seconds: 8.0, catch_up_seconds: 30.0}}
autoscale:
  confidence: 0.85
  planning: {{headroom: 0.05, horizon_seconds: 10.0, recall_seconds: 5.0, review_seconds: 8.0, worth: 0.02}}
"""


def _executors(parallelism: Mapping[str, int] | None) -> int:
    return sum((parallelism or {}).values())


def _since(changes: list[tuple[float, int]], began: float) -> list[tuple[float, int]]:
    before = [number for at, number in changes if at <= began]
    return [(began, before[-1] if before else 0), *(each for each in changes if each[0] > began)]


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)
