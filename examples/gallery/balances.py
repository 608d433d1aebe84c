"""The balance of each account, in SQLite.  balances.py INPUT DATABASE CHECKPOINT"""

import sqlite3
import sys
from contextlib import closing

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def write(batch, number):
    rows = [(row.account, row.balance) for row in batch.toLocalIterator()]
    with closing(sqlite3.connect(sys.argv[2], timeout=60)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS balances (account TEXT PRIMARY KEY, balance INTEGER)")
        database.executemany("INSERT OR REPLACE INTO balances VALUES (?, ?)", rows)


spark = SparkSession.builder.appName("balances").getOrCreate()
payments = spark.readStream.schema("account STRING, amount LONG").option("maxFilesPerTrigger", 1).json(sys.argv[1])
balances = payments.groupBy("account").agg(F.sum("amount").alias("balance"))
writer = balances.writeStream.queryName("balances").outputMode("update").foreachBatch(write)
writer.option("checkpointLocation", sys.argv[3]).start().awaitTermination()
