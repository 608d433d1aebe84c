"""Two reports from one stream: by shop, and by day.  two_reports.py INPUT DATABASE CHECKPOINT"""

import sqlite3
import sys
from contextlib import closing

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, database_file, checkpoint = sys.argv[1:]
spark = SparkSession.builder.appName("two reports").getOrCreate()
sales = spark.readStream.schema("shop STRING, day STRING, amount LONG").option("maxFilesPerTrigger", 1).json(source)


def report(column):
    def write(batch, number):
        with closing(sqlite3.connect(database_file, timeout=60)) as database, database:
            database.execute(f"CREATE TABLE IF NOT EXISTS by_{column} (name TEXT PRIMARY KEY, amount INTEGER)")
            rows = [(row[0], row[1]) for row in batch.collect()]
            database.executemany(f"INSERT OR REPLACE INTO by_{column} VALUES (?, ?)", rows)

    return sales.groupBy(column).agg(F.sum("amount")).writeStream.outputMode("update").foreachBatch(write)


by_shop = report("shop").queryName("by shop").option("checkpointLocation", checkpoint).start()
by_day = report("day").queryName("by day").start()  # begins anew with the program
spark.streams.awaitAnyTermination()
for query in spark.streams.active:
    query.stop()
