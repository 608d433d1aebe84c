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
from autotrascale.analyze.live.watch import Watch
from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.connection.connection import Connection, QueryFailedError
from autotrascale.execute.spark.connection.messages import (
    CopyCheckpoint,
    Describe,
    Described,
    GiveBatch,
    Given,
    Repartition,
)
from autotrascale.execute.spark.query import checkpoint
from autotrascale.execute.spark.query.checkpoint import Checkpoint, MoveState
from autotrascale.execute.spark.query.query import Query, now_ms
from autotrascale.execute.spark.settings import SparkSettings
from autotrascale.plan.migration.cutting import InFlight, Part, is_worth_cutting

Read = Callable[[str], Checkpoint]


def can_be_taken_along(connection: Connection, settings: SparkSettings) -> bool:
    """An open batch of the query that runs now."""
    if settings.checkpoint_dir:  # it is copied by links on this machine's disk
        return False
    found = connection.ask(Describe(), settings.patience.command)
    assert isinstance(found, Described)
    return found.fenced and found.committed


def is_better_cut_short(watch: Watch, k: Mapping[str, int], patience: float) -> bool:
    """The batch in flight, now, which would be waited for so many seconds."""
    if (running := watch.in_flight(now_ms())) is None:
        return False
    before = watch.batches[-1]
    batch = InFlight(running.seconds, running.covered, before.seconds, before.offered_seconds or 0.0, _parts(before))
    return is_worth_cutting(batch, k, patience)


def take_along(
    connection: Connection, settings: SparkSettings, read: Read, query: Query, k: Mapping[str, int], wanted: int
) -> bool:
    """Of a query that is stopped. False where there is nothing to take along, or it did not work out: then everything
    is as it was. Else the old checkpoint is rubbish, and can be removed once the job runs again."""
    if (batch := checkpoint.in_the_way(read(query.checkpoint), wanted)) is None:
        return False
    copy, ask = str(query.next_checkpoint), partial(connection.ask, seconds=settings.patience.command)
    try:
        ask(CopyCheckpoint(query.checkpoint, copy))
        for step in checkpoint.steps(partial(read, copy), wanted, copy):
            if not isinstance(step, MoveState):
                raise EngineError(f"{copy}: was copied as of a commit, and still needs {step}")
            ask(Repartition(copy, step.partitions))
        given = ask(GiveBatch(query.checkpoint, copy, batch))
    except (QueryFailedError, EngineError):
        query.remove_copies()
        return False
    assert isinstance(given, Given)
    query.hand_over(query.generation.visible.handed_over(batch - 1, given.batch - 1), k)
    return True


def _parts(batch: BatchFact) -> Sequence[Part]:
    return [
        Part(stage.operator, stage.tasks, (stage.completed_ms - stage.submitted_ms) / 1000) for stage in batch.stages
    ]
