"""The run of an open batch (planned, not committed) before state is moved.

The batch runs again under its own number, with the partitions that it was planned with. The first batch after a move
may fail because of its number of partitions, and would fail for ever. So this batch is planned anew, unless the sink
has it already. Any other batch fails for another reason, such as a sink that is down. It may be partly in the sink, so
it keeps its number and its input.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from autotrascale.execute.spark.common.checkpoint_facts import is_first_after_move
from autotrascale.execute.spark.driver_agent.checkpoint_folder import CheckpointFolder
from autotrascale.execute.spark.driver_agent.file_sink_log import sink_has_batch


def run_open_batch(
    spark: SparkSession, batch: int, run: Callable[[], object], output: str, checkpoint: str, number: int | None = None
) -> None:
    """Run the open batch by calling `run`, or remove it from the plan if it failed because of its partitions.

    Args:
        spark: the session.
        batch: number of the batch in the checkpoint.
        run: runs the batch and waits for its end.
        output: folder of the file sink; empty for another sink.
        checkpoint: the checkpoint.
        number: number of the batch in the sink, if it differs.
    """
    try:
        run()
    except StreamingQueryException:
        folder, sink_number = CheckpointFolder(spark, checkpoint), batch if number is None else number
        if not is_first_after_move(folder.read(), batch) or sink_has_batch(spark, output, sink_number):
            raise
        folder.remove_planned(batch)
