"""What the engine and its host say to each other: one JSON object a line, each a frozen dataclass, read with care.

The engine asks one thing at a time and the host answers each time, with the reply named beside it or with `Failed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from autotrascale.domain.topology import Operator, Topology
from autotrascale.domain.trial import Sink
from autotrascale.execute.spark.connection.codec import Codec
from autotrascale.execute.spark.load.topic import SourceSettings, TopicHolds
from autotrascale.execute.spark.query.checkpoint import Checkpoint, Entry


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


@dataclass(frozen=True)
class Forget:
    """Remove these entries of a checkpoint, in this order → `Done`"""

    checkpoint: str
    entries: tuple[Entry, ...]


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
    topics: Mapping[str, TopicHolds] = field(default_factory=dict)  # by the sources that read them


@dataclass(frozen=True)
class Started:
    run: str
    generated: tuple[str, ...]  # the sources whose load is ours to make
    not_replayable: tuple[str, ...]  # sources that give each record only once
    seconds: float


@dataclass(frozen=True)
class CheckpointRead:
    found: Checkpoint


@dataclass(frozen=True)
class Waiting:
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
    Boot | StartQuery | StopQuery | Repartition | ReadCheckpoint | RunOpenBatch | Forget | IsWaiting | Shutdown
    | Ready | Started | CheckpointRead | Waiting | Done | Failed
)  # fmt: skip
CODEC: Codec[Message] = Codec(get_args(Message))
encode, decode = CODEC.encode, CODEC.decode


def state_partitions(topology: Topology, k: Mapping[str, int]) -> int:
    """Spark gives all state of one query one number of partitions; 0 where there is no state. Both sides go by it."""
    return max((k[name] for name, operator in topology.operators.items() if operator.stateful), default=0)
