"""Giving the state of a stopped query another number of partitions. Spark calls its own way experimental, and it is
reached through a private name, so it stands behind this one function."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_THERE_ALREADY = "SHUFFLE_PARTITIONS_ALREADY_MATCH"


def repartition_state(spark: SparkSession, checkpoint: str, partitions: int) -> None:
    """Moves every key of every stateful operator of the checkpoint; needs the RocksDB provider. Nothing to move is
    fine: a host may have died after the work was done and before it said so.

    `False`: the last batch need not have been committed. It is then run again, which a sink that is exactly-once by
    batch number would notice, since the repartitioning itself takes a number.
    """
    try:
        spark._streamingCheckpointManager.repartition(checkpoint, partitions, False)
    except (Py4JJavaError, PySparkException) as error:
        if _THERE_ALREADY not in str(error):
            raise
