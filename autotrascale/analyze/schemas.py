"""The events that are read, and the few fields of each that are wanted. One definition for both sides of the border:
Python decodes by it and passes over everything else, and `ddl` says the same to Spark.

A line is told apart by its first bytes: parsing all of it only to see what it is would be most of the work. What a
version of Spark adds does no harm, and what it may leave out has a default.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from msgspec import Raw, Struct, field
from msgspec.structs import fields


class ShuffleRead(Struct, gc=False):
    wait_ms: int = field(name="Fetch Wait Time", default=0)
    records: int = field(name="Total Records Read", default=0)


class ShuffleWrite(Struct, gc=False):
    records: int = field(name="Shuffle Records Written", default=0)


class Input(Struct, gc=False):
    records: int = field(name="Records Read", default=0)


class Output(Struct, gc=False):
    records: int = field(name="Records Written", default=0)


class TaskMetrics(Struct, gc=False):
    run_ms: int = field(name="Executor Run Time")
    deserialise_ms: int = field(name="Executor Deserialize Time", default=0)
    serialise_ms: int = field(name="Result Serialization Time", default=0)
    gc_ms: int = field(name="JVM GC Time", default=0)
    shuffled: ShuffleRead = field(name="Shuffle Read Metrics", default_factory=ShuffleRead)
    sent: ShuffleWrite = field(name="Shuffle Write Metrics", default_factory=ShuffleWrite)
    taken: Input = field(name="Input Metrics", default_factory=Input)
    written: Output = field(name="Output Metrics", default_factory=Output)


class TaskInfo(Struct, gc=False):
    index: int = field(name="Index")


class TaskEndReason(Struct, gc=False):
    reason: str = field(name="Reason")


class TaskEnd(Struct, gc=False):
    stage: int = field(name="Stage ID")
    end: TaskEndReason = field(name="Task End Reason")
    info: TaskInfo = field(name="Task Info")
    metrics: TaskMetrics | None = field(name="Task Metrics", default=None)


class StageInfo(Struct):
    stage: int = field(name="Stage ID")
    tasks: int = field(name="Number of Tasks")
    submitted: int | None = field(name="Submission Time", default=None)
    completed: int | None = field(name="Completion Time", default=None)
    failure: str | None = field(name="Failure Reason", default=None)


class StageCompleted(Struct):
    info: StageInfo = field(name="Stage Info")


class Rdd(Struct):
    rdd: int = field(name="RDD ID")
    name: str = field(name="Name")
    scope: str | None = field(name="Scope", default=None)


class JobStage(Struct):
    stage: int = field(name="Stage ID")
    name: str = field(name="Stage Name")
    parents: list[int] = field(name="Parent IDs")
    rdds: list[Rdd] = field(name="RDD Info")


class Properties(Struct):
    group: str | None = field(name="spark.jobGroup.id", default=None)
    batch: str | None = field(name="streaming.sql.batchId", default=None)
    execution: str | None = field(name="spark.sql.execution.id", default=None)
    root: str | None = field(name="spark.sql.execution.root.id", default=None)


class JobStart(Struct):
    job: int = field(name="Job ID")
    stages: list[JobStage] = field(name="Stage Infos")
    properties: Properties | None = field(name="Properties", default=None)


class ExecutionStart(Struct):
    execution: int = field(name="executionId")
    plan: Raw = field(name="sparkPlanInfo")


class Source(Struct):
    numInputRows: int  # noqa: N815, names as Spark has them, here and below
    inputRowsPerSecond: float | None = None  # noqa: N815


class RowField(Struct):
    name: str


class RowSchema(Struct):
    fields: list[RowField]


class Observed(Struct):
    values: list[Raw]
    schema: RowSchema


class Progress(Struct):
    """One `StreamingQueryProgress`; outside an event log, one on each line."""

    runId: str  # noqa: N815
    batchId: int  # noqa: N815
    timestamp: str
    sources: list[Source]
    name: str | None = None
    batchDuration: int | None = None  # noqa: N815
    durationMs: dict[str, int] = {}  # noqa: N815
    observedMetrics: dict[str, Observed] = {}  # noqa: N815


class QueryProgress(Struct):
    progress: Progress


class ApplicationStart(Struct):
    name: str = field(name="App Name")


class ExecutorInfo(Struct):
    cores: int = field(name="Total Cores")


class ExecutorChange(Struct):
    """Came, or went: those that went have no cores to tell of."""

    at: int = field(name="Timestamp")
    executor: str = field(name="Executor ID")
    info: ExecutorInfo | None = field(name="Executor Info", default=None)


ANY_EVENT = b'{"Event":"'
TASK_END = ANY_EVENT + b'SparkListenerTaskEnd"'
ANY_PROGRESS = b'{"id":"'
RARE: dict[bytes, type[Struct]] = {
    b"SparkListenerStageCompleted": StageCompleted,
    b"SparkListenerJobStart": JobStart,
    b"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart": ExecutionStart,
    b"org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent": QueryProgress,
    b"SparkListenerApplicationStart": ApplicationStart,
    b"SparkListenerExecutorAdded": ExecutorChange,
    b"SparkListenerExecutorRemoved": ExecutorChange,
}
"""All but the tasks: some tens for each batch."""

_PLAIN: dict[Any, str] = {int: "bigint", float: "double", str: "string", Raw: "string"}


@cache
def ddl(event: type[Struct]) -> str:
    """The columns of an event in Spark's words."""
    kinds = get_type_hints(event)
    return ", ".join(f"`{each.encode_name}` {_kind(kinds[each.name])}" for each in fields(event))


def _kind(kind: Any) -> str:
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    if get_origin(kind) is list:
        return f"array<{_kind(get_args(kind)[0])}>"
    if get_origin(kind) is dict:
        return f"map<string,{_kind(get_args(kind)[1])}>"
    if kind in _PLAIN:
        return _PLAIN[kind]
    inner = get_type_hints(kind)
    return "struct<" + ",".join(f"`{each.encode_name}`:{_kind(inner[each.name])}" for each in fields(kind)) + ">"
