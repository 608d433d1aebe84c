"""What versions of Spark write differently: the one place to look at, and to add to, when a new version comes out.

`DIFFERENCES` says since when a field is in the log and what becomes of the figures without it. It holds what this
package reads; everything else may come, go and change. How to add a version is in docs/event-logs.md.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """`field` of `event` is written since Spark `since`; in logs of earlier versions, `without` it."""

    since: tuple[int, int]
    event: str
    field: str
    without: str


DIFFERENCES = (
    Difference((1, 3), "JobStart", "Submission Time", "when a job began is not known"),
    Difference((1, 3), "TaskEnd", "Input Metrics/Records Read", "what a task read is not known"),
    Difference((1, 3), "TaskEnd", "Output Metrics/Records Written", "what it wrote to files is not known"),
    Difference((1, 3), "TaskEnd", "Shuffle Read Metrics/Total Records Read", "what it read is not known"),
    Difference((1, 3), "TaskEnd", "Shuffle Write Metrics/Shuffle Records Written", "what it gave is not known"),
    Difference((1, 4), "JobStart", "Scope of an RDD", "stages are named by the line of code that made them"),
    Difference((1, 5), "JobStart", "Parent IDs of a stage", "what a stage reads is not known: operators stand alone"),
    Difference((1, 6), "SQLExecutionStart", "sparkPlanInfo", "stages are named by their RDDs"),
    Difference((2, 0), "TaskEnd", "blocks of metrics for what a task did not do", "such a block counts as zero"),
    Difference((2, 1), "TaskEnd", "Executor CPU Time, Executor Deserialize CPU Time", "CPU time is not known"),
    Difference((2, 1), "QueryProgressEvent", "progress", "streams have no batches, only queries"),
    Difference((2, 2), "JobStart", "spark.job.description with the batch", "jobs of streams count as queries"),
    Difference((2, 3), "JobStart", "streaming.sql.batchId", "the batch is read from the job's description"),
    Difference((2, 3), "QueryProgressEvent", "stateOperators/memoryUsedBytes", "the size of state is not known"),
    Difference((3, 0), "QueryProgressEvent", "observedMetrics", "there are no marks: stages are the operators"),
    Difference((3, 0), "QueryProgressEvent", "batchDuration", "triggerExecution says how long a batch took"),
    Difference((3, 1), "QueryProgressEvent", "sources/latestOffset", "what waits at a source is estimated by arrivals"),
    Difference((3, 2), "QueryProgressEvent", "sources/metrics", "what waits at a source is told by offsets alone"),
    Difference((3, 2), "QueryProgressEvent", "stateOperators/commitTimeMs", "the time to commit state is not known"),
    Difference((3, 4), "JobStart", "spark.sql.execution.root.id", "an execution stands for itself"),
    Difference(
        (4, 0),
        "JobStart",
        "numbers of the plan's shuffles in scopes (spark_plan_…)",
        "stages get their marks by the shape of the plan",
    ),
)
