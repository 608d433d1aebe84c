"""Are wrong sizes named rightly on a real cluster: `python -m benchmarks.planted_sizes --keep windows.json`.

Six streaming jobs with executors of a wrong size, one after the other on a standalone cluster on this machine, each
with a fault planted in it. Every window of some seconds is judged by the policies, beside the windows before it:

heap          a state of 300 MB or so in a heap of 512 MB
memory        a Python worker that holds 500 MB, in an executor with 384 MB beside its heap
cpu           a third more records than a core of this machine hashes at that hour
leak          a Python worker that keeps 12 MB of each batch for ever
too-much      a job that needs a tenth of what it has
service       a service that is asked for each record, and becomes nine times as slow after a while

A window counts once the fault is there in all windows that its policy looks at: the state is full, the service slow.
`--keep` writes what was measured, for tests that need no Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotrascale.analyze.executor_use import BatchUse, ExecutorUse, QueuedUse
from autotrascale.domain.executor_window import ExecutorWindow
from autotrascale.monitor import host
from autotrascale.monitor.eventlog.following import Follower
from autotrascale.plan.control.looks.signals import Services
from autotrascale.plan.executor_size.evidence import Evidence, Fault, Peaks, Rules
from autotrascale.plan.executor_size.policies import judge
from autotrascale.testing.standalone import Cluster, conf, standalone

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

WINDOW = 5.0
RULES = Rules(evidence_seconds=6 * WINDOW)
MEASURED = {
    "spark.executor.metrics.pollingInterval": "100ms",
    "spark.executor.processTreeMetrics.enabled": "true",
    "spark.eventLog.logStageExecutorMetrics": "true",
}
FAST, SLOW, SLOW_AFTER = 0.005, 0.045, 60.0  # seconds of an answer of the service; when it becomes slow


@dataclass(frozen=True)
class Planted:
    """`ready`: seconds from the first batch until the fault is there."""

    fault: Fault
    settings: Mapping[str, str]
    make: Callable[[SparkSession, float], DataFrame]
    rows: float  # a second
    ready: float = 15.0
    stateful: bool = False


@dataclass
class Found:
    fault: Fault
    ready: float
    windows: list[ExecutorWindow] = field(default_factory=list)
    services: list[float] = field(default_factory=list)  # latency of the service at each, if there is one


def _rate(spark: SparkSession, rows: float) -> DataFrame:
    return spark.readStream.format("rate").option("rowsPerSecond", int(rows)).option("numPartitions", 1).load()


def _state(spark: SparkSession, rows: float) -> DataFrame:
    """In a map on the heap, as Spark's own provider keeps it. So many rows are in each batch, however long it lasts."""
    kept = "concat(repeat(md5(cast(value as string)), 14))"
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", int(rows)).option("numPartitions", 1)
    keyed = source.load().selectExpr("value % 400000 AS key", f"{kept} AS kept")
    return keyed.groupBy("key").agg({"kept": "max"})


_TEXT = "repeat(cast(value as string), 20000)"
_HASH = f"sha2(concat(sha2({_TEXT}, 512), {_TEXT}), 512) AS hashed"


def _hashed(spark: SparkSession, rows: float) -> DataFrame:
    return _rate(spark, rows).selectExpr(_HASH)


def _hashed_too_much(spark: SparkSession, rows: float) -> DataFrame:
    """`rows` times as many as it can, as it was just now."""
    began, some = 0.0, 3000
    for _ in range(2):  # the first time is compiling
        began = time.monotonic()
        spark.range(some).selectExpr("id AS value").repartition(1).selectExpr(_HASH).write.format("noop").mode(
            "overwrite"
        ).save()
    return _hashed(spark, rows * some / (time.monotonic() - began))


def _mapped(work: Callable[[Any], None]) -> Callable[[SparkSession, float], DataFrame]:
    def made(spark: SparkSession, rows: float) -> DataFrame:
        def through(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                work(batch)
                yield batch

        return _rate(spark, rows).selectExpr("value").mapInArrow(through, "value long")

    return made


def _holds(_: Any) -> None:
    kept = vars(sys).setdefault("planted", [])
    if not kept:
        kept.append(os.urandom(1 << 20) * 500)


def _leaks(_: Any) -> None:
    vars(sys).setdefault("planted", []).append(os.urandom(1 << 20) * 12)


def _asks(begun: str) -> Callable[[Any], None]:
    def ask(batch: Any) -> None:
        time.sleep(_latency(float(Path(begun).read_text())) * batch.num_rows)

    return ask


def _latency(begun: float, at: float | None = None) -> float:
    return SLOW if (at or time.time()) - begun >= SLOW_AFTER else FAST


def planted(folder: Path) -> tuple[Planted, ...]:
    begun = str(folder / "begun")
    return (
        Planted("heap", conf(1, "512m"), _state, 25_000, stateful=True),
        Planted("memory", conf(1, "512m"), _mapped(_holds), 50),
        Planted("cpu", conf(1, "512m"), _hashed_too_much, 1.3),
        Planted("leak", {**conf(1, "512m"), "spark.executor.memoryOverhead": "1400m"}, _mapped(_leaks), 50),
        Planted("too-much", {**conf(2, "1400m"), "spark.executor.memoryOverhead": "1000m", "spark.cores.max": "2"},
                _hashed, 50),
        Planted("service", conf(1, "512m"), _mapped(_asks(begun)), 30, ready=SLOW_AFTER),
    )  # fmt: skip


def run(job: Planted, cluster: Cluster, folder: Path, seconds: float) -> Found:
    """Windows of `seconds` from the first batch on."""
    from pyspark.sql import SparkSession

    log = folder / "log"
    log.mkdir(exist_ok=True)
    settings = {
        "spark.cores.max": "1", "spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false",
        "spark.ui.enabled": "false", "spark.driver.memory": "700m", "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": log.as_uri(), "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "true", **MEASURED, **job.settings,
    }  # fmt: skip
    builder = SparkSession.builder.master(cluster.url).appName(job.fault)
    for name, value in settings.items():
        builder = builder.config(name, value)
    (folder / "begun").write_text(str(time.time() + 1e6))
    spark = builder.getOrCreate()
    try:
        spark.sparkContext.setLogLevel("OFF")
        frame = job.make(spark, job.rows)
        writer = frame.writeStream.format("noop").outputMode("update" if job.stateful else "append")
        query = writer.option("checkpointLocation", str(folder / f"checkpoint-{job.fault}")).start()
        use, follower = ExecutorUse(), Follower(log, spark.sparkContext.applicationId, consume=False)
        begun = _followed(use, follower, cluster, seconds, lambda at: (folder / "begun").write_text(str(at)))
        if (error := query.exception()) is not None:
            print(f"{job.fault}: {error}", file=sys.stderr)
        windows = list(use.windows(WINDOW, ended=True))
        asked = [_latency(begun, window.began + window.seconds) for window in windows] if job.fault == "service" else []
        return Found(job.fault, begun + job.ready, windows, asked)
    finally:
        for query in spark.streams.active:
            query.stop()
        spark.stop()


def _followed(
    use: ExecutorUse, follower: Follower, cluster: Cluster, seconds: float, tell: Callable[[float], Any]
) -> float:
    """Reads on until so many seconds after the first batch, and looks at the executors' machine meanwhile."""
    begun, late = None, time.time() + 180
    while (begun is None and time.time() < late) or (begun is not None and time.time() < begun + seconds):
        for event in follower.events():
            use.take(event)
        seen = host.read(cluster.executors())
        if seen is not None and seen.waited is not None:
            use.take_queued(QueuedUse(round(time.time() * 1000), seen.waited))
        if begun is None and any(isinstance(fact, BatchUse) and fact.records for fact in use.facts):
            begun = time.time()
            tell(begun)
        time.sleep(0.5)
    for event in follower.events():
        use.take(event)
    return begun or time.time()


def judged(found: Found, rules: Rules = RULES) -> list[tuple[float, Fault, str]]:
    """(end of the window, what was said, why) of each window that counts."""
    services, peaks, said = Services(), Peaks(), []
    for number, window in enumerate(found.windows):
        backlog = max(window.behind) if window.behind else None
        services = services.adding(backlog, {"prices": found.services[number]} if found.services else {})
        peaks = peaks.adding(window)
        verdict = judge(rules, Evidence(tuple(found.windows[: number + 1]), peaks, services))
        looked_at = found.windows[max(0, number + 1 - RULES.recent) : number + 1]
        there = looked_at[0].began >= found.ready and _filled(looked_at, found.windows)
        if number + 1 >= _NEEDS[found.fault] and there:
            said.append((window.began + window.seconds, verdict.fault, verdict.reason.text))
    return said


def _filled(looked_at: Sequence[ExecutorWindow], windows: Sequence[ExecutorWindow]) -> bool:
    """The state of all windows that a policy looks at is about as large as it gets."""
    usual = statistics.median(each.state_mb or 0.0 for each in windows[len(windows) // 2 :])
    return all((window.state_mb or 0.0) >= 0.9 * usual for window in looked_at)


_NEEDS: Mapping[str, int] = {"heap": 3, "memory": 3, "cpu": 3, "leak": 6, "too-much": 6, "service": 6}


def report(found: Found) -> dict[str, Any]:
    said = judged(found)
    right = sum(fault == found.fault for _, fault, _ in said)
    others = sorted({fault for _, fault, _ in said if fault != found.fault})
    return {"planted": found.fault, "windows": len(said), "named_rightly": right, "also_said": others,
            "last": said[-1][2] if said else ""}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=240.0, help="of each job, from its first batch on")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    kept = []
    with tempfile.TemporaryDirectory(prefix="planted-sizes-") as work:
        for job in planted(Path(work)):
            if given.only and job.fault not in given.only:
                continue
            with standalone(Path(work, f"cluster-{job.fault}"), cores=2, memory="4g") as cluster:
                found = run(job, cluster, Path(work), given.seconds)
            kept.append(asdict(found))
            print(json.dumps(report(found)), flush=True)
            if given.keep is not None:
                given.keep.write_text(json.dumps(kept, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
