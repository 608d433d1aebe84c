"""Count and sum of sensor readings in windows of ten seconds.  readings_by_window.py INPUT OUTPUT"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, output = sys.argv[1], sys.argv[2]

spark = SparkSession.builder.appName("readings by window").getOrCreate()
readings = (
    spark.readStream.schema("sensor STRING, at TIMESTAMP, value LONG")
    .option("maxFilesPerTrigger", 1)
    .json(source)
    .withWatermark("at", "10 seconds")
)
sums = readings.groupBy(F.window("at", "10 seconds"), "sensor").agg(
    F.count("*").alias("n"), F.sum("value").alias("sum")
)
query = (
    sums.select(F.col("window.start").cast("long").alias("start"), "sensor", "n", "sum")
    .writeStream.format("json")
    .option("path", f"{output}/sums")
    .option("checkpointLocation", f"{output}/checkpoint")
    .start()
)
query.awaitTermination()
