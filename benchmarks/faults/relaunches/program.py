"""The program that is relaunched: it counts records by key and writes each batch to a file with the batch's number.

A batch that runs again overwrites its file.

    spark-submit … program.py CHECKPOINT OUT
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

ROWS, KEYS = 20, 7  # of every batch


def lost_and_doubled(out: Path) -> tuple[int, int]:
    """Return the missing and the doubled records of all batches up to the newest.

    A count only grows, so the largest count of a key is the last.
    """
    batches = [(int(path.stem), json.loads(path.read_text())) for path in out.glob("*.json")]
    newest = max((number for number, _ in batches), default=-1)
    found, expected = Counter[int](), Counter(value % KEYS for value in range(ROWS * (newest + 1)))
    for _, rows in batches:
        for key, count in rows:
            found[key] = max(found[key], count)
    missing = (newest + 1 - len(batches)) * ROWS
    return missing + (expected - found).total(), (found - expected).total()


def main() -> None:
    from pyspark.sql import DataFrame, SparkSession

    checkpoint, out = sys.argv[1], Path(sys.argv[2])
    out.mkdir(exist_ok=True)
    spark = SparkSession.builder.appName("counts").getOrCreate()

    def write(frame: DataFrame, batch: int) -> None:
        rows = [[row["key"], row["count"]] for row in frame.collect()]
        fresh = out / f".{batch}-{os.getpid()}"
        fresh.write_text(json.dumps(rows))
        fresh.replace(out / f"{batch}.json")

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 1).load()
    counts = source.selectExpr(f"value % {KEYS} AS key").groupBy("key").count()
    writer = counts.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
    writer.trigger(processingTime="500 milliseconds").foreachBatch(write).start().awaitTermination()


if __name__ == "__main__":
    main()
