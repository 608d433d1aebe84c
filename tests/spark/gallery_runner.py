"""Run programs one after the other in one Spark session, as `python program` would: a JVM takes seconds to start.

    gallery_runner.py PLAN.json       [[program, argument, …], …]

Each program runs until a file `stop-N` exists beside the plan. Then its queries are stopped through Spark's handles.
"""

from __future__ import annotations

import json
import runpy
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession


def stop_when_told(sign: Path) -> None:
    while not sign.exists():
        time.sleep(0.05)
    for query in SparkSession.builder.getOrCreate().streams.active:
        query.stop()


def main() -> None:
    plan = Path(sys.argv[1])
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for number, (program, *arguments) in enumerate(json.loads(plan.read_text())):
        stopper = threading.Thread(target=stop_when_told, args=[plan.with_name(f"stop-{number}")])
        stopper.start()
        sys.argv = [program, *arguments]
        runpy.run_path(program, run_name="__main__")
        stopper.join()
        spark.streams.resetTerminated()
    sys.exit(5)


if __name__ == "__main__":
    main()
