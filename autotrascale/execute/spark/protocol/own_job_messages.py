"""What the engine and its host say to each other: one JSON object a line, each a frozen dataclass, read with care.

The engine asks one thing at a time and the host answers each time, with the reply named beside it or with `Failed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from autotrascale.domain.topology import Operator, Topology
from autotrascale.domain.trial import Sink
from autotrascale.execute.spark.common.checkpoint_facts import CheckpointFacts, LogEntry
from autotrascale.execute.spark.common.checkpoint_generations import VisibleBatches
from autotrascale.execute.spark.common.source_settings import SourceSettings, TopicContents
from autotrascale.execute.spark.protocol.codec import Codec


@dataclass(frozen=True)
class Boot:
    """Load the job and open the session → `Ready`. `conf` is everything, the master included."""

    job: str
    options: Mapping[str, Any]
    conf: Mapping[str, str]
    work_dir: str  # removed by the host when its parent is gone and nobody else can
    executors_within: float  # seconds
    sources: Mapping[str, SourceSettings] = field(default_factory=dict)
    copies: str = ""  # the folder for copies of what sources hold; empty: the job reads the sources themselves


@dataclass(frozen=True)
class StartQuery:
    """→ `Started`"""

    parallelism: Mapping[str, int]
    checkpoint: str
    load_file: str
    sink: Sink = "real"
    visible: VisibleBatches = field(default_factory=VisibleBatches)
    fence: bool = False  # before its sink, where one can stand there: another query may take over from it


@dataclass(frozen=True)
class BuildQuery:
    """What `StartQuery` will be asked for soon → `Done`. The query that runs goes on."""

    parallelism: Mapping[str, int]
    load_file: str


@dataclass(frozen=True)
class StopQuery:
    """→ `Done`, also when none runs"""


@dataclass(frozen=True)
class Repartition:
    """Give the state of a stopped query another number of partitions → `Done`"""

    checkpoint: str
    partitions: int


@dataclass(frozen=True)
class ReadCheckpoint:
    """→ `CheckpointRead`"""

    checkpoint: str


@dataclass(frozen=True)
class RunOpenBatch:
    """The batch that a stopped query has planned and not committed, and no other → `Done`, when it is committed, or is
    to be planned anew"""

    batch: int
    parallelism: Mapping[str, int]
    checkpoint: str
    load_file: str
    sink: Sink = "real"
    visible: VisibleBatches = field(default_factory=VisibleBatches)
    fence: bool = False


@dataclass(frozen=True)
class ForgetEntries:
    """Remove these entries of a checkpoint, in this order → `Done`"""

    checkpoint: str
    entries: tuple[LogEntry, ...]


@dataclass(frozen=True)
class DescribeQuery:
    """The query that runs → `Described`"""


@dataclass(frozen=True)
class CopyCheckpoint:
    """As of its newest commit; its query may run meanwhile → `Copied`"""

    checkpoint: str
    target: str


@dataclass(frozen=True)
class PlanBatch:
    """Plan in a copy what is planned as this batch of the original → `Given`"""

    checkpoint: str
    copy: str
    batch: int


@dataclass(frozen=True)
class CatchUp:
    """Run in the copy what the query that runs has committed since, and write nothing → `CaughtUp`. `since`: batch by
    batch, each as it was there, since the one that the copy was made as of; None: as one batch."""

    parallelism: Mapping[str, int]
    checkpoint: str  # the copy
    load_file: str
    since: int | None = None
    within: float = 60.0  # seconds; one that has begun is not broken off


@dataclass(frozen=True)
class DropCopy:
    """The copy that was led through batches is given up; the query that runs goes on → `Done`"""


@dataclass(frozen=True)
class HandOver:
    """End the query that runs at a batch, and start one on the copy that goes on from there and writes nothing yet →
    `HandedOver`. Where that fails, the one that ran goes on as if nothing had been."""

    parallelism: Mapping[str, int]
    checkpoint: str  # the copy
    load_file: str
    within: float  # seconds


@dataclass(frozen=True)
class LetWrite:
    """The query that was started with `HandOver` is the live one → `Done`"""


@dataclass(frozen=True)
class IsWaiting:
    """→ `Waiting`"""


@dataclass(frozen=True)
class Shutdown:
    """→ `Done`, and the host ends"""


@dataclass(frozen=True)
class Ready:
    application: str
    spark_version: str
    slots: int
    job: str
    operators: Mapping[str, Operator]
    topics: Mapping[str, TopicContents] = field(default_factory=dict)  # by the sources that read them


@dataclass(frozen=True)
class Started:
    run: str
    generated: tuple[str, ...]  # the sources whose load is ours to make
    not_replayable: tuple[str, ...]  # sources that give each record only once
    seconds: float


@dataclass(frozen=True)
class CheckpointRead:
    found: CheckpointFacts


@dataclass(frozen=True)
class QueryDescription:
    """What says whether another query can take over from the one that runs."""

    sink: str  # the format that it writes to
    fenced: bool
    by_batches: str  # what in it goes by where a batch ends; empty: nothing that can be seen
    named: bool
    committed: bool
    keys: float | None  # of state, as its last batch told


@dataclass(frozen=True)
class BatchPlanned:
    batch: int  # its number in the copy


@dataclass(frozen=True)
class CheckpointCopied:
    batch: int  # as of which


@dataclass(frozen=True)
class CaughtUp:
    seconds: float
    given: int  # batches that the copy has run
    came: int = 0  # batches that the query that runs has committed meanwhile
    behind: int = 0  # batches that it has committed and the copy has not


@dataclass(frozen=True)
class HandedOver:
    run: str
    visible: VisibleBatches  # of the copy's batches
    wrote_at: float  # seconds of Unix time, when the one that ran wrote for the last time
    seconds: float


@dataclass(frozen=True)
class WaitingState:
    """Whether the query runs and has no batch in flight: its sources have nothing new, or its next trigger is yet to
    come."""

    waiting: bool


@dataclass(frozen=True)
class Done:
    seconds: float = 0.0


@dataclass(frozen=True)
class Failed:
    """What was asked for could not be done; `error` is one line for people."""

    error: str


Message = (
    Boot
    | BuildQuery
    | StartQuery
    | StopQuery
    | Repartition
    | ReadCheckpoint
    | RunOpenBatch
    | ForgetEntries
    | IsWaiting
    | Shutdown
    | DescribeQuery
    | CopyCheckpoint
    | PlanBatch
    | CatchUp
    | DropCopy
    | HandOver
    | LetWrite
    | Ready
    | Started
    | CheckpointRead
    | WaitingState
    | QueryDescription
    | CheckpointCopied
    | BatchPlanned
    | CaughtUp
    | HandedOver
    | Done
    | Failed
)
CODEC: Codec[Message] = Codec(get_args(Message))
encode, decode = CODEC.encode, CODEC.decode


def count_state_partitions(topology: Topology, k: Mapping[str, int]) -> int:
    """Spark gives all state of one query one number of partitions; 0 where there is no state. Both sides go by it."""
    return max((k[name] for name, operator in topology.operators.items() if operator.stateful), default=0)
