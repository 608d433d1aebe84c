"""Messages between a controller and the agent in a program's driver.

The controller asks; the agent answers each question with the message named beside it, or with `RequestFailed`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from autotrascale.execute.spark.protocol.codec import Codec


@dataclass(frozen=True)
class AskApplication:
    """→ `ApplicationInfo`"""


@dataclass(frozen=True)
class AskQueries:
    """→ `AdoptedQueries`"""


@dataclass(frozen=True)
class RescaleQuery:
    """Change the partitions of a query and of its marked stages → `QueryRescaled`, after success or roll-back.

    `finish_within`: seconds for the present batch; then it is cut off and runs again. `first_within`: seconds for the
    first batch with the new partitions; then the query counts as healthy.
    """

    query: str  # id
    partitions: int
    finish_within: float = 120.0
    first_within: float = 120.0
    stages: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class AskExecutors:
    """→ `ExecutorCounts`"""


@dataclass(frozen=True)
class SetExecutorCount:
    """Request or release executors until the application has `total` → `ExecutorCounts`"""

    total: int


@dataclass(frozen=True)
class StopForRelaunch:
    """Stop all queries between two batches, then end the program → `StoppedForRelaunch`, once the queries have stopped.

    The supervisor starts the program again. `finish_within`: seconds for the present batches; then they are cut off
    and run again.
    """

    finish_within: float = 120.0


@dataclass(frozen=True)
class StoppedForRelaunch:
    """`cut_off`: the batch of some query did not end in time. `finish_seconds`: time until all queries had stopped."""

    cut_off: bool
    finish_seconds: float


@dataclass(frozen=True)
class ApplicationInfo:
    """The Spark application of a program. Before the program opens Spark, all fields but `pid` are empty.

    `event_log`: folder of the event log, empty without one. `slots`: tasks that run at once.
    """

    pid: int
    id: str = ""
    name: str = ""
    master: str = ""
    spark_version: str = ""
    event_log: str = ""
    slots: int = 0


@dataclass(frozen=True)
class AdoptedQuery:
    """A query of a program, over all its runs.

    `runs`: ids of all runs, oldest first. `partitions`: of its state and shuffles. `not_movable`: why it cannot be
    rescaled, empty if it can. `error`: the error that ended it. `reads_all_available`: each batch reads everything
    that its sources hold. `source_options`: options of its only source, None if unknown. `stages`: partitions of
    marked stages by mark.
    """

    id: str
    run: str
    runs: tuple[str, ...]
    name: str
    checkpoint: str
    partitions: int
    stateful: bool
    active: bool
    is_rescaling: bool
    not_movable: str = ""
    error: str = ""
    reads_all_available: bool = False
    source_options: dict[str, str] | None = None
    stages: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class AdoptedQueries:
    """All queries that the program started, in that order; ended queries too."""

    queries: tuple[AdoptedQuery, ...]


@dataclass(frozen=True)
class QueryRescaled:
    """Result of a rescale. If `done` is false the query runs with its former partitions, and `detail` says why.

    `cut_off`: the batch in flight did not end in time and ran again. `finish_seconds`: time until that batch had
    ended. `standstill_seconds`: from the stop to the first batch, or until the query waited for records. `how`: in
    place or overlapped, and why. `overlap_seconds`: time in which a second query was prepared beside the first.
    """

    done: bool
    partitions: int
    run: str
    cut_off: bool
    finish_seconds: float
    standstill_seconds: float
    detail: str = ""
    how: str = ""
    overlap_seconds: float = 0.0


@dataclass(frozen=True)
class ExecutorCounts:
    """Executors of the application.

    `staying` and `leaving`: executors that take tasks, and executors that only finish theirs. `cores`: tasks that one
    executor runs at once, 0 if unknown. `not_elastic`: why executors cannot be requested or released, empty if they
    can. `trouble`: executors that the cluster did not grant or release in time.
    """

    staying: int = 0
    leaving: int = 0
    cores: int = 0
    not_elastic: str = ""
    trouble: str = ""


@dataclass(frozen=True)
class RequestFailed:
    """A request that was refused or failed. `unexpected`: not refused, something broke, such as the driver's JVM."""

    error: str
    unexpected: bool = False


Question = AskApplication | AskQueries | RescaleQuery | AskExecutors | SetExecutorCount | StopForRelaunch
Answer = ApplicationInfo | AdoptedQueries | QueryRescaled | ExecutorCounts | StoppedForRelaunch | RequestFailed
CODEC: Codec[Question | Answer] = Codec((*get_args(Question), *get_args(Answer)))
