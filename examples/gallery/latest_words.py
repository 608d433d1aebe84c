"""Counts of words, printed every second.  latest_words.py INPUT OUTPUT"""

import json
import os
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.functions import explode, split

spark = SparkSession.builder.appName("latest words").getOrCreate()
lines = spark.readStream.option("maxFilesPerTrigger", 1).text(sys.argv[1])
words = lines.select(explode(split("value", " ")).alias("word")).groupBy("word").count()
query = words.writeStream.format("memory").queryName("words").outputMode("complete").start()
while query.isActive:
    time.sleep(1)
    counted = {row["word"]: row["count"] for row in spark.sql("SELECT * FROM words").collect()}
    with open(sys.argv[2] + ".new", "w") as file:
        json.dump(counted, file)
    os.replace(sys.argv[2] + ".new", sys.argv[2])
