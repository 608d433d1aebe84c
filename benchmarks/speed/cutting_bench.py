"""Rescales in place during a long batch, with three ways to treat that batch.

waited for   the rescale waits for its end, as with a large `patience.finish_batch`
run first    the batch is cut off after some seconds and runs again as planned before state is moved, as for sinks
             without a fence
cut short    the batch is cut off at once and carried over to the new parallelism

An operator of the job stalls for each record, so a batch takes seconds with one task and a sixth of that with six.
There is always a backlog. Each rescale goes from one task to six, some seconds into a batch. It measures:

seconds   time from the begin of the rescale to the first batch at the new parallelism
gap       longest time between two writes meanwhile

    python -m benchmarks.speed.cutting_bench --records 12000 --times 2
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.common.spark_settings import SparkSettings, SparkTimeouts
from autotrascale.execute.spark.controller import query_rescaler
from autotrascale.execute.spark.controller.live_own_job import LiveOwnJob
from autotrascale.execute.spark.jobs.flow import Flow, Query
from autotrascale.execute.spark.jobs.stalls import with_jvm_stall
from benchmarks.faults.kills.archive import JAVA

KEYS, STALL, INTO, PATIENCE = 50, 0.001, 2.0, 3.0
_WITHOUT_CARRY_OVER: dict[str, Any] = {
    name: lambda *_: False for name in ("should_cut_batch_short", "can_carry_over_open_batch", "carry_over_open_batch")
}
FEW, MANY = {"source": 1, "count": 1}, {"source": 1, "count": 6}
WAYS = ("waited for", "run first", "cut short")


@dataclass(frozen=True)
class Stalling:
    """A job that counts keys. A file of input is a batch; a line in `folder`/writes is a write of the sink."""

    folder: str

    name: ClassVar[str] = "stalling"
    topology: ClassVar[Topology] = Topology({"source": Operator(), "count": Operator(("source",), stateful=True)})

    def build(self, flow: Flow) -> Query:
        read = flow.spark.readStream.schema("n bigint").option("maxFilesPerTrigger", 1).json(f"{self.folder}/in")
        came = flow.source("source", read.withColumn("at", fn.current_timestamp()), arrival="at")
        keyed = came.select((fn.col("n") % KEYS).alias("key"))
        counts = flow.operator(
            "count", keyed, do=lambda df: with_jvm_stall(df, STALL).groupBy("key").count(), by=["key"]
        )
        folder = self.folder

        def write(batch: DataFrame, number: int) -> None:
            found = [list(row) for row in batch.collect()]
            with Path(folder, "writes").open("a") as notes:
                notes.write(json.dumps([time.time(), number, found]) + "\n")

        return counts.writeStream.outputMode("update").foreachBatch(write)


@dataclass
class Run:
    """A running job with its input files; each file is a batch of `records` records."""

    live: LiveOwnJob
    folder: Path
    records: int
    files: int = 0

    def add_files(self, count: int) -> None:
        for _ in range(count):
            numbers = range(self.files * self.records, (self.files + 1) * self.records)
            draft = self.folder / "in" / f".{self.files}"
            draft.write_text("".join(f'{{"n":{number}}}\n' for number in numbers))
            draft.rename(self.folder / "in" / f"{self.files:05d}.json")
            self.files += 1

    def await_writes(self, count: int) -> None:
        while len(self.writes()) < count:
            self.live.wait(0.05)

    def writes(self) -> list[list[Any]]:
        notes = self.folder / "writes"
        return [json.loads(text) for text in notes.read_text().splitlines()] if notes.exists() else []

    def rescale(self, way: str) -> dict[str, Any]:
        """Rescale to six tasks some seconds into a batch, with two batches behind it, and return the measurements."""
        self.add_files(5)
        self.await_writes(self.files - 3)
        self.live.wait(INTO)
        patience = replace(self.live.settings.patience, finish_batch=120.0 if way == "waited for" else PATIENCE)
        self.live.settings = replace(self.live.settings, patience=patience)
        began = time.time()
        with mock.patch.multiple(query_rescaler, **_WITHOUT_CARRY_OVER) if way == "run first" else nullcontext():
            done = self.live.rescale(MANY)
        ended = time.time()
        self.await_writes(self.files)
        around = [each[0] for each in self.writes() if began - 60 <= each[0] <= ended + 1]
        last_before = max(at for at in around if at < began)
        return {
            "done": done.done,
            "seconds": round(ended - began, 1),
            "gap": round(max(b - a for a, b in pairwise([at for at in around if at >= last_before])), 1),
            **{phase: round(seconds, 1) for phase, seconds in (done.phases or {}).items()},
        }

    def keys_wrong(self) -> int:
        counts: Counter[int] = Counter()
        for _, _, found in self.writes():
            for key, count in found:
                counts[key] = max(counts[key], count)
        expected = Counter(number % KEYS for number in range(self.files * self.records))
        return sum(counts[key] != expected[key] for key in counts | expected)


def measure(records: int, times: int, folder: Path) -> dict[str, Any]:
    for part in ("in", "work"):
        (folder / part).mkdir()
    settings = SparkSettings(
        job="benchmarks.speed.cutting_bench:Stalling",
        options={"folder": str(folder)},
        python_path=(str(Path(__file__).parents[2]),),
        master="local[8]",
        conf={"spark.driver.extraJavaOptions": JAVA},
        patience=SparkTimeouts(start=150.0, command=120.0, first_batch=180.0),
        work_dir=str(folder / "work"),
    )
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    with LiveOwnJob(settings, {"source": 1.0}, folder / "home") as live:
        run = Run(live, folder, records)
        run.add_files(1)
        live.start(FEW)
        for number in range(len(WAYS) * times):
            found[way := WAYS[number % len(WAYS)]].append(seen := run.rescale(way))
            print(f"{time.strftime('%H:%M:%S')} {way}: {json.dumps(seen)}", file=sys.stderr, flush=True)
            live.rescale(FEW)
        wrong = run.keys_wrong()
    return {
        "records_in_a_batch": records,
        "records": run.files * records,
        "keys_wrong": wrong,
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        **{name: {way: _median(seen, name) for way, seen in found.items()} for name in ("seconds", "gap")},
    }


def _median(seen: list[dict[str, Any]], name: str) -> float:
    return round(statistics.median(each[name] for each in seen), 1)


def figures(records: int = 12_000, times: int = 2) -> dict[str, Any]:
    """Return the results as JSON data."""
    with tempfile.TemporaryDirectory(prefix="cutting-bench-", ignore_cleanup_errors=True) as folder:
        return measure(records, times, Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=12_000, help="records in a batch")
    parser.add_argument("--times", type=int, default=2, help="rescales of each kind")
    arguments = parser.parse_args()
    print(json.dumps(figures(arguments.records, arguments.times), indent=2))


if __name__ == "__main__":
    main()
