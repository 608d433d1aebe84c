"""Carry a batch that was cut short over to a copy of the checkpoint, where it runs at the new parallelism.

    stop ─▶ copy ─▶ move the copy's state ─▶ plan the batch there ─▶ generation.json ─▶ start

Without this, the batch would first have to run again as planned, at the old parallelism, before state can be moved. The
copy is made as of the commit before the batch. The batch has the same first and last record there, and the sink sees
the same batch number. That needs a fenceable sink; for other sinks the batch runs to its end first.

The old checkpoint is complete with its open batch until the rename of generation.json, and the copy after it, as in a
hand-over (`common/checkpoint_generations.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from autotrascale.analyze.facts import BatchFact
from autotrascale.analyze.live.query_run import QueryWatch
from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.common.checkpoint_facts import (
    CheckpointFacts,
    MoveStateStep,
    find_open_batch_to_carry_over,
    preparation_steps,
)
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.driver_connection import DriverConnection, QueryFailedError
from autotrascale.execute.spark.controller.own_query import OwnQuery, now_ms
from autotrascale.execute.spark.protocol.own_job_messages import (
    BatchPlanned,
    CopyCheckpoint,
    DescribeQuery,
    PlanBatch,
    QueryDescription,
    Repartition,
)
from autotrascale.plan.migration.batch_interruption import OpenBatch, StageDuration, should_interrupt

ReadCheckpointFacts = Callable[[str], CheckpointFacts]


def can_carry_over_open_batch(connection: DriverConnection, settings: SparkSettings) -> bool:
    """Return whether an open batch of the running query can be carried over."""
    if settings.checkpoint_dir:  # a copy is made of hard links on a local disk
        return False
    description = connection.ask(DescribeQuery(), settings.patience.command)
    assert isinstance(description, QueryDescription)
    return description.fenced and description.committed


def should_cut_batch_short(watch: QueryWatch, k: Mapping[str, int], patience: float) -> bool:
    """Return whether the batch in flight would finish sooner after a restart at parallelism `k`.

    Args:
        watch: batches of the running query.
        k: wanted parallelism.
        patience: seconds that the batch would be waited for.
    """
    if (running := watch.in_flight(now_ms())) is None:
        return False
    before = watch.batches[-1]
    batch = OpenBatch(
        running.seconds, running.covered, before.seconds, before.offered_seconds or 0.0, _stage_durations(before)
    )
    return should_interrupt(batch, k, patience)


def carry_over_open_batch(
    connection: DriverConnection,
    settings: SparkSettings,
    read: ReadCheckpointFacts,
    query: OwnQuery,
    k: Mapping[str, int],
    wanted: int,
) -> bool:
    """Carry the open batch of a stopped query over to the next generation of its checkpoint.

    Args:
        connection: connection to the driver.
        settings: settings of the job.
        read: reads the contents of a checkpoint.
        query: the stopped query.
        k: wanted parallelism.
        wanted: state partitions at `k`.

    Returns:
        False if there is no such batch or it could not be carried over; nothing has changed then. True if the copy is
        live; the old checkpoint can be removed once the job runs again.
    """
    if (batch := find_open_batch_to_carry_over(read(query.checkpoint), wanted)) is None:
        return False
    copy, ask = str(query.next_checkpoint), partial(connection.ask, seconds=settings.patience.command)
    try:
        ask(CopyCheckpoint(query.checkpoint, copy))
        for step in preparation_steps(partial(read, copy), wanted, copy):
            if not isinstance(step, MoveStateStep):
                raise EngineError(f"{copy}: the copy ends at a commit, but needs {step}")
            ask(Repartition(copy, step.partitions))
        planned = ask(PlanBatch(query.checkpoint, copy, batch))
    except (QueryFailedError, EngineError):
        query.remove_copies()
        return False
    assert isinstance(planned, BatchPlanned)
    query.hand_over(query.generation.visible.handed_over(batch - 1, planned.batch - 1), k)
    return True


def _stage_durations(batch: BatchFact) -> Sequence[StageDuration]:
    return [
        StageDuration(stage.operator, stage.tasks, (stage.completed_ms - stage.submitted_ms) / 1000)
        for stage in batch.stages
    ]
