"""The CPU cost of sampling the memory of executors.

    python -m benchmarks.speed.sampling_bench --rounds 6 --seconds 120

The same streaming job runs three times at once on a standalone cluster on this machine, each with its own executor:
with the settings of `run --apply --sizes`, without them, and without them again. The last pair shows the noise.
Compared is the CPU time of each executor's processes and their children, for each batch of equally many records. Each
executor has a Python worker, so three processes are sampled.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from autotrascale.execute.spark.common.processes import kill_session
from autotrascale.plan.executor_size.size_evidence import REQUIRED_SETTINGS
from autotrascale.testing.standalone_cluster import JAVA, StandaloneCluster, conf, standalone

WARM_SECONDS = 30.0
_UP_SECONDS = 600.0
KINDS = ("on", "off", "off again")
JOB = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession

folder, rows = Path(sys.argv[1]), int(sys.argv[2])
spark = SparkSession.builder.getOrCreate()
source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 1).load()
hashed = source.selectExpr("sha2(repeat(cast(value as string), 3000), 512) AS hashed")
through = hashed.mapInArrow(lambda batches: batches, "hashed string")
writer = through.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
query = writer.trigger(processingTime="1 second").start()
while query.isActive:
    progress = query.lastProgress
    if progress is not None:
        (folder / "batch.new").write_text(str(progress["batchId"]))
        (folder / "batch.new").rename(folder / "batch")
    time.sleep(0.1)
"""


@dataclass(frozen=True)
class Reading:
    batches: int
    cpu_seconds: float


@contextmanager
def run_application(kind: str, cluster: StandaloneCluster, folder: Path, rows: int) -> Iterator[Path]:
    """Run the job with its own folder, and yield its process."""
    folder.mkdir(parents=True)
    (folder / "events").mkdir()
    (folder / "job.py").write_text(JOB)
    settings: Mapping[str, str] = {
        **conf(1, "512m"),
        "spark.cores.max": "1",
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.driver.memory": "600m",
        "spark.driver.extraJavaOptions": JAVA,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.executorEnv.SAMPLED": kind.replace(" ", "-"),
        **(REQUIRED_SETTINGS if kind == "on" else {}),
    }
    words = [str(Path(sys.executable).with_name("spark-submit")), "--master", cluster.url]
    for name, value in settings.items():
        words += ["--conf", f"{name}={value}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*words, str(folder / "job.py"), str(folder), str(rows)],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
    try:
        yield folder
    finally:
        kill_session(process.pid)
        process.wait()


def find_executor(kind: str, cluster: StandaloneCluster) -> psutil.Process | None:
    """Return the executor of an application. Executor ids repeat, so the environment of the process decides."""
    for worker in cluster.workers:
        for process in psutil.Process(worker).children(recursive=True):
            with suppress(psutil.Error):
                if process.name() == "java" and process.environ().get("SAMPLED") == kind.replace(" ", "-"):
                    return process
    return None


def read_cpu(kind: str, cluster: StandaloneCluster, folder: Path) -> Reading:
    """Return the CPU time at the end of a batch: a part of a batch would be as large as the measured cost."""
    batch, until = (folder / "batch").read_text(), time.monotonic() + _UP_SECONDS
    while (folder / "batch").read_text() == batch:
        if time.monotonic() > until:
            raise TimeoutError(f"{kind} stands still: {folder / 'log'} says why")
        time.sleep(0.01)
    executor = find_executor(kind, cluster)
    if executor is None:
        raise RuntimeError(f"the executor of {kind} is gone: {folder / 'log'} says why")
    cpu = sum(sum(each.cpu_times()[:4]) for each in (executor, *executor.children(recursive=True)))
    return Reading(int((folder / "batch").read_text()), cpu)


def measure_round(number: int, work: Path, seconds: float, rows: int) -> dict[str, float]:
    """Return the CPU seconds of a batch for each variant."""
    with ExitStack() as stack:
        cluster = stack.enter_context(standalone(work / f"cluster-{number}", cores=3, memory="3g"))
        folders = {
            kind: stack.enter_context(run_application(kind, cluster, work / f"{number}-{kind.replace(' ', '-')}", rows))
            for kind in KINDS
        }
        until = time.monotonic() + _UP_SECONDS
        while not all((folder / "batch").exists() for folder in folders.values()):
            if time.monotonic() > until:
                raise TimeoutError(f"not all of them came up: {work}")
            time.sleep(0.2)
        time.sleep(WARM_SECONDS)
        before = {kind: read_cpu(kind, cluster, folder) for kind, folder in folders.items()}
        time.sleep(seconds)
        after = {kind: read_cpu(kind, cluster, folder) for kind, folder in folders.items()}
    return {
        kind: (after[kind].cpu_seconds - before[kind].cpu_seconds) / (after[kind].batches - before[kind].batches)
        for kind in KINDS
    }


def relative_cost(rounds: Sequence[Mapping[str, float]], kind: str) -> dict[str, float]:
    """Return the additional cost relative to the variant `off`."""
    shares = [each[kind] / each["off"] - 1 for each in rounds]
    return {
        "median": round(statistics.median(shares), 4),
        "least": round(min(shares), 4),
        "most": round(max(shares), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=120.0, help="of each round, after it is warm")
    parser.add_argument("--rows", type=int, default=4000, help="of a batch, one each second")
    given = parser.parse_args()
    rounds = []
    with tempfile.TemporaryDirectory(prefix="sampling-") as work:
        for number in range(given.rounds):
            rounds.append(measure_round(number, Path(work), given.seconds, given.rows))
            print(
                json.dumps({"round": number, **{kind: round(cpu, 4) for kind, cpu in rounds[-1].items()}}), flush=True
            )
    load = os.getloadavg()[0]
    print(
        json.dumps(
            {
                "rounds": len(rounds),
                "settings": dict(REQUIRED_SETTINGS),
                "on": relative_cost(rounds, "on"),
                "off_again": relative_cost(rounds, "off again"),
                "load": round(load, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
