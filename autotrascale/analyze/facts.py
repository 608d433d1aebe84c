"""Raw facts of micro-batches as small typed rows, without Spark: what a log, an API or a listener can all fill in.

    symbol   meaning                                                             unit
    T_u      useful time = run + deserialise + result serialisation − fetch wait ms
    wait     time a task stood still for shuffled input                          ms

One operator = one stage (or a few, when its own plan shuffles inside); one instance = one task index. Times of day are
Unix milliseconds, as Spark tells them. Counts and times of tasks are whole numbers, so that their sums are the same in
whatever order and by whomever they are added up. What was not written is None, and never zero.

What an archive has several of for each batch costs a quarter to make as a structure of msgspec's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct


class TaskTimes(Struct, frozen=True, gc=False):
    """When a task held its slot, by the driver's clock, and what of its time Spark tells apart beside what a
    `TaskFact` has. None is not told."""

    launched_ms: int
    finished_ms: int
    run_ms: int | None = None
    serialise_ms: int | None = None
    shuffle_write_ms: float | None = None
    python_ms: int | None = None  # Python workers, beside the time in the user's own code
    state_load_ms: int | None = None
    state_commit_ms: int | None = None
    remote_bytes: int | None = None  # of shuffles, from other executors
    local_bytes: int | None = None  # … and from its own


@dataclass(frozen=True, slots=True)
class TaskFact:
    """One task that did its work, or the sums of several of one instance. `read` comes from a source or a shuffle,
    `sent` goes to the next shuffle, `written` to a file. `tasks` says how it comes about."""

    stage: int
    index: int
    useful_ms: int | None
    deserialise_ms: int | None = None
    wait_ms: int | None = None
    gc_ms: int | None = None
    read: int | None = None
    sent: int | None = None
    written: int | None = None
    served_ms: int | None = None
    served_squares: int | None = None
    slot_ms: int | None = None  # how long it held its slot, working or not
    cpu_ns: int | None = None
    executor: str | None = None  # that ran it, by Spark's name
    times: TaskTimes | None = None  # of a job that is followed


class StageFact(Struct, frozen=True, gc=False):
    """One stage of one batch. `entry` says that it takes in the operator's input; a stage behind a shuffle that the
    operator's own plan makes does not, nor does `exit` hold for one before it."""

    stage: int
    operator: str
    tasks: int
    submitted_ms: int
    completed_ms: int
    entry: bool = True
    exit: bool = True
    first: bool = False  # it reads from no other stage
    stateful: bool = False
    parents: tuple[int, ...] = ()  # the stages that it reads from, as far as they are known


class MarkFact(Struct, frozen=True, gc=False):
    """What a mark `op:NAME` counted in one batch; a source's mark knows the arrival times too, in Unix seconds."""

    count: int
    first: float | None = None
    mean: float | None = None
    last: float | None = None


@dataclass(frozen=True, slots=True)
class StateFact:
    """One stateful operator in the plan: keys kept, memory, time to commit."""

    keys: int | None
    bytes: int | None
    commit_seconds: float | None


@dataclass(frozen=True, slots=True)
class BatchFact:
    """One committed micro-batch: what Spark's progress says, and its stages and tasks."""

    batch: int
    run: str
    started_ms: int
    seconds: float
    input_records: int | None
    offered_seconds: float | None = None  # the input time it covers, as Spark tells the rate of its sources
    output_records: int | None = None  # that its sink took
    behind: int | None = None  # records that its sources had and did not give, when it was planned
    phases: Mapping[str, float] = field(default_factory=dict)  # seconds by Spark's names: addBatch, walCommit, …
    marks: Mapping[str, MarkFact] = field(default_factory=dict)
    stages: tuple[StageFact, ...] = ()
    tasks: tuple[TaskFact, ...] = ()
    states: tuple[StateFact, ...] = ()
    offsets: tuple[tuple[object, object], ...] = ()  # (start, end) for each source, as the source wrote them
    newest: tuple[object, ...] = ()  # … and the newest that it had when the batch was planned
    query: str | None = None  # its number, the same from run to run
    name: str | None = None
    sources: tuple[str, ...] = ()  # as they describe themselves: KafkaV2[Subscribe[clicks]]
    sink: str = ""  # … as it does: ForeachBatchSink
    jobs_ms: tuple[int, ...] = ()  # when its jobs were submitted
    slots: int | None = None  # tasks that could run at once (see `slots`)

    @property
    def committed_ms(self) -> float:
        return self.started_ms + self.seconds * 1000


@dataclass(frozen=True, slots=True)
class BatchStarted:
    """A batch whose tasks began to run: what is in flight counts too, when it takes too long."""

    batch: int
    run: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class QueryRunStarted:
    """A query run that is there, told before its first batch. `query` stays the same from run to run; a query need not
    have a name."""

    run: str
    query: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class QueryRunEnded:
    """A query run that is over; `error` is Spark's, empty when it was stopped."""

    run: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class ExecutorCame:
    """`cores` are the tasks that it can run at once."""

    executor: str
    host: str
    cores: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class ExecutorGone:
    executor: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Configured:
    """What the application was started with, of what says how much it may take."""

    conf: Mapping[str, str]


Fact = Configured | BatchFact | BatchStarted | QueryRunStarted | QueryRunEnded | ExecutorCame | ExecutorGone
