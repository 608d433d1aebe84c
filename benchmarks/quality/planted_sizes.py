"""The verdicts on wrong executor sizes on a real cluster.

    python -m benchmarks.quality.planted_sizes --keep windows.json

Streaming jobs with executors of a wrong size on standalone clusters on this machine, each with a planted fault
(`planted/sized.py`). The policies judge each window of some seconds with the windows before it. A window counts when
the fault is present in all windows that its policy reads: the state is full, the service slow.

Jobs that need at most one core together run side by side, with three services. Then the jobs that need a core run, two
at a time. `--keep` writes the measurements for tests without Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autotrascale.analyze.executor_usage import BatchUse, ExecutorUsage, QueuedUse
from autotrascale.domain.executor_window import ExecutorWindow
from autotrascale.monitor import host_counters
from autotrascale.monitor.eventlog.follower import Follower
from autotrascale.plan.control.observations.slow_services import ServiceLatencyHistory
from autotrascale.plan.executor_size.judge_sizes import judge_sizes
from autotrascale.plan.executor_size.size_evidence import ExecutorSizeRules, SizeEvidence, SizeFault, WindowPeaks
from autotrascale.testing.standalone_cluster import StandaloneCluster, standalone
from autotrascale.validation import validate
from benchmarks.quality.planted.sized import PLANTED, SETTINGS, Planted, find_planted, service_latency

WINDOW = 5.0
RULES = ExecutorSizeRules(evidence_seconds=6 * WINDOW)
MEASURED = {
    "spark.executor.metrics.pollingInterval": "200ms",
    "spark.executor.processTreeMetrics.enabled": "true",
    "spark.eventLog.logStageExecutorMetrics": "true",
}
QUIET = ("heap", "memory", "leak", "too-much", "service", "service", "service")  # side by side
GROUPS: tuple[tuple[str, ...], ...] = (QUIET, ("cpu", "cpu"), ("cpu", "cpu"))
SECONDS: Mapping[str, float] = {"cpu": 160.0}


@dataclass
class MeasuredFault:
    """The windows of one fault. `services` has the latency of the service in each window, if there is one."""

    fault: SizeFault
    ready: float
    windows: list[ExecutorWindow] = field(default_factory=list)
    services: list[float] = field(default_factory=list)  # seconds


def follow_fault(job: Planted, cluster: StandaloneCluster, folder: Path, seconds: float) -> MeasuredFault:
    """Return the windows of `seconds` from the first batch on."""
    from pyspark.sql import SparkSession

    log = folder / "log"
    log.mkdir(exist_ok=True)
    settings = {**SETTINGS, "spark.eventLog.dir": log.as_uri(), **MEASURED, **job.settings}
    builder = SparkSession.builder.master(cluster.url).appName(job.fault)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        spark.sparkContext.setLogLevel("OFF")
        query = job.writer(spark, folder).start()
        use, follower = ExecutorUsage(), Follower(log, spark.sparkContext.applicationId, consume=False)
        begun = _followed(use, follower, cluster, seconds, lambda at: (folder / "begun").write_text(str(at)))
        if (error := query.exception()) is not None:
            print(f"{job.fault}: {error}", file=sys.stderr)
        windows = list(use.windows(WINDOW, ended=True))
        asked = [service_latency(folder, window.began + window.seconds) for window in windows]
        return MeasuredFault(job.fault, begun + job.ready, windows, asked if job.fault == "service" else [])
    finally:
        for query in spark.streams.active:
            query.stop()
        spark.stop()


def _followed(
    use: ExecutorUsage, follower: Follower, cluster: StandaloneCluster, seconds: float, tell: Callable[[float], Any]
) -> float:
    """Read the log until some seconds after the first batch, and sample the executors' machine meanwhile."""
    begun, late = None, time.time() + 180
    while (begun is None and time.time() < late) or (begun is not None and time.time() < begun + seconds):
        for event in follower.events():
            use.take(event)
        seen = host_counters.read_host(cluster.executors())
        if seen is not None and seen.waited is not None:
            use.take_queued(QueuedUse(round(time.time() * 1000), seen.waited))
        if begun is None and any(isinstance(fact, BatchUse) and fact.records for fact in use.facts):
            begun = time.time()
            tell(begun)
        time.sleep(0.5)
    for event in follower.events():
        use.take(event)
    return begun or time.time()


def judge_windows(found: MeasuredFault, rules: ExecutorSizeRules = RULES) -> list[tuple[float, SizeFault, str]]:
    """Return end, statement and reason of each window that counts."""
    services, peaks, said = ServiceLatencyHistory(), WindowPeaks(), []
    for number, window in enumerate(found.windows):
        backlog = max(window.behind) if window.behind else None
        services = services.add(backlog, {"prices": found.services[number]} if found.services else {})
        peaks = peaks.add(window)
        verdict = judge_sizes(rules, SizeEvidence(tuple(found.windows[: number + 1]), peaks, services))
        looked_at = found.windows[max(0, number + 1 - RULES.recent) : number + 1]
        there = looked_at[0].began >= found.ready and _filled(looked_at, found.windows)
        if number + 1 >= _NEEDS[found.fault] and there:
            said.append((window.began + window.seconds, verdict.fault, verdict.reason.text))
    return said


def _filled(looked_at: Sequence[ExecutorWindow], windows: Sequence[ExecutorWindow]) -> bool:
    """Return whether the state is nearly complete in all windows that a policy reads."""
    usual = statistics.median(each.state_mb or 0.0 for each in windows[len(windows) // 2 :])
    return all((window.state_mb or 0.0) >= 0.9 * usual for window in looked_at)


_NEEDS: Mapping[str, int] = {"heap": 3, "memory": 3, "cpu": 3, "leak": 6, "too-much": 6, "service": 6}


def report(found: MeasuredFault) -> dict[str, Any]:
    said = judge_windows(found)
    right = sum(fault == found.fault for _, fault, _ in said)
    others = sorted({fault for _, fault, _ in said if fault != found.fault})
    return {
        "planted": found.fault,
        "windows": len(said),
        "named_rightly": right,
        "also_said": others,
        "last": said[-1][2] if said else "",
    }


def run_alone(fault: str, seconds: float) -> MeasuredFault:
    """Run one job on its own cluster in this process. A process can have only one Spark session."""
    with (
        tempfile.TemporaryDirectory(prefix=f"planted-{fault}-") as work,
        standalone(Path(work, "cluster"), cores=2, memory="4g") as cluster,
    ):
        return follow_fault(find_planted(fault), cluster, Path(work), seconds)


def run_side_by_side(faults: Sequence[str], seconds: float, work: Path) -> Iterator[MeasuredFault]:
    kept = [work / f"{number}-{fault}.json" for number, fault in enumerate(faults)]
    started = []
    for fault, path in zip(faults, kept, strict=True):
        words = [sys.executable, "-m", "benchmarks.quality.planted_sizes", "--alone", fault, "--keep", str(path)]
        started.append(subprocess.Popen([*words, "--seconds", str(SECONDS.get(fault, seconds))]))
    for process, path in zip(started, kept, strict=True):
        process.wait()
        yield from read(path) if path.exists() else ()


def read(path: Path) -> list[MeasuredFault]:
    """Return the measurements that `--keep` wrote."""
    return [
        MeasuredFault(
            each["fault"],
            each["ready"],
            [validate(window, ExecutorWindow, place="window") for window in each["windows"]],
            each["services"],
        )
        for each in json.loads(path.read_text(encoding="utf-8"))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=240.0, help="of each job, from its first batch on")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--alone", choices=[job.fault for job in PLANTED], help="one, in this process")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    found: list[MeasuredFault] = []
    with tempfile.TemporaryDirectory(prefix="planted-sizes-") as work:
        if given.alone is not None:
            found = [run_alone(given.alone, given.seconds)]
        for group in () if given.alone is not None else GROUPS:
            faults = [fault for fault in group if not given.only or fault in given.only]
            for each in run_side_by_side(faults, given.seconds, Path(work)):
                found.append(each)
                print(json.dumps(report(each)), flush=True)
            for path in Path(work).iterdir():
                path.unlink()
    if given.keep is not None:
        given.keep.write_text(json.dumps([asdict(each) for each in found], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
