"""Typed events of Spark's event log, with the few fields that are used. Other fields are skipped natively.

The first bytes of a line tell its kind: parsing the whole line for that would be most of the work. Fields that a later
version of Spark adds are skipped. A field that a version does not write is unknown, and never zero: None in rare
events, `UNKNOWN` in a task's numbers, which are read by the million (docs/how-to/event-logs.md lists the versions). A
number beyond all bounds makes its line a damaged one, because it would break the sums over all tasks.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Raw, Struct, field

# A number that Spark gives to a stage, job or RDD: it keeps them in 32 bits.
Number = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
# Records, milliseconds, or Unix milliseconds. Thousands of the largest can be added up.
Count = Annotated[int, Meta(ge=-(2**48), le=2**48)]
UNKNOWN = -(2**60)  # stands for a number that is not in the line: outside of the range of `Count`


class ShuffleRead(Struct, gc=False):
    wait_ms: Count = field(name="Fetch Wait Time", default=UNKNOWN)
    records: Count = field(name="Total Records Read", default=UNKNOWN)


class ShuffleWrite(Struct, gc=False):
    records: Count = field(name="Shuffle Records Written", default=UNKNOWN)


class InputMetrics(Struct, gc=False):
    records: Count = field(name="Records Read", default=UNKNOWN)


class OutputMetrics(Struct, gc=False):
    records: Count = field(name="Records Written", default=UNKNOWN)


class TaskMetrics(Struct, gc=False):
    """Numbers of a task. Until Spark 1.6 a task without work of a kind left out the block: a known zero."""

    run_ms: Count = field(name="Executor Run Time")
    deserialise_ms: Count = field(name="Executor Deserialize Time", default=UNKNOWN)
    serialise_ms: Count = field(name="Result Serialization Time", default=UNKNOWN)
    gc_ms: Count = field(name="JVM GC Time", default=UNKNOWN)
    shuffled: ShuffleRead = field(name="Shuffle Read Metrics", default_factory=lambda: ShuffleRead(0, 0))
    sent: ShuffleWrite = field(name="Shuffle Write Metrics", default_factory=lambda: ShuffleWrite(0))
    taken: InputMetrics = field(name="Input Metrics", default_factory=lambda: InputMetrics(0))
    written: OutputMetrics = field(name="Output Metrics", default_factory=lambda: OutputMetrics(0))


class TaskInfo(Struct, gc=False):
    index: Number = field(name="Index")


class TaskEndReason(Struct, gc=False):
    reason: str = field(name="Reason")


class TaskEnd(Struct, gc=False):
    """A task's end with the fields that an archive needs. An archive has millions of them."""

    stage: Number = field(name="Stage ID")
    end: TaskEndReason = field(name="Task End Reason")
    info: TaskInfo = field(name="Task Info")
    metrics: TaskMetrics | None = field(name="Task Metrics", default=None)


NO_VALUE = Raw(b"null")


class FullShuffleRead(ShuffleRead, gc=False):
    remote_bytes: Count = field(name="Remote Bytes Read", default=UNKNOWN)
    local_bytes: Count = field(name="Local Bytes Read", default=UNKNOWN)


class FullShuffleWrite(ShuffleWrite, gc=False):
    ns: Count = field(name="Shuffle Write Time", default=UNKNOWN)


class FullTaskMetrics(TaskMetrics, gc=False):
    """All numbers of a task that are used.

    `spilled_memory` is the size in memory of the objects that were spilled to disk. `execution` is the peak memory of
    sorts, joins and aggregations. Both are in bytes.
    """

    cpu_ns: Count = field(name="Executor CPU Time", default=UNKNOWN)
    deserialise_cpu_ns: Count = field(name="Executor Deserialize CPU Time", default=UNKNOWN)
    spilled_memory: Count = field(name="Memory Bytes Spilled", default=UNKNOWN)
    execution: Count = field(name="Peak Execution Memory", default=UNKNOWN)
    on_heap: Count = field(name="Peak On Heap Execution Memory", default=UNKNOWN)  # Spark 4 counts it better
    shuffled: FullShuffleRead = field(name="Shuffle Read Metrics", default_factory=lambda: FullShuffleRead(0, 0, 0, 0))
    sent: FullShuffleWrite = field(name="Shuffle Write Metrics", default_factory=lambda: FullShuffleWrite(0, 0))


class TaskCounter(Struct, gc=False):
    """The value that a task added to a counter. A counter of the plan's nodes is a number in a text."""

    name: str | None = field(name="Name", default=None)
    added: Raw = field(name="Update", default=NO_VALUE)


class FullTaskInfo(TaskInfo, gc=False):
    executor: str | None = field(name="Executor ID", default=None)
    launched: Count = field(name="Launch Time", default=UNKNOWN)
    finished: Count = field(name="Finish Time", default=UNKNOWN)
    counters: list[TaskCounter] = field(name="Accumulables", default_factory=list)


class FullTaskEndReason(TaskEndReason, gc=False):
    """Why a task ended: the class of the exception, or how its executor was lost."""

    raised: str = field(name="Class Name", default="")
    loss: str = field(name="Loss Reason", default="")


class ExecutorMemory(Struct, gc=False):
    """Peaks of one executor's memory in bytes, and the garbage collections since its JVM began.

    Spark samples at `spark.executor.metrics.pollingInterval`, else with each heartbeat. Values are zero where Spark did
    not sample. Values of processes need `spark.executor.processTreeMetrics.enabled`.
    """

    heap: Count = field(name="JVMHeapMemory", default=0)
    not_heap: Count = field(name="JVMOffHeapMemory", default=0)
    direct: Count = field(name="DirectPoolMemory", default=0)
    jvm: Count = field(name="ProcessTreeJVMRSSMemory", default=0)
    python: Count = field(name="ProcessTreePythonRSSMemory", default=0)
    other: Count = field(name="ProcessTreeOtherRSSMemory", default=0)
    young: Count = field(name="MinorGCCount", default=0)
    full: Count = field(name="MajorGCCount", default=0)


class FullTaskEnd(TaskEnd, gc=False):
    """A task's end with every field that is used, for a running job and for critical paths."""

    end: FullTaskEndReason = field(name="Task End Reason")
    info: FullTaskInfo = field(name="Task Info")
    metrics: FullTaskMetrics | None = field(name="Task Metrics", default=None)
    memory: ExecutorMemory | None = field(name="Task Executor Metrics", default=None)


class Accumulable(Struct, gc=False):
    """The value of a counter of Spark or of the job's author. It may have any type."""

    number: Count | None = field(name="ID", default=None)
    name: str | None = field(name="Name", default=None)
    value: Raw = field(name="Value", default=NO_VALUE)


class StageInfo(Struct):
    stage: Number = field(name="Stage ID")
    tasks: Number = field(name="Number of Tasks")
    submitted: Count | None = field(name="Submission Time", default=None)
    completed: Count | None = field(name="Completion Time", default=None)
    failure: str | None = field(name="Failure Reason", default=None)
    accumulables: list[Accumulable] = field(name="Accumulables", default_factory=list)

    @property
    def succeeded(self) -> bool:
        return self.failure is None and self.submitted is not None and self.completed is not None


class StageCompleted(Struct):
    info: StageInfo = field(name="Stage Info")


class Scope(Struct):
    """The node of the plan that made an RDD. In the log it is JSON inside a text."""

    id: str
    name: str


class RddInfo(Struct):
    rdd: Number = field(name="RDD ID")
    name: str = field(name="Name")
    scope: str | None = field(name="Scope", default=None)


class JobStage(Struct):
    """A stage in a job's list. `parents` is None in versions that do not write them."""

    stage: Number = field(name="Stage ID")
    name: str = field(name="Stage Name")
    rdds: list[RddInfo] = field(name="RDD Info")
    parents: list[Number] | None = field(name="Parent IDs", default=None)


class Properties(Struct):
    """Properties of a job. Numbers are texts here, so they are decoded leniently."""

    group: str | None = field(name="spark.jobGroup.id", default=None)
    batch: Count | None = field(name="streaming.sql.batchId", default=None)
    execution: Count | None = field(name="spark.sql.execution.id", default=None)
    root: Count | None = field(name="spark.sql.execution.root.id", default=None)
    description: str | None = field(name="spark.job.description", default=None)


class JobStart(Struct):
    job: Number = field(name="Job ID")
    stages: list[JobStage] = field(name="Stage Infos")
    submitted: Count | None = field(name="Submission Time", default=None)
    properties: Properties | None = field(name="Properties", default=None)


class PlanMetric(Struct, gc=False):
    """A counter of a node, by its number."""

    name: str
    accumulator: Count = field(name="accumulatorId")


class Node(Struct, omit_defaults=True):
    nodeName: str  # noqa: N815, names as Spark has them, here and below
    simpleString: str  # noqa: N815
    children: list[Node]
    metrics: list[PlanMetric] = []


class ExecutionStart(Struct):
    execution: Count = field(name="executionId")
    plan: Node = field(name="sparkPlanInfo")


class ExecutionEnd(Struct):
    execution: Count = field(name="executionId")


class JobEnd(Struct):
    job: Number = field(name="Job ID")


# Some versions write a rate that is not a number as a text: "NaN" before the first trigger, "Infinity".
Rate = float | str | None


class SourceProgress(Struct):
    numInputRows: Count  # noqa: N815
    inputRowsPerSecond: Rate = None  # noqa: N815
    startOffset: Raw = NO_VALUE  # noqa: N815 - JSON, or a text of JSON, as the source made it
    endOffset: Raw = NO_VALUE  # noqa: N815
    latestOffset: Raw = NO_VALUE  # noqa: N815
    metrics: dict[str, Any] | None = None
    description: str = ""


class StateOperator(Struct):
    numRowsTotal: Count | None = None  # noqa: N815
    memoryUsedBytes: Count | None = None  # noqa: N815
    commitTimeMs: Count | None = None  # noqa: N815


class Sink(Struct):
    """The sink of a query. `numOutputRows` is −1 for sinks that do not count."""

    numOutputRows: int | None = None  # noqa: N815
    description: str = ""


class ProgressRecord(Struct):
    """One `StreamingQueryProgress`; outside an event log, one on each line."""

    runId: str  # noqa: N815
    batchId: Count  # noqa: N815
    timestamp: str
    sources: list[SourceProgress]
    id: str | None = None
    name: str | None = None
    batchDuration: Count | None = None  # noqa: N815
    durationMs: dict[str, Count] = {}  # noqa: N815
    stateOperators: list[StateOperator] | None = None  # noqa: N815
    observedMetrics: dict[str, dict[str, Any]] | None = None  # noqa: N815
    sink: Sink | None = None


class QueryProgress(Struct):
    progress: ProgressRecord


class QueryStarted(Struct):
    runId: str  # noqa: N815
    id: str | None = None
    name: str | None = None


class QueryTerminated(Struct):
    runId: str  # noqa: N815
    exception: str | None = None


class ApplicationStart(Struct):
    name: str = field(name="App Name")


class Environment(Struct):
    """Settings of the application. Spark hides passwords itself, and few of the settings are kept."""

    properties: dict[str, str] = field(name="Spark Properties", default_factory=dict)


class ExecutorInfo(Struct):
    cores: Number = field(name="Total Cores")
    host: str = field(name="Host", default="")


class ExecutorChange(Struct):
    """An executor that came or went. An executor that went has no `info`."""

    at: Count = field(name="Timestamp")
    executor: str = field(name="Executor ID")
    info: ExecutorInfo | None = field(name="Executor Info", default=None)
    why: str = field(name="Removed Reason", default="")


class StageExecutorMetrics(Struct):
    """The peaks of one executor during a stage, written with `spark.eventLog.logStageExecutorMetrics`."""

    executor: str = field(name="Executor ID")
    memory: ExecutorMemory = field(name="Executor Metrics")


class ExecutorUpdate(Struct):
    memory: ExecutorMemory = field(name="Executor Metrics")


class ExecutorMetricsUpdate(Struct):
    """A heartbeat. Event logs hold only the driver's own."""

    executor: str = field(name="Executor ID")
    updates: list[ExecutorUpdate] = field(name="Executor Metrics Updated", default_factory=list)


ANY_EVENT = b'{"Event":"'
TASK_END = ANY_EVENT + b'SparkListenerTaskEnd"'
ANY_PROGRESS = b'{"id":"'
# All events but the ends of tasks: some tens for each batch.
RARE: dict[bytes, type[Struct]] = {
    b"SparkListenerStageCompleted": StageCompleted,
    b"SparkListenerJobStart": JobStart,
    b"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart": ExecutionStart,
    b"SparkListenerJobEnd": JobEnd,
    b"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd": ExecutionEnd,
    b"org.apache.spark.sql.streaming.StreamingQueryListener$QueryStartedEvent": QueryStarted,
    b"org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent": QueryProgress,
    b"org.apache.spark.sql.streaming.StreamingQueryListener$QueryTerminatedEvent": QueryTerminated,
    b"SparkListenerApplicationStart": ApplicationStart,
    b"SparkListenerEnvironmentUpdate": Environment,
    b"SparkListenerExecutorAdded": ExecutorChange,
    b"SparkListenerExecutorRemoved": ExecutorChange,
    b"SparkListenerStageExecutorMetrics": StageExecutorMetrics,
    b"SparkListenerExecutorMetricsUpdate": ExecutorMetricsUpdate,
}
