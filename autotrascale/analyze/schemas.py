"""The events that are read, by the words their lines begin with, and the few fields of each that are wanted.

A line is told apart by its first bytes: parsing all of it only to see what it is would be most of the work.
"""

from __future__ import annotations

_SQL = "org.apache.spark.sql.execution.ui.SparkListener"
_STREAMING = "org.apache.spark.sql.streaming.StreamingQueryListener$"
CORRUPT = "_corrupt_record"

# `idle` are tasks that failed or were killed, `record` is progress without an event around it, `bad` is no JSON.
TASK, IDLE, STAGE, JOB, EXECUTION, PROGRESS, APPLICATION, EXECUTOR, RECORD, BAD = (
    "task",
    "idle",
    "stage",
    "job",
    "execution",
    "progress",
    "application",
    "executor",
    "record",
    "bad",
)

EVENTS = {
    "SparkListenerTaskEnd": TASK,
    "SparkListenerStageCompleted": STAGE,
    "SparkListenerJobStart": JOB,
    _SQL + "SQLExecutionStart": EXECUTION,
    _STREAMING + "QueryProgressEvent": PROGRESS,
    "SparkListenerApplicationStart": APPLICATION,
    "SparkListenerExecutorAdded": EXECUTOR,
    "SparkListenerExecutorRemoved": EXECUTOR,
}
ANY_EVENT = '{"Event":"'
ANY_RECORD = '{"id":"'
"""Progress outside an event log: one `StreamingQueryProgress` in JSON on each line."""

TASK_EVENT = f"""
    `Stage ID` int,
    `Task End Reason` struct<Reason:string>,
    `Task Info` struct<Index:int>,
    `Task Metrics` struct<
        `Executor Deserialize Time`:bigint, `Executor Run Time`:bigint, `Result Serialization Time`:bigint,
        `JVM GC Time`:bigint,
        `Shuffle Read Metrics`:struct<`Fetch Wait Time`:bigint, `Total Records Read`:bigint>,
        `Shuffle Write Metrics`:struct<`Shuffle Records Written`:bigint>,
        `Input Metrics`:struct<`Records Read`:bigint>,
        `Output Metrics`:struct<`Records Written`:bigint>>,
    {CORRUPT} string"""

STAGE_EVENT = """
    `Stage Info` struct<`Stage ID`:int, `Number of Tasks`:int, `Submission Time`:bigint, `Completion Time`:bigint,
        `Failure Reason`:string>"""

JOB_EVENT = """
    `Job ID` int, `Submission Time` bigint, Properties map<string,string>,
    `Stage Infos` array<struct<`Stage ID`:int, `Stage Name`:string, `Parent IDs`:array<int>,
        `RDD Info`:array<struct<`RDD ID`:int, Name:string, Scope:string>>>>"""

_SOURCE = "struct<numInputRows:bigint, inputRowsPerSecond:double>"
_MARK = "struct<values:array<string>, schema:struct<fields:array<struct<name:string>>>>"
PROGRESS_RECORD = f"""
    id string, runId string, name string, timestamp string, batchId bigint, batchDuration bigint,
    durationMs map<string,bigint>, sources array<{_SOURCE}>, observedMetrics map<string,{_MARK}>"""
PROGRESS_EVENT = f"progress struct<{PROGRESS_RECORD}>"

# Of executors that came; those that went have no cores to tell of.
EXECUTOR_EVENT = "Timestamp bigint, `Executor ID` string, `Executor Info` struct<`Total Cores`:int>"
