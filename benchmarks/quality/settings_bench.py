"""The error of predicted batch times of a query without marks, at numbers of slots that were not measured.

    python -m benchmarks.run settings

The query is a separate program on a real Spark for each number of slots: a repartition by key, a Python function that
stalls for each record, and a streaming count. A stall takes time and no CPU, so more slots help on a machine with few
cores. Each run is measured from its event log, and predicts the other runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from autotrascale.analyze import unmarked_query
from autotrascale.analyze.live.application import ApplicationRun, FollowedApplication
from autotrascale.monitor.eventlog.follower import Follower
from autotrascale.plan.sizing.batch_time import QuerySetup, QueryWorkload, build_workload, predict_batch_time
from autotrascale.plan.sizing.sizing import Sizing, size

SLOTS = (4, 8)
RATE, STALL, TRIGGER, PARTITIONS = 600, 0.003, 5.0, 16
SECONDS, WARM_UP_BATCHES = 90, 3  # seconds of each run; first batches that are left out
PROGRAM = """
import sys, time
from pyspark.sql import SparkSession, functions as fn
slots, folder, rate, stall, trigger, partitions, seconds = sys.argv[1:]
conf = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "true",
        "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF",
        "spark.eventLog.dir": "file://" + folder, "spark.sql.shuffle.partitions": partitions,
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
builder = SparkSession.builder.master(f"local[{slots}]").appName("calibration")
for name, value in conf.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
def stalls(batches):
    for batch in batches:
        time.sleep(float(stall) * batch.num_rows)
        yield batch
rows = spark.readStream.format("rate").option("rowsPerSecond", rate).option("numPartitions", 4).load()
keys = rows.select((fn.col("value") % 1000).alias("key")).repartition(int(partitions), "key")
keys = keys.mapInArrow(stalls, "key long")
writer = keys.groupBy("key").count().writeStream.format("noop").outputMode("update").queryName("counts")
query = writer.trigger(processingTime=f"{trigger} seconds").option("checkpointLocation", folder + "/checkpoint").start()
query.awaitTermination(int(seconds))
query.stop()
spark.stop()
"""


def figures() -> dict[str, Any]:
    """Return measured and predicted batch times in seconds for each number of slots."""
    with tempfile.TemporaryDirectory() as folder:
        measured = {slots: _measure_slots(slots, Path(folder, str(slots))) for slots in SLOTS}
    found = {}
    for slots, (_, seconds, batches) in measured.items():
        predicted = {
            f"from {other} slots": round(
                predict_batch_time(of, QuerySetup(1, slots, trigger_seconds=TRIGGER)).seconds, 2
            )
            for other, (of, _, _) in measured.items()
        }
        found[f"{slots} slots"] = {"measured_batch_seconds": round(seconds, 2), "batches": batches, **predicted}
    return {"rate": RATE, "stall_seconds": STALL, "partitions": PARTITIONS, **found}


def _measure_slots(slots: int, folder: Path) -> tuple[QueryWorkload, float, int]:
    folder.mkdir()
    arguments = [slots, folder, RATE, STALL, TRIGGER, PARTITIONS, SECONDS]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    log = next(folder.glob("eventlog_v2_*")).name.removeprefix("eventlog_v2_")
    application = FollowedApplication(Follower(folder, log, consume=False))
    application.poll()
    (run,) = application.runs.values()
    if len(run.batches) <= 2 * WARM_UP_BATCHES:
        raise RuntimeError(f"only {len(run.batches)} batches in {SECONDS} s: the machine is too busy")
    return _summarise_run(run, application, slots)


def _summarise_run(
    run: ApplicationRun, application: FollowedApplication, slots: int
) -> tuple[QueryWorkload, float, int]:
    batches = run.batches[WARM_UP_BATCHES:]
    snapshot = unmarked_query.take_query_snapshot(run.name, batches, application.executors, slots)
    sizing = None if snapshot is None else size(snapshot)
    assert snapshot is not None
    assert isinstance(sizing, Sizing)
    found = build_workload(sizing, unmarked_query.measure_stages(batches), slots)
    assert found is not None
    return found, snapshot.batch_seconds or 0.0, len(batches)
