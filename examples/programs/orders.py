"""Sum the prices of orders by shop. An ordinary PySpark program: it does not know AuTraScale."""

import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf

checkpoint, seconds = sys.argv[1], float(sys.argv[2])
spark = SparkSession.builder.appName("orders").getOrCreate()


@udf("double")
def look_up_price(item: int) -> float:
    time.sleep(0.01)  # a call of a price service
    return 0.5 + item % 20


rows = spark.readStream.format("rate").option("rowsPerSecond", 100).option("numPartitions", 8).load()
orders = rows.select((col("value") % 50).alias("shop"), (col("value") % 997).alias("item"))
totals = orders.repartition(8).withColumn("price", look_up_price("item")).groupBy("shop").sum("price")
query = totals.writeStream.queryName("orders").format("noop").outputMode("update")
query.option("checkpointLocation", checkpoint).start().awaitTermination(seconds)
