"""Messages between the controller and the Spark driver of an own job: one JSON object per line, validated when read.

The controller sends one request at a time. The driver answers each with the reply named in its docstring, or with
`Failed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from autotrascale.domain.topology import Operator
from autotrascale.domain.trial import Sink
from autotrascale.execute.spark.common.checkpoint_facts import CheckpointFacts
from autotrascale.execute.spark.common.checkpoint_generations import VisibleBatches
from autotrascale.execute.spark.common.source_settings import SourceSettings, TopicContents
from autotrascale.execute.spark.protocol.codec import Codec

# -- requests ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Boot:
    """Import the job and open the Spark session → `Ready`."""

    job: str  # module:attribute
    options: Mapping[str, Any]
    conf: Mapping[str, str]  # all Spark settings, the master included
    work_dir: str  # the driver removes it if the controller has died
    executors_within: float  # seconds to wait for the first executor
    sources: Mapping[str, SourceSettings] = field(default_factory=dict)
    copies: str = ""  # folder for copies of topics; empty: the job reads the topics themselves


@dataclass(frozen=True)
class BuildQuery:
    """Build the query that `StartQuery` will start soon; the running query goes on → `Done`."""

    parallelism: Mapping[str, int]
    load_file: str


@dataclass(frozen=True)
class StartQuery:
    """Stop the running query, if any, and start this one → `Started`."""

    parallelism: Mapping[str, int]
    checkpoint: str
    load_file: str
    sink: Sink = "real"
    visible: VisibleBatches = field(default_factory=VisibleBatches)
    fence: bool = False  # put a fence before the sink if possible, so that another query can take over


@dataclass(frozen=True)
class StopQuery:
    """Stop the running query, if any → `Done`."""


@dataclass(frozen=True)
class IsWaiting:
    """Ask whether the running query has no batch in flight → `WaitingState`."""


@dataclass(frozen=True)
class ReadCheckpoint:
    """Read the contents of a checkpoint → `CheckpointRead`."""

    checkpoint: str


@dataclass(frozen=True)
class RunOpenBatch:
    """Run the planned, uncommitted batch of a stopped query and no other batch → `Done`.

    After the reply the batch is committed, or removed from the plan if its new number of partitions made it fail.
    """

    batch: int
    parallelism: Mapping[str, int]
    checkpoint: str
    load_file: str
    sink: Sink = "real"
    visible: VisibleBatches = field(default_factory=VisibleBatches)
    fence: bool = False


@dataclass(frozen=True)
class Repartition:
    """Move the state of a stopped query to another number of partitions → `Done`."""

    checkpoint: str
    partitions: int


@dataclass(frozen=True)
class DescribeQuery:
    """Describe the running query → `QueryDescription`."""


@dataclass(frozen=True)
class CopyCheckpoint:
    """Copy a checkpoint as of its newest commit; its query may run meanwhile → `CheckpointCopied`."""

    checkpoint: str
    target: str


@dataclass(frozen=True)
class PlanBatch:
    """Plan in a copy a batch with the same end of input as this batch of the original → `BatchPlanned`."""

    checkpoint: str
    copy: str
    batch: int


@dataclass(frozen=True)
class CatchUp:
    """Run in the copy the batches that the running query has committed since, and write nothing → `CaughtUp`."""

    parallelism: Mapping[str, int]
    checkpoint: str  # the copy
    load_file: str
    since: int | None = None  # run each batch after this one as in the original; None: all of them as one batch
    within: float = 60.0  # seconds; a batch that has begun is finished


@dataclass(frozen=True)
class DropCopy:
    """Stop the query that follows the running one batch by batch → `Done`."""


@dataclass(frozen=True)
class HandOver:
    """End the running query at a batch, and start a query on the copy that continues there → `HandedOver`.

    The new query writes nothing until `LetWrite`. If anything fails, the running query goes on as before.
    """

    parallelism: Mapping[str, int]
    checkpoint: str  # the copy
    load_file: str
    within: float  # seconds


@dataclass(frozen=True)
class LetWrite:
    """Let the query that `HandOver` started write to the sink → `Done`."""


@dataclass(frozen=True)
class Shutdown:
    """Stop the query and the session, and end the process → `Done`."""


# -- replies -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ready:
    """The session is open."""

    application: str
    spark_version: str
    slots: int
    job: str
    operators: Mapping[str, Operator]
    topics: Mapping[str, TopicContents] = field(default_factory=dict)  # by source


@dataclass(frozen=True)
class Started:
    """The query is started."""

    run: str
    generated: tuple[str, ...]  # sources with a generated load
    once_only: tuple[str, ...]  # formats of the sources that deliver each record only once
    seconds: float


@dataclass(frozen=True)
class WaitingState:
    """The answer to `IsWaiting`: the query waits for new input or for its next trigger, or not."""

    waiting: bool


@dataclass(frozen=True)
class CheckpointRead:
    """The contents of the checkpoint."""

    facts: CheckpointFacts


@dataclass(frozen=True)
class QueryDescription:
    """The properties that decide whether another query can take over from the running one."""

    sink: str  # format of the sink
    fenced: bool
    by_batches: str  # name of an operation whose results depend on where batches end; empty if none was found
    named: bool
    committed: bool
    keys: float | None  # keys of state after its last batch


@dataclass(frozen=True)
class CheckpointCopied:
    """The checkpoint was copied as of `batch`."""

    batch: int


@dataclass(frozen=True)
class BatchPlanned:
    """The batch was planned under the number `batch` in the copy."""

    batch: int


@dataclass(frozen=True)
class CaughtUp:
    """The copy has run `ran` batches in `seconds`."""

    seconds: float
    ran: int
    committed: int = 0  # batches that the running query has committed meanwhile
    behind: int = 0  # batches that the running query has committed and the copy has not


@dataclass(frozen=True)
class HandedOver:
    """The query on the copy is ready to write."""

    run: str
    visible: VisibleBatches  # of the copy
    wrote_at: float  # Unix time of the last write of the former query
    seconds: float


@dataclass(frozen=True)
class Done:
    """The request was carried out."""

    seconds: float = 0.0


@dataclass(frozen=True)
class Failed:
    """The request could not be carried out; `error` is one line for users."""

    error: str


Request = (
    Boot
    | BuildQuery
    | StartQuery
    | StopQuery
    | IsWaiting
    | ReadCheckpoint
    | RunOpenBatch
    | Repartition
    | DescribeQuery
    | CopyCheckpoint
    | PlanBatch
    | CatchUp
    | DropCopy
    | HandOver
    | LetWrite
    | Shutdown
)
Reply = (
    Ready
    | Started
    | WaitingState
    | CheckpointRead
    | QueryDescription
    | CheckpointCopied
    | BatchPlanned
    | CaughtUp
    | HandedOver
    | Done
    | Failed
)
Message = Request | Reply
CODEC: Codec[Message] = Codec(get_args(Message))
