"""Clicks of each page, from one topic to another.  clicks_by_page.py SERVERS FROM TO CHECKPOINT"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

servers, source, sink, checkpoint = sys.argv[1:]
spark = SparkSession.builder.appName("clicks by page").getOrCreate()
clicks = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
clicks = clicks.option("subscribe", source).option("startingOffsets", "earliest").load()
counts = clicks.groupBy(F.col("value").alias("key")).agg(F.count("*").cast("string").alias("value"))
writer = counts.writeStream.queryName("clicks").outputMode("update").format("kafka")
writer = writer.option("kafka.bootstrap.servers", servers).option("topic", sink)
writer.option("checkpointLocation", checkpoint).start().awaitTermination()
