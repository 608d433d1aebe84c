"""Visits to a site: clicks of a user less than five seconds apart.  visits.py INPUT OUTPUT"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, session_window


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("output")
    options = parser.parse_args()

    spark = SparkSession.builder.appName("visits").getOrCreate()
    clicks = spark.readStream.schema("user STRING, at TIMESTAMP").option("maxFilesPerTrigger", 1).json(options.source)
    visits = (
        clicks.withWatermark("at", "5 seconds")
        .groupBy(session_window("at", "5 seconds"), "user")
        .agg(count("*").alias("clicks"))
        .select("user", col("session_window.start").cast("long").alias("start"), "clicks")
    )
    query = visits.writeStream.option("checkpointLocation", options.output + "/checkpoint").start(
        options.output + "/visits", format="json", outputMode="append"
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
