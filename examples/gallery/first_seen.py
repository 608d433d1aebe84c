"""Orders without duplicates, in a table.  first_seen.py INPUT CHECKPOINT TABLE"""

import sys

from pyspark.sql import SparkSession

_, source, checkpoint, table = sys.argv

spark = SparkSession.builder.appName("first seen").getOrCreate()
orders = (
    spark.readStream.schema("id STRING, at TIMESTAMP, amount LONG")
    .option("maxFilesPerTrigger", "1")
    .json(source)
    .withWatermark("at", "1 hour")
    .dropDuplicatesWithinWatermark(["id"])
)
handle = orders.select("id", "amount").writeStream.toTable(table, format="parquet", checkpointLocation=checkpoint)
while not handle.awaitTermination(5):
    print(f"orders: batch {handle.lastProgress.batchId if handle.lastProgress else '-'}, {handle.status['message']}")
