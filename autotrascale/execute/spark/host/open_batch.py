"""A batch that is planned and not committed has to be out of the way before state can be moved. It runs again, under
its own number and with the partitions that it was planned with. Should the first one behind a move fail with those, it
would for ever: so it is planned anew with others, unless the sink has it. What fails in Spark fails before that. Any
other batch fails for another reason (a sink that is away), may be in it in part, and keeps its number and its input."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from autotrascale.execute.spark.host.checkpoints import CheckpointFolder
from autotrascale.execute.spark.host.file_sinks import has_taken
from autotrascale.execute.spark.query.checkpoint import Entry, is_first_of_its_number


def run_or_forget(
    spark: SparkSession, batch: int, run: Callable[[], object], output: str, checkpoint: str, number: int | None = None
) -> None:
    """`output` is the folder that is written to, if it is one, and `number` the batch's there, if it is another."""
    try:
        run()
    except StreamingQueryException:
        folder, seen = CheckpointFolder(spark, checkpoint), batch if number is None else number
        if not is_first_of_its_number(folder.read(), batch) or has_taken(spark, output, seen):
            raise
        folder.forget((Entry("offsets", batch),))
