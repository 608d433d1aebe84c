"""The move of a stopped query's state to another number of partitions, by an experimental, private method of Spark."""

from __future__ import annotations

from pyspark.sql import SparkSession


def repartition_state(spark: SparkSession, checkpoint: str, partitions: int) -> None:
    """Move every key of every stateful operator in `checkpoint`. A move that was interrupted starts again.

    Needs the RocksDB state store provider and a checkpoint without an open batch: see `common/checkpoint_facts.py`.
    """
    # True: fail if a batch is open. Spark would run it again under another number, which doubles records in some sinks.
    spark._streamingCheckpointManager.repartition(checkpoint, partitions, True)
