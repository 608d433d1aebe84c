"""An own PySpark job: the sales of each shop. Only the names of its operators are there for tuning.

Spark's `rate` source stands for the Kafka topic of a real job.
"""

from autotrascale import Flow, Operator, Query, job


@job({"orders": Operator(), "clean": Operator(("orders",)), "totals": Operator(("clean",), stateful=True)})
def shop(flow: Flow, *, per_second: int = 100, shops: int = 20) -> Query:
    rows = flow.spark.readStream.format("rate").option("rowsPerSecond", per_second)
    rows = rows.option("numPartitions", flow.parallelism["orders"]).load()
    orders = flow.source("orders", rows, arrival="timestamp")
    columns = [f"value % {shops} AS shop", "value % 7 AS amount"]
    clean = flow.operator("clean", orders, do=lambda df: df.selectExpr(*columns).where("amount > 0"))
    totals = flow.operator("totals", clean, do=lambda df: df.groupBy("shop").sum("amount"), by=["shop"])
    return totals.writeStream.format("noop").outputMode("update")
