"""Views of an advertisement that were clicked within a minute.  clicks_and_views.py VIEWS CLICKS OUTPUT"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

spark = SparkSession.builder.appName("clicks and views").getOrCreate()


def stream(folder, schema):
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(folder)


views = stream(sys.argv[1], "view LONG, viewed TIMESTAMP").withWatermark("viewed", "1 minute")
clicks = stream(sys.argv[2], "of LONG, clicked TIMESTAMP").withWatermark("clicked", "1 minute")
clicked = views.join(
    clicks, expr("view = of AND clicked BETWEEN viewed AND viewed + INTERVAL 1 MINUTE"), "inner"
).selectExpr("view", "cast(clicked AS long) - cast(viewed AS long) AS after")

query = (
    clicked.writeStream.format("json")
    .option("checkpointLocation", sys.argv[3] + "/checkpoint")
    .trigger(processingTime="200 milliseconds")
    .start(sys.argv[3] + "/clicked")
)
try:
    query.awaitTermination()
except KeyboardInterrupt:
    query.stop()
