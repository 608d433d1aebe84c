"""Counts calls by customer; each call waits for a slow service.  program.py FOLDER WAIT_MS

An ordinary program without AuTraScale. It reads FOLDER/in and writes progress reports to FOLDER/progress.jsonl. When
FOLDER/end exists, it processes the remaining records, writes FOLDER/counts.json and ends.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.listener import StreamingQueryListener

CUSTOMERS = 101


class Reports(StreamingQueryListener):
    def __init__(self, path: Path) -> None:
        self._lines = path.open("a")

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._lines.write(json.dumps(json.loads(event.progress.json)) + "\n")
        self._lines.flush()

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass


def main(folder: Path, wait_ms: int) -> None:
    spark = SparkSession.builder.appName("calls").getOrCreate()
    spark.streams.addListener(Reports(folder / "progress.jsonl"))
    calls = spark.readStream.schema("n long, arrival double").json(str(folder / "in"))
    at = fn.col("arrival")
    calls = calls.observe("arrivals", fn.avg(at).alias("mean"), fn.min(at).alias("first"), fn.max(at).alias("last"))
    # The service waits without using a core. Python code would need worker processes.
    answered = fn.expr(f"java_method('java.lang.Thread', 'sleep', {wait_ms}L) is not null")
    customer = (fn.col("n") % CUSTOMERS).alias("customer")
    counts = calls.repartition(fn.col("n")).where(answered).groupBy(customer).count()
    writer = counts.writeStream.queryName("calls").outputMode("complete").format("memory")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(processingTime="1 second")
    query = writer.start()
    while not query.awaitTermination(1) and not (folder / "end").exists():
        pass
    query.processAllAvailable()
    query.stop()
    rows = spark.table("calls").collect()
    (folder / "counts.json").write_text(json.dumps({row["customer"]: row["count"] for row in rows}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
