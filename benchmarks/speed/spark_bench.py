"""Costs of the Spark engine. Takes a quarter of an hour on an idle machine.

marks     cost of marks, event log and its reader as a share of batch time and of CPU time. Two queries of one job run
          in one session, one with marks and one without, with equal batches in turn, with and without the log. Measured
          for the word count of the demo, and for a word count without stalls
restart   time from the request of another parallelism to the first committed batch, in a warm session
rescale   the same with 100,000 keys of state to move, by phase
memory    memory of driver, JVM and Python workers with 16 slots

    python -m benchmarks.speed.spark_bench
"""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from autotrascale.analyze.live.query_run import QueryWatch
from autotrascale.analyze.stability import StabilityRules
from autotrascale.execute.spark.clusters.session_configuration import build_configuration, event_log_folder
from autotrascale.execute.spark.common.processes import session_members
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.trial_engine import SparkEngine
from autotrascale.execute.spark.driver_agent.spark_session import open_session
from autotrascale.execute.spark.jobs import load_file
from autotrascale.execute.spark.jobs.flow import Flow
from autotrascale.execute.spark.jobs.load_file import QueryLoad, Segment, SourceLoad
from autotrascale.execute.spark.jobs.rate_schedule import constant_schedule
from autotrascale.execute.spark.jobs.wordcount import WordCount
from autotrascale.monitor.eventlog.follower import Follower

DEMO = Path(__file__).parents[2] / "configs" / "wordcount.yaml"
JOB = "autotrascale.execute.spark.jobs.wordcount:WordCount"
_MEGABYTE = 2**20
_WARM_UP_ROUNDS = 10


class Bare(Flow):
    """A flow with the same stages and no marks."""

    def _mark(self, name: str, df: DataFrame, arrival: str = "") -> DataFrame:  # noqa: ARG002 - same signature as the base class
        return df


class Side:
    """One of the two queries, which runs a batch of `rows` rows on request."""

    def __init__(self, spark: SparkSession, folder: Path, flow: type[Flow], job: WordCount, rows: int) -> None:
        self.folder, self.rows, self.offered, self.done = folder, rows, 0, -1
        folder.mkdir()
        self._offer()
        k = {"source": 2, "flatmap": 4, "count": 4, "sink": 2}
        writer = job.build(flow(spark, job.topology, k, folder / "load.json"))
        self.query: StreamingQuery = writer.option("checkpointLocation", str(folder / "checkpoint")).start()

    def batch(self) -> float:
        """Run a batch and return the seconds from trigger to commit."""
        self.offered += 1000
        self._offer()
        while True:
            self.query.processAllAvailable()
            last = self.query.lastProgress
            # Spark also reports idle time, with the number of the next batch.
            if last and last.numInputRows and last.batchId > self.done:
                self.done = last.batchId
                return float(last.durationMs["triggerExecution"]) / 1000

    def _offer(self) -> None:
        source = SourceLoad((Segment(0, 0, constant_schedule(float(self.rows))),), started_ms=0, limit_ms=self.offered)
        load_file.write_load(QueryLoad({"source": source}), self.folder / "load.json")


class Log:
    """The event log, which can be switched on and off, and a thread that reads it 20 times a second, like the engine.

    `off` returns once the whole log is written and read.
    """

    def __init__(self, spark: SparkSession, work: Path) -> None:
        context: Any = spark.sparkContext._jsc.sc()
        self._bus, self._listener = context.listenerBus(), context.eventLogger().get()
        self._watch = QueryWatch(Follower(event_log_folder(work), spark.sparkContext.applicationId, consume=True))
        self._reading: threading.Thread | None = None
        self._stop = threading.Event()
        self._bus.removeListener(self._listener)

    def on(self) -> None:
        self._bus.addToEventLogQueue(self._listener)
        self._stop.clear()
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def off(self) -> None:
        if self._reading is None:
            return
        self._bus.removeListener(self._listener)  # removing the last listener waits for an empty queue
        self._stop.set()
        self._reading.join()
        self._reading = None
        self._watch.poll()

    def _read(self) -> None:
        while not self._stop.wait(0.05):
            self._watch.poll()


def make_demo_job() -> WordCount:
    return WordCount(**yaml.safe_load(DEMO.read_text())["spark"]["options"])


def measure_marks(work: Path, job: WordCount, rows: int, rounds: int) -> dict[str, object]:
    """Run equal batches without marks, with marks, and with marks and log, in random order in each round."""
    event_log_folder(work).mkdir()
    conf = build_configuration(settings(work), work) | {"spark.sql.streaming.pollingDelay": "100ms"}
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = open_session(conf, work, 60.0)
    spark.conf.set("spark.sql.shuffle.partitions", "4")
    log = Log(spark, work)
    marked, bare = Side(spark, work / "marked", Flow, job, rows), Side(spark, work / "bare", Bare, job, rows)
    ways = {"bare": (bare, False), "marks": (marked, False), "marks and log": (marked, True)}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    cpu: dict[str, list[float]] = {way: [] for way in ways}
    chance = random.Random(0)
    for number in range(rounds + _WARM_UP_ROUNDS):
        for way in chance.sample(list(ways), len(ways)):
            side, logged = ways[way]
            before = _cpu_seconds()
            if logged:
                log.on()
            took = side.batch()
            log.off()
            if number >= _WARM_UP_ROUNDS:
                seconds[way].append(took)
                cpu[way].append(_cpu_seconds() - before)
    for side in (marked, bare):
        side.query.stop()
    spark.stop()
    return {
        "rounds": rounds,
        "rows_per_batch": rows,
        "batch_seconds": {way: round(statistics.median(seconds[way]), 3) for way in ways},
        "cpu_seconds": {way: round(statistics.median(cpu[way]), 3) for way in ways},
        "marks_cost": compare_cost(seconds["marks"], seconds["bare"]),
        "cost": compare_cost(seconds["marks and log"], seconds["bare"]),
        "marks_cpu_cost": compare_cost(cpu["marks"], cpu["bare"]),
        "cpu_cost": compare_cost(cpu["marks and log"], cpu["bare"]),  # hardly affected by a busy machine
        "goal_percent": 5.0,
    }


def measure_restart(work: Path, times: int) -> dict[str, object]:
    """Run trials at changing parallelism. The first one warms the session and does not count."""
    vectors = [(2, 4, 4, 2), (1, 6, 3, 1), (2, 5, 2, 2)]
    seconds, phases = [], []
    with SparkEngine(settings(work)) as engine:
        for number in range(times + 1):
            k = engine.topology.named(vectors[number % len(vectors)])
            engine.run(k, {"source": 500.0})
            if number:
                seconds.append(engine.report.standstill_seconds)
                phases.append(engine.report.phases)
    return {
        "restarts": times,
        "median_seconds": round(statistics.median(seconds), 2),
        "slowest_seconds": round(max(seconds), 2),
        "phases": _median_phases(phases),
        "goal_seconds": 2.0,
    }


def measure_rescale(work: Path, times: int) -> dict[str, object]:
    """Fill the state with a burst of records, and then move it back and forth at a low rate."""
    keep = replace(
        settings(work),
        between_trials="keep",
        options={"vocabulary": 150_000, "words_per_sentence": 20},
        window=StabilityRules(window_seconds=5.0, min_batches=4, tolerance=0.5, max_seconds=60.0),
    )
    seconds, phases, keys = [], [], 0
    with SparkEngine(keep) as engine:
        engine.run(engine.topology.named((2, 2, 4, 2)), {"source": 2500.0})
        for number in range(times):
            k = engine.topology.named((2, 2, 2 if number % 2 == 0 else 6, 2))
            engine.run(k, {"source": 50.0})
            seconds.append(engine.report.standstill_seconds)
            phases.append(engine.report.phases)
            keys = engine.window.state_keys if engine.window else keys
    return {
        "rescales": times,
        "state_keys": keys,
        "median_standstill_seconds": round(statistics.median(seconds), 2),
        "slowest_standstill_seconds": round(max(seconds), 2),
        "phases": _median_phases(phases),
        "goal_seconds": 10.0,
    }


def measure_memory(work: Path) -> dict[str, object]:
    """Run operators on all 16 slots, which starts the largest number of workers."""
    sixteen = replace(settings(work), master="local[16]", options={"flatmap_stall": 0.001})
    most_rss, most_pss, processes = 0.0, 0.0, 0
    with SparkEngine(sixteen) as engine:
        for k in ((16, 16, 4, 4), (4, 16, 8, 16)):
            done = threading.Event()
            trial = threading.Thread(target=_run, args=(engine, k, done))
            leader = engine._connect().process.pid
            trial.start()
            while not done.wait(1.0):
                members = list(session_members(leader))
                rss, pss = (_sum_memory(members, kind) for kind in ("rss", "pss"))
                most_rss, most_pss, processes = max(most_rss, rss), max(most_pss, pss), max(processes, len(members))
            trial.join()
    return {
        "slots": 16,
        "processes": processes,
        "rss_megabytes": round(most_rss / _MEGABYTE),
        "pss_megabytes": round(most_pss / _MEGABYTE),
        "goal_megabytes": 3072,
    }


def settings(work: Path) -> SparkSettings:
    return SparkSettings(
        JOB, master="local[8]", work_dir=str(work), window=StabilityRules(3.0, 3, tolerance=0.5, max_seconds=30.0)
    )


def figures(rounds: int = 60, times: int = 6) -> dict[str, object]:
    """Return the results as JSON data: seconds, megabytes and per cent, each with its goal."""
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="spark-bench-", ignore_cleanup_errors=True) as folder:
        for name, measure in (
            ("marks", lambda work: measure_marks(work, make_demo_job(), 1000, rounds)),
            ("marks_without_stalls", lambda work: measure_marks(work, WordCount(), 20_000, rounds)),
            ("restart", lambda work: measure_restart(work, times)),
            ("rescale", lambda work: measure_rescale(work, times)),
            ("memory", measure_memory),
        ):
            work = Path(folder) / name
            work.mkdir()
            before = time.monotonic()
            found[name] = measure(work)
            busy = psutil.getloadavg()[0]
            print(f"{name}: {time.monotonic() - before:.0f} s, load average {busy:.1f}", file=sys.stderr)
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "load_average": psutil.getloadavg()[0]}
    return {**found, "machine": machine}


def _run(engine: SparkEngine, k: tuple[int, ...], done: threading.Event) -> None:
    engine.run(engine.topology.named(k), {"source": 3000.0})
    done.set()


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and all its children, also ended ones."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])
    return total


def compare_cost(values: list[float], baseline: list[float], draws: int = 2000) -> dict[str, object]:
    """Return the excess of `values` over `baseline` in the same rounds: median in per cent, and 95 % interval."""
    differences = [100 * (a - b) / b for a, b in zip(values, baseline, strict=True)]
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(differences, k=len(differences))) for _ in range(draws))
    low, high = medians[draws // 40], medians[-draws // 40]
    return {"percent": round(statistics.median(differences), 1), "between": [round(low, 1), round(high, 1)]}


def _sum_memory(members: list[psutil.Process], kind: str) -> float:
    total = 0
    for process in members:
        with suppress(psutil.Error):
            total += getattr(process.memory_full_info(), kind)
    return total


def _median_phases(phases: list[Any]) -> dict[str, float]:
    names = dict.fromkeys(name for each in phases for name in each)
    return {name: round(statistics.median(each.get(name, 0.0) for each in phases), 2) for name in names}


def main() -> None:
    print(json.dumps(figures(), indent=2))


if __name__ == "__main__":
    main()
