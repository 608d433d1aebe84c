"""What a controller and the agent in a program's driver say to each other. The controller asks, and each question is
answered with the reply named beside it or with `Failed`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from autotrascale.execute.spark.protocol.codec import Codec


@dataclass(frozen=True)
class AskApplication:
    """→ `Application`"""


@dataclass(frozen=True)
class AskQueries:
    """→ `Queries`"""


@dataclass(frozen=True)
class RescaleQuery:
    """Give the query this number of partitions, and its marked stages these → `Rescaled`, when it runs there or had to
    go back"""

    query: str  # its id
    partitions: int
    finish_within: float = 120.0  # seconds for the batch in flight; then it is cut off, and runs again
    first_within: float = 120.0  # seconds for the first batch; then the query is taken to be well
    stages: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class AskExecutors:
    """→ `Standing`"""


@dataclass(frozen=True)
class SetExecutorCount:
    """The application shall have this many executors: more are asked for, or some given back → `Standing`"""

    total: int


@dataclass(frozen=True)
class StopForRelaunch:
    """End all queries between two batches, and then the program, which is started again by its keeper → `Left`, when
    the queries have stopped"""

    finish_within: float = 120.0  # seconds for the batches in flight; then they are cut off, and run again


@dataclass(frozen=True)
class StoppedForRelaunch:
    """`cut_off`: the batch of some query did not end in time. `finish_seconds`: how long they took to end."""

    cut_off: bool
    finish_seconds: float


@dataclass(frozen=True)
class ApplicationInfo:
    """`id` is empty, and so is the rest, before the program has opened Spark."""

    pid: int
    id: str = ""
    name: str = ""
    master: str = ""
    spark_version: str = ""
    event_log: str = ""  # the folder; empty where there is none
    slots: int = 0
    lines: tuple[str, ...] = ()  # what was said to its author of what was set


@dataclass(frozen=True)
class AdoptedQuery:
    """One query, in all its runs. `partitions` is what its state and shuffles have now; `gives_all`: its sources are
    known to give each batch all that there is; `source_options`: what its author set of how its one source is read,
    None where that is not known."""

    id: str
    run: str
    runs: tuple[str, ...]  # this and the earlier ones, oldest first
    name: str
    checkpoint: str
    partitions: int
    stateful: bool
    active: bool
    moving: bool  # a rescale is under way
    not_movable: str = ""  # why
    error: str = ""  # what it ended with
    gives_all: bool = False
    source_options: dict[str, str] | None = None
    stages: dict[str, int] = field(default_factory=dict)  # that have a number of their own, by their marks


@dataclass(frozen=True)
class AdoptedQueries:
    """All that the program started, in that order, with those that have ended."""

    queries: tuple[AdoptedQuery, ...]


@dataclass(frozen=True)
class QueryRescaled:
    """`done` is false where the query was brought back to `partitions`; `detail` says why, in one line."""

    done: bool
    partitions: int
    run: str
    cut_off: bool  # the batch in flight did not end in time, and ran again
    finish_seconds: float
    standstill_seconds: float  # from its stop to its first batch, or until it waited for records
    detail: str = ""
    how: str = ""  # overlapped or in place, and why, where there was a choice
    overlap_seconds: float = 0.0  # in which the next query was made ready beside the one that ran


@dataclass(frozen=True)
class ExecutorCounts:
    """How the executors that there are stand to those that were asked for. `why_not`: why none can be asked for or
    given back here; then the rest is what is seen. `trouble`: what the cluster does not do, if anything."""

    staying: int = 0
    leaving: int = 0
    cores: int = 0  # tasks that one of them runs at once; 0 where it is not known
    why_not: str = ""
    trouble: str = ""


@dataclass(frozen=True)
class RequestFailed:
    """What was asked for could not be done; `error` is one line for people. `unforeseen`: nobody refused it, something
    broke, as when the driver's JVM is gone."""

    error: str
    unforeseen: bool = False


Question = AskApplication | AskQueries | RescaleQuery | AskExecutors | SetExecutorCount | StopForRelaunch
Answer = ApplicationInfo | AdoptedQueries | QueryRescaled | ExecutorCounts | StoppedForRelaunch | RequestFailed
CODEC: Codec[Question | Answer] = Codec((*get_args(Question), *get_args(Answer)))
