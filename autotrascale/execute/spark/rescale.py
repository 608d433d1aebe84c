"""Giving the state of a stopped query another number of partitions. Spark calls its own way experimental, and it is
reached through a private name, so it stands behind this one function."""

from __future__ import annotations

from pyspark.sql import SparkSession


def repartition_state(spark: SparkSession, checkpoint: str, partitions: int) -> None:
    """Moves every key of every stateful operator of the checkpoint; needs the RocksDB provider.

    `False`: the last batch need not have been committed. It is then run again, which a sink that is exactly-once by
    batch number would notice, since the repartitioning itself takes a number.
    """
    spark._streamingCheckpointManager.repartition(checkpoint, partitions, False)
