"""Giving the state of a stopped query another number of partitions. Spark calls its own way experimental, and it is
reached through a private name, so it stands behind this one function."""

from __future__ import annotations

from pyspark.sql import SparkSession


def repartition_state(spark: SparkSession, checkpoint: str, partitions: int) -> None:
    """Moves every key of every stateful operator of the checkpoint; needs the RocksDB provider. Begun before and not
    finished, it is done again from its start.

    `True`: no batch is open. Spark would not run it again under its own number, and a sink that goes by batch numbers
    would see its records twice. `query/checkpoint.py` says what to do before.
    """
    spark._streamingCheckpointManager.repartition(checkpoint, partitions, True)
