"""A batch that is planned and not committed has to be out of the way before state can be moved. It runs again, under
its own number and with the partitions that it was planned with. Should it fail with those, it would for ever: so it is
planned anew with others, unless the sink has it. What fails in Spark fails before that."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from autotrascale.execute.spark.host.checkpoints import CheckpointFolder
from autotrascale.execute.spark.host.file_sinks import has_taken
from autotrascale.execute.spark.query.checkpoint import Entry


def run_or_forget(spark: SparkSession, batch: int, run: Callable[[], object], output: str, checkpoint: str) -> None:
    """`output` is the folder that is written to, if it is one."""
    try:
        run()
    except StreamingQueryException:
        if has_taken(spark, output, batch):
            raise
        CheckpointFolder(spark, checkpoint).forget((Entry("offsets", batch),))
