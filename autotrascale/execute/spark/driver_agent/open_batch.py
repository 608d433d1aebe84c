"""A batch that is planned and not committed has to be out of the way before state can be moved. It runs again, under
its own number and with the partitions that it was planned with. Should the first one behind a move fail with those, it
would for ever: so it is planned anew with others, unless the sink has it. What fails in Spark fails before that. Any
other batch fails for another reason (a sink that is away), may be in it in part, and keeps its number and its input."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from autotrascale.execute.spark.common.checkpoint_facts import LogEntry, is_first_after_move
from autotrascale.execute.spark.driver_agent.checkpoint_folder import CheckpointFolder
from autotrascale.execute.spark.driver_agent.file_sink_log import sink_has_batch


def run_open_batch(
    spark: SparkSession, batch: int, run: Callable[[], object], output: str, checkpoint: str, number: int | None = None
) -> None:
    """`output` is the folder that is written to, if it is one, and `number` the batch's there, if it is another."""
    try:
        run()
    except StreamingQueryException:
        folder, seen = CheckpointFolder(spark, checkpoint), batch if number is None else number
        if not is_first_after_move(folder.read(), batch) or sink_has_batch(spark, output, seen):
            raise
        folder.forget((LogEntry("offsets", batch),))
