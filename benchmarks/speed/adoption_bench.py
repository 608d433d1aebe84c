"""Measure what adoption costs a program: `python -m benchmarks.speed.adoption_bench`. It needs a quiet machine.

A stateful program runs batches of equal size without a pause on all cores: alone, behind `autotrascale run --advise`,
and behind `--apply`, in turns. CPU time of the command counts too. The result is the median batch of each run without
the first batches, the median run of each kind, and the difference from the program alone. State is always in RocksDB.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotrascale.cli.options import TARGET_NOT_MET

BATCHES, WARM_UP = 120, 40
TARGET = "60"  # seconds: nothing is rescaled, everything is observed
KINDS = ("bare", "--advise", "--apply")
PROGRAM = f"""
import json, sys, time
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.master("local[2]").appName("cost").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 200_000).option("numPartitions", 4).load()
counts = rows.groupBy((F.col("value") % 1000).alias("key")).agg(F.sum("value"), F.count("*"))
query = counts.writeStream.outputMode("update").format("noop").option("checkpointLocation", sys.argv[1]).start()
while query.lastProgress is None or query.lastProgress["batchId"] < {BATCHES}:
    time.sleep(0.1)
took = [p["durationMs"]["triggerExecution"] for p in query.recentProgress if {WARM_UP} <= p["batchId"] < {BATCHES}]
query.stop()
open(sys.argv[2], "w").write(json.dumps(took))
"""
_CONF = (
    "--conf spark.sql.shuffle.partitions=4 --conf spark.ui.enabled=false --conf spark.driver.memory=1g"
    " --conf spark.sql.streaming.stateStore.providerClass="
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider pyspark-shell"
)


def figures(rounds: int = 5) -> dict[str, Any]:
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="adoption-bench-") as folder:
        script = Path(folder, "program.py")
        script.write_text(PROGRAM)
        for number in range(rounds):
            for kind in KINDS if number % 2 else reversed(KINDS):
                taken[kind].append(_median_batch(script, kind, Path(folder, f"{number}{kind}")))
    bare = statistics.median(taken["bare"])
    return {
        "rounds": rounds,
        "load": os.getloadavg()[0],
        "batch_ms": {kind: round(statistics.median(values), 1) for kind, values in taken.items()},
        "runs_ms": {kind: [round(value, 1) for value in values] for kind, values in taken.items()},
        "more_than_bare": {kind: round(statistics.median(taken[kind]) / bare - 1, 4) for kind in KINDS[1:]},
    }


def _median_batch(script: Path, kind: str, folder: Path) -> float:
    folder.mkdir()
    words = [str(script), str(folder / "checkpoint"), str(folder / "took.json")]
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": _CONF, "PYSPARK_PYTHON": sys.executable}
    verb = [str(Path(sys.executable).with_name("autotrascale")), "run", kind, "--target", TARGET, "--"]
    command = [sys.executable, *words] if kind == "bare" else [*verb, *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, TARGET_NOT_MET):
        raise RuntimeError(f"{kind}: exit code {done.returncode}: {done.stderr[-500:]}")
    return statistics.median(json.loads((folder / "took.json").read_text()))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    print(json.dumps(figures(parser.parse_args(arguments).rounds), indent=2))


if __name__ == "__main__":
    main()
