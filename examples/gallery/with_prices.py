"""Sales with their prices from a static table.  with_prices.py SALES PRICES OUTPUT"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType

sales_folder, prices_file, output = sys.argv[1:]
spark = SparkSession.builder.appName("with prices").getOrCreate()
prices = spark.read.schema("item STRING, price INT").csv(prices_file)
sales = (
    spark.readStream.schema("item STRING, day STRING, pieces INT").option("maxFilesPerTrigger", 1).json(sales_folder)
)


@F.udf(IntegerType())
def with_tax(price, pieces):
    return price * pieces * 119 // 100


# hint: without it Spark may shuffle both sides
sold = sales.join(prices.hint("shuffle_hash"), "item").select("day", "item", with_tax("price", "pieces").alias("cents"))
query = (
    sold.writeStream.partitionBy("day")
    .format("json")
    .option("path", output)
    .option("checkpointLocation", output + "-checkpoint")
    .start()
)
spark.streams.awaitAnyTermination()
