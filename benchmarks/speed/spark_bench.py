"""What the Spark engine costs: `python -m benchmarks.speed.spark_bench`. A quarter of an hour, on a quiet machine.

marks     marks + event log + reading it, as a share of batch time and of CPU time: two queries of the same job in one
          session, one marked and one bare, given equal batches in turn, the marked one with the log and without; for
          the word count as the demo tunes it, and for one that does nothing but count as fast as it can
restart   from asking for another parallelism to the first committed batch, in a warm session
rescale   the same with 10⁵ keys of state to be moved, by phase
memory    host, JVM and Python workers of a 16-slot demo
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
_WARMING = 10  # rounds


class Bare(Flow):
    """The same stages without the marks."""

    def _mark(self, name: str, df: DataFrame, arrival: str = "") -> DataFrame:  # noqa: ARG002 - as its parent has it
        return df


class Side:
    """One of the two queries: it takes batches of equal size when it is told to."""

    def __init__(self, spark: SparkSession, folder: Path, flow: type[Flow], job: WordCount, rows: int) -> None:
        self.folder, self.rows, self.offered, self.done = folder, rows, 0, -1
        folder.mkdir()
        self._offer()
        k = {"source": 2, "flatmap": 4, "count": 4, "sink": 2}
        writer = job.build(flow(spark, job.topology, k, folder / "load.json"))
        self.query: StreamingQuery = writer.option("checkpointLocation", str(folder / "checkpoint")).start()

    def batch(self) -> float:
        """Seconds from trigger to commit."""
        self.offered += 1000
        self._offer()
        while True:
            self.query.processAllAvailable()
            last = self.query.lastProgress
            # Idle time is reported as well, under the number of the batch to come.
            if last and last.numInputRows and last.batchId > self.done:
                self.done = last.batchId
                return float(last.durationMs["triggerExecution"]) / 1000

    def _offer(self) -> None:
        source = SourceLoad((Segment(0, 0, constant_schedule(float(self.rows))),), started_ms=0, limit_ms=self.offered)
        load_file.write_load(QueryLoad({"source": source}), self.folder / "load.json")


class Log:
    """The event log, switched on and off: its listener on the bus, and somebody who reads along as the engine does,
    twenty times a second. `off` returns when all that was logged is written and read."""

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
        self._bus.removeListener(self._listener)  # the queue's last listener: waits until the queue is empty
        self._stop.set()
        self._reading.join()
        self._reading = None
        self._watch.poll()

    def _read(self) -> None:
        while not self._stop.wait(0.05):
            self._watch.poll()


def as_in_the_demo() -> WordCount:
    return WordCount(**yaml.safe_load(DEMO.read_text())["spark"]["options"])


def marks(work: Path, job: WordCount, rows: int, rounds: int) -> dict[str, object]:
    """Equal batches without anything, with the marks, and with marks and log, in an order drawn anew each round."""
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
    for number in range(rounds + _WARMING):
        for way in chance.sample(list(ways), len(ways)):
            side, logged = ways[way]
            before = _cpu_seconds()
            if logged:
                log.on()
            took = side.batch()
            log.off()
            if number >= _WARMING:
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
        "marks_cost": cost(seconds["marks"], seconds["bare"]),
        "cost": cost(seconds["marks and log"], seconds["bare"]),
        "marks_cpu_cost": cost(cpu["marks"], cpu["bare"]),
        "cpu_cost": cost(cpu["marks and log"], cpu["bare"]),  # a busy machine does not blur it
        "goal_percent": 5.0,
    }


def restart(work: Path, times: int) -> dict[str, object]:
    """Trials at changing parallelism; the first one warms the session and does not count."""
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


def rescale(work: Path, times: int) -> dict[str, object]:
    """A burst fills the state, then it is moved back and forth under a low load."""
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
        "median_downtime_seconds": round(statistics.median(seconds), 2),
        "slowest_downtime_seconds": round(max(seconds), 2),
        "phases": _median_phases(phases),
        "goal_seconds": 10.0,
    }


def memory(work: Path) -> dict[str, object]:
    """Every operator on all sixteen slots, so that there are as many workers as there can be."""
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
                rss, pss = (_total(members, kind) for kind in ("rss", "pss"))
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
    """JSON-able; seconds, megabytes, per cent, each beside its goal."""
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="spark-bench-", ignore_cleanup_errors=True) as folder:
        for name, measure in (
            ("marks", lambda work: marks(work, as_in_the_demo(), 1000, rounds)),
            ("marks_without_stalls", lambda work: marks(work, WordCount(), 20_000, rounds)),
            ("restart", lambda work: restart(work, times)),
            ("rescale", lambda work: rescale(work, times)),
            ("memory", memory),
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
    """Of this process and all its children, ended ones too: the driver, the JVM and the Python workers."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])
    return total


def cost(these: list[float], those: list[float], draws: int = 2000) -> dict[str, object]:
    """What these cost more than those of the same rounds: the median in per cent, and its 95 % interval."""
    differences = [100 * (a - b) / b for a, b in zip(these, those, strict=True)]
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(differences, k=len(differences))) for _ in range(draws))
    low, high = medians[draws // 40], medians[-draws // 40]
    return {"percent": round(statistics.median(differences), 1), "between": [round(low, 1), round(high, 1)]}


def _total(members: list[psutil.Process], kind: str) -> float:
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
