"""A batch that was cut short need not run again as it was planned, with few partitions and for long, before state can
be moved: it is taken along to a copy of the checkpoint as of the commit before it, and runs there, from the same record
to the same record, at the new parallelism.

    stop ─▶ copy ─▶ move the copy's state ─▶ plan the batch there ─▶ generation.json ─▶ start

As with a hand-over (`generation.py`), the old checkpoint is whole until the rename, with its open batch, and the copy
after it. The sink sees the batch under the number that it had. Where Spark writes by itself nobody can give it that
number, and the batch is run to its end first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from autotrascale.analyze.facts import BatchFact
from autotrascale.analyze.live.query_run import QueryWatch
from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.common import checkpoint_facts
from autotrascale.execute.spark.common.checkpoint_facts import CheckpointFacts, MoveStateStep
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

Read = Callable[[str], CheckpointFacts]


def can_carry_over_open_batch(connection: DriverConnection, settings: SparkSettings) -> bool:
    """An open batch of the query that runs now."""
    if settings.checkpoint_dir:  # it is copied by links on this machine's disk
        return False
    found = connection.ask(DescribeQuery(), settings.patience.command)
    assert isinstance(found, QueryDescription)
    return found.fenced and found.committed


def should_cut_batch_short(watch: QueryWatch, k: Mapping[str, int], patience: float) -> bool:
    """The batch in flight, now, which would be waited for so many seconds."""
    if (running := watch.in_flight(now_ms())) is None:
        return False
    before = watch.batches[-1]
    batch = OpenBatch(running.seconds, running.covered, before.seconds, before.offered_seconds or 0.0, _parts(before))
    return should_interrupt(batch, k, patience)


def carry_over_open_batch(
    connection: DriverConnection,
    settings: SparkSettings,
    read: Read,
    query: OwnQuery,
    k: Mapping[str, int],
    wanted: int,
) -> bool:
    """Of a query that is stopped. False where there is nothing to take along, or it did not work out: then everything
    is as it was. Else the old checkpoint is rubbish, and can be removed once the job runs again."""
    if (batch := checkpoint_facts.find_open_batch_to_carry_over(read(query.checkpoint), wanted)) is None:
        return False
    copy, ask = str(query.next_checkpoint), partial(connection.ask, seconds=settings.patience.command)
    try:
        ask(CopyCheckpoint(query.checkpoint, copy))
        for step in checkpoint_facts.preparation_steps(partial(read, copy), wanted, copy):
            if not isinstance(step, MoveStateStep):
                raise EngineError(f"{copy}: was copied as of a commit, and still needs {step}")
            ask(Repartition(copy, step.partitions))
        given = ask(PlanBatch(query.checkpoint, copy, batch))
    except (QueryFailedError, EngineError):
        query.remove_copies()
        return False
    assert isinstance(given, BatchPlanned)
    query.hand_over(query.generation.visible.handed_over(batch - 1, given.batch - 1), k)
    return True


def _parts(batch: BatchFact) -> Sequence[StageDuration]:
    return [
        StageDuration(stage.operator, stage.tasks, (stage.completed_ms - stage.submitted_ms) / 1000)
        for stage in batch.stages
    ]
