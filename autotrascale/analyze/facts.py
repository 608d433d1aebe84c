"""Raw facts of micro-batches as small typed rows. They can be filled from a log, an API or a listener.

    symbol   meaning                                                             unit
    T_u      useful time = run + deserialise + result serialisation − fetch wait ms
    wait     time in which a task waited for shuffled input                      ms

One operator is one stage, or a few stages where the operator's own plan shuffles. One instance of an operator is one
task index. Times of day are Unix milliseconds, as Spark writes them. Counts and times of tasks are whole numbers, so
that their sums do not depend on the order of summation. A number that the log does not hold is None, and never zero.

Facts of which a batch has many are structures of msgspec: they cost a quarter of a dataclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct


class TaskTimes(Struct, frozen=True, gc=False):
    """Times of a task by the driver's clock, and the parts of its time that Spark reports beside a `TaskFact`."""

    launched_ms: int
    finished_ms: int
    run_ms: int | None = None
    serialise_ms: int | None = None
    shuffle_write_ms: float | None = None
    python_ms: int | None = None  # Python workers, without the time in the user's own code
    state_load_ms: int | None = None
    state_commit_ms: int | None = None
    remote_bytes: int | None = None  # of shuffles, from other executors
    local_bytes: int | None = None  # of shuffles, from the task's own executor


class TaskFact(Struct, frozen=True, gc=False):
    """A successful task, or the sums of several tasks of one instance.

    `read` counts records from a source or a shuffle, `sent` records to the next shuffle, `written` records to a file.
    `task_facts` has the formulas.
    """

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
    slot_ms: int | None = None  # time for which the task held its slot, busy or not
    cpu_ns: int | None = None
    executor: str | None = None  # name of the executor that ran the task
    times: TaskTimes | None = None  # known only where tasks are decoded in full


class StageFact(Struct, frozen=True, gc=False):
    """A stage of one batch.

    `entry`: the stage takes in the operator's input. `exit`: the stage gives the operator's output. A stage behind a
    shuffle inside the operator is no entry, and a stage before such a shuffle is no exit. `upstream` names the
    operators whose output the stage reads. `rank` orders operators as the data flows.
    """

    stage: int
    operator: str
    tasks: int
    submitted_ms: int
    completed_ms: int
    entry: bool = True
    exit: bool = True
    first: bool = False  # the stage reads from no other stage
    stateful: bool = False
    parents: tuple[int, ...] = ()  # the stages that it reads from, as far as they are known
    upstream: tuple[str, ...] = ()
    rank: int = 0


class MarkFact(Struct, frozen=True, gc=False):
    """Records that a mark `op:NAME` counted in one batch. A source's mark also knows arrival times, in Unix seconds."""

    count: int
    first: float | None = None
    mean: float | None = None
    last: float | None = None


@dataclass(frozen=True, slots=True)
class StateFact:
    """A stateful operator of the plan: keys, memory, time to commit."""

    keys: int | None
    bytes: int | None
    commit_seconds: float | None


@dataclass(frozen=True, slots=True)
class BatchFact:
    """A committed micro-batch, or a query that is no stream: its progress record, its stages and its tasks."""

    batch: int
    run: str
    started_ms: int
    seconds: float
    input_records: int | None
    offered_seconds: float | None = None  # the input time that the batch covers, from the rates that Spark reports
    output_records: int | None = None  # records that the sink took
    behind: int | None = None  # records that its sources held back when the batch was planned
    phases: Mapping[str, float] = field(default_factory=dict)  # seconds by Spark's names: addBatch, walCommit, …
    marks: Mapping[str, MarkFact] = field(default_factory=dict)
    stages: tuple[StageFact, ...] = ()
    tasks: tuple[TaskFact, ...] = ()
    states: tuple[StateFact, ...] = ()
    offsets: tuple[tuple[object, object], ...] = ()  # (start, end) for each source, in the source's own form
    newest: tuple[object, ...] = ()  # the newest offset of each source when the batch was planned
    query: str | None = None  # the query's id, which stays the same from run to run
    name: str | None = None
    sources: tuple[str, ...] = ()  # descriptions of the sources: KafkaV2[Subscribe[clicks]]
    sink: str = ""  # description of the sink: ForeachBatchSink
    jobs_ms: tuple[int, ...] = ()  # submission times of its jobs
    slots: int | None = None  # tasks that could run at once (see `task_slots`)
    marked: bool = False  # marks name its operators; otherwise each stage is an operator

    @property
    def committed_ms(self) -> float:
        return self.started_ms + self.seconds * 1000


@dataclass(frozen=True, slots=True)
class BatchStarted:
    """A batch whose first job was submitted. A batch in flight counts too when it takes too long."""

    batch: int
    run: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class QueryRunStarted:
    """A query run that began, before its first batch. `query` stays the same from run to run. `name` is optional."""

    run: str
    query: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class QueryRunEnded:
    """A query run that is over. `error` is Spark's message, empty where the query was stopped."""

    run: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class ExecutorCame:
    """An executor that registered. `cores` is the number of tasks that it runs at once."""

    executor: str
    host: str
    cores: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class ExecutorGone:
    """An executor that was removed."""

    executor: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Configured:
    """Settings of the application, restricted to those that limit its resources."""

    conf: Mapping[str, str]


Fact = Configured | BatchFact | BatchStarted | QueryRunStarted | QueryRunEnded | ExecutorCame | ExecutorGone
