"""Generated event logs in the form of each version of Spark: the lines of a stream of batches, or of one query.

Fields that a version does not write are not in its lines.

Each version's fields are those of its own writer of events (`JsonProtocol`, and Jackson for SQL and streaming events).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Version = tuple[int, int]
VERSIONS: tuple[Version, ...] = (
    (1, 2),
    (1, 3),
    (1, 4),
    (1, 6),
    (2, 0),
    (2, 1),
    (2, 2),
    (2, 4),
    (3, 1),
    (3, 5),
    (4, 0),
    (4, 3),
)
_SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
_STREAMING = "org.apache.spark.sql.streaming.StreamingQueryListener$"


@dataclass(frozen=True)
class Task:
    """Times in ms, CPU in ns. `taken` comes from a source, `shuffled` from a shuffle."""

    index: int
    run: int
    deserialise: int = 0
    serialise: int = 0
    wait: int = 0
    gc: int = 0
    cpu: int = 0
    taken: int = 0
    shuffled: int = 0
    sent: int = 0
    written: int = 0
    failed: bool = False
    drop: tuple[str, ...] = ()  # fields that the line lacks, whatever the version


@dataclass(frozen=True)
class Stage:
    """One stage of an operator. `reads` are places of other stages in the batch; with a `mark` it ends an operator.
    `named` by a mark that counts nothing."""

    mark: str
    tasks: tuple[Task, ...]
    submitted: int
    completed: int
    reads: tuple[int, ...] = ()
    stateful: bool = False
    width: int | None = None  # number of tasks, where some did not end well
    attempts: int = 1
    named: str = ""


@dataclass(frozen=True)
class Batch:
    """`marks` are (n, first, mean, last), the times in microseconds; the last stage is the one that writes."""

    run: str
    number: int
    started: int
    seconds: float
    stages: tuple[Stage, ...]
    marks: Mapping[str, tuple[int | float | None, ...]] = field(default_factory=dict)
    rows: tuple[int, ...] = ()
    rates: tuple[float | str, ...] = ()
    newest: Any = None
    ended: Any = None
    state: int = 0
    name: str | None = None
    filters: bool = False  # marks of operators that are no sources count as filters do


class Log:
    """Numbers of executions, jobs, stages, RDDs and shuffles go on from batch to batch, as in one application."""

    def __init__(self, version: Version = (4, 3)) -> None:
        self.version = version
        self.lines: list[str] = []
        self._execution = self._job = self._stage = self._rdd = self._counter = 0
        self._shuffle = 100
        self._add("SparkListenerApplicationStart", {"App Name": "shop", "Timestamp": 1, "User": "user"})
        self.executor_came("1", 8, 1)

    def since(self, *version: int) -> bool:
        return self.version >= version

    def batch(self, batch: Batch) -> None:
        """Its plan, its job, its tasks and stages, and the report on it."""
        self._run(batch)
        if self.since(2, 1):
            self._add(_STREAMING + "QueryProgressEvent", {"progress": self.progress(batch)})

    def idle(self, batch: Batch) -> None:
        """A report under the number of a batch that has not run yet."""
        told = {**self.progress(batch), "durationMs": {"latestOffset": 1, "triggerExecution": 1}, "observedMetrics": {}}
        self._add(_STREAMING + "QueryProgressEvent", {"progress": told})

    def executor_came(self, name: str, cores: int, at: int) -> None:
        info = {"Host": "h", "Total Cores": cores, "Log Urls": {}}
        self._add("SparkListenerExecutorAdded", {"Timestamp": at, "Executor ID": name, "Executor Info": info})

    def configured(self, **properties: str) -> None:
        """Add settings; underscores stand for dots."""
        told = {name.replace("_", "."): value for name, value in properties.items()}
        self._add("SparkListenerEnvironmentUpdate", {"Spark Properties": told})

    def executor_gone(self, name: str, at: int) -> None:
        self._add("SparkListenerExecutorRemoved", {"Timestamp": at, "Executor ID": name, "Removed Reason": "idle"})

    def ended(self, run: str) -> None:
        self._add(_STREAMING + "QueryTerminatedEvent", {"id": "q", "runId": run, "exception": None})

    def text(self) -> str:
        return "".join(self.lines)

    def _run(self, batch: Batch) -> None:
        first, shuffles = self._stage, {}
        filters = [at for at, stage in enumerate(batch.stages) if batch.filters and stage.mark and stage.reads]
        counters = {at: self._next_counter() for at in filters}
        for at in range(len(batch.stages) - 1):
            self._shuffle += 1
            shuffles[at] = self._shuffle
        if self.since(1, 6):
            plan = self._plan(batch, shuffles, counters)
            told = {"executionId": self._execution, "description": "d", "sparkPlanInfo": plan, "time": batch.started}
            self._add(_SQL, told)
        self._job_start(batch, first, shuffles)
        for at, stage in enumerate(batch.stages):
            for task in stage.tasks:
                self._task(first + at, task)
            for attempt in range(stage.attempts):
                passed = int(batch.marks.get(stage.mark, (0,))[0] or 0) if at in counters else 0
                by_then = passed if attempt + 1 == stage.attempts else passed // 2
                self._completed(first + at, stage, attempt, {counters[at]: by_then} if by_then else {})
        self._stage += len(batch.stages)
        self._execution += 1
        self._job += 1

    def _next_counter(self) -> int:
        self._counter += 7
        return self._counter

    def _plan(self, batch: Batch, shuffles: Mapping[int, int], counters: Mapping[int, int]) -> dict[str, Any]:
        def piece(at: int) -> dict[str, Any]:
            below = [exchange(self, shuffles[read], piece(read)) for read in batch.stages[at].reads]
            inner = node(works_in(batch.stages[at]), *(below or [node("MicroBatchScan")]))
            if batch.stages[at].stateful:
                inner = node("StateStoreSave", inner)
            mark, named = batch.stages[at].mark, batch.stages[at].named
            if named:
                inner = node("Filter", inner, text=asked(f"op:{named}"))
            if not mark or not self.since(3, 0):
                return inner
            if at in counters:
                metrics = [{"name": "number of output rows", "accumulatorId": counters[at], "metricType": "sum"}]
                return node("Filter", inner, text=asked(f"count:{mark}")) | {"metrics": metrics}
            return node("CollectMetrics", inner, text=f"CollectMetrics op:{mark}, [count(1)]")

        return node("WriteToDataSourceV2", piece(len(batch.stages) - 1))

    def _job_start(self, batch: Batch, first: int, shuffles: Mapping[int, int]) -> None:
        described = f"query<br/>id = q<br/>runId = {batch.run}<br/>batch = {batch.number}"
        properties = {
            "spark.jobGroup.id": batch.run if self.since(2, 1) else None,
            "spark.job.description": described if self.since(2, 2) else None,
            "streaming.sql.batchId": str(batch.number) if self.since(2, 3) else None,
            "spark.sql.execution.id": str(self._execution) if self.since(1, 6) else None,
            "spark.sql.execution.root.id": str(self._execution) if self.since(3, 4) else None,
        }
        told = {
            "Job ID": self._job,
            "Submission Time": batch.stages[0].submitted if self.since(1, 3) else None,
            "Stage Infos": [self._info(batch, first, at, shuffles) for at in range(len(batch.stages))],
            "Stage IDs": list(range(first, first + len(batch.stages))),
            "Properties": known(properties),
        }
        self._add("SparkListenerJobStart", known(told))

    def _info(self, batch: Batch, first: int, at: int, shuffles: Mapping[int, int]) -> dict[str, Any]:
        stage = batch.stages[at]
        rdds = [self._rdd_info("ShuffledRowRDD", "Exchange", shuffles[read]) for read in stage.reads]
        rdds += [] if stage.reads else [self._rdd_info("DataSourceRDD", "MicroBatchScan", 0)]
        rdds += [self._rdd_info("StateStoreRDD", "StateStoreSave", 0)] if stage.stateful else []
        rdds += [
            self._rdd_info("MapPartitionsRDD", "Exchange" if at in shuffles else works_in(stage), shuffles.get(at, 0))
        ]
        told = {
            "Stage ID": first + at,
            "Stage Attempt ID": 0,
            "Stage Name": f"step{at} at Shop.scala:{at}",
            "Number of Tasks": stage.width or len(stage.tasks),
            "RDD Info": rdds[::-1],
            "Parent IDs": [first + read for read in stage.reads] if self.since(1, 5) else None,
            "Details": "",
            "Accumulables": [],
        }
        return known(told)

    def _rdd_info(self, name: str, scope: str, shuffle: int) -> dict[str, Any]:
        self._rdd += 1
        number = f"spark_plan_{shuffle}" if self.since(4, 0) else str(self._rdd)
        told = json.dumps({"id": number, "name": scope}, separators=(",", ":"))
        return known({"RDD ID": self._rdd, "Name": name, "Scope": told if self.since(1, 4) else None})

    def _task(self, stage: int, task: Task) -> None:
        reason = {"Reason": "ExceptionFailure"} if task.failed else {"Reason": "Success"}
        accumulables = [{"ID": 1, "Name": "n", "Update": "1", "Value": "1"}]
        told = {
            "Stage ID": stage,
            "Stage Attempt ID": 0,
            "Task Type": "ShuffleMapTask",
            "Task End Reason": reason,
            "Task Info": {"Task ID": 1, "Index": task.index, "Attempt": 0, "Accumulables": accumulables},
            "Task Metrics": self._metrics(task),
        }
        self._add("SparkListenerTaskEnd", told)

    def _metrics(self, task: Task) -> dict[str, Any]:
        always, counts = self.since(2, 0), self.since(1, 3)
        told = {
            "Host Name": None if always else "h",
            "Executor Deserialize Time": task.deserialise,
            "Executor Deserialize CPU Time": task.cpu // 10 if self.since(2, 1) else None,
            "Executor Run Time": task.run,
            "Executor CPU Time": task.cpu if self.since(2, 1) else None,
            "Result Size": 1000,
            "JVM GC Time": task.gc,
            "Result Serialization Time": task.serialise,
        }
        read = {"Remote Blocks Fetched": 0, "Local Blocks Fetched": 1, "Fetch Wait Time": task.wait}
        read |= {"Remote Bytes Read": 0} | ({"Total Records Read": task.shuffled} if counts else {})
        sent = {"Shuffle Bytes Written": 9, "Shuffle Write Time": 1}
        sent |= {"Shuffle Records Written": task.sent} if counts else {}
        taken = {"Data Read Method": "Hadoop", "Bytes Read": 9} | ({"Records Read": task.taken} if counts else {})
        wrote = {"Data Write Method": "Hadoop", "Bytes Written": 9}
        wrote |= {"Records Written": task.written} if counts else {}
        told["Shuffle Read Metrics"] = read if always or task.shuffled or task.wait else None
        told["Shuffle Write Metrics"] = sent if always or task.sent else None
        told["Input Metrics"] = taken if always or task.taken else None
        told["Output Metrics"] = wrote if always or task.written else None
        return without(known(told), task.drop)

    def _completed(self, number: int, stage: Stage, attempt: int, counts: Mapping[int, Any]) -> None:
        """Add the completion of a stage. A later attempt repeats lost tasks: fewer tasks, at a later time."""
        info = {
            "Stage ID": number,
            "Stage Attempt ID": attempt,
            "Stage Name": "step",
            "Number of Tasks": (stage.width or len(stage.tasks)) if attempt == 0 else 1,
            "RDD Info": [],
            "Submission Time": stage.submitted + 10 * attempt,
            "Completion Time": stage.completed + 10 * attempt,
            "Accumulables": [
                {"ID": 1, "Name": "internal.metrics.updatedBlockStatuses", "Value": [{"Block ID": "b"}]},
                {"ID": 2, "Value": "of a program's own"},
                *({"ID": at, "Name": "number of output rows", "Value": str(rows)} for at, rows in counts.items()),
            ],
        }
        self._add("SparkListenerStageCompleted", {"Stage Info": info})

    def progress(self, batch: Batch) -> dict[str, Any]:
        took = round(batch.seconds * 1000)
        state: dict[str, Any] = {"numRowsTotal": batch.state, "numRowsUpdated": 1}
        state |= {"memoryUsedBytes": 100} if self.since(2, 3) else {}
        state |= {"operatorName": "stateStoreSave", "commitTimeMs": 7} if self.since(3, 2) else {}
        at = datetime.fromtimestamp(batch.started / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        told = {
            "id": "q",
            "runId": batch.run,
            "name": batch.name,
            "timestamp": at,
            "batchId": batch.number,
            "batchDuration": took if self.since(3, 0) else None,
            "durationMs": {"addBatch": took - 1, "triggerExecution": took, "walCommit": 1},
            "eventTime": {},
            "stateOperators": [state],
            "sources": [self._source(batch, at) for at in range(len(batch.rows))],
            "sink": {"description": "sink"},
            "observedMetrics": self._observed(observed_by(batch)) if self.since(3, 0) else None,
        }
        return {name: value for name, value in told.items() if value is not None or name == "name"}

    def _source(self, batch: Batch, at: int) -> dict[str, Any]:
        told = {
            "description": "source",
            "startOffset": None,
            "endOffset": batch.ended,
            "numInputRows": batch.rows[at],
            "inputRowsPerSecond": batch.rates[at] if batch.rates else 0.0,
            "processedRowsPerSecond": 1.0,
        }
        if self.since(3, 1):
            told["latestOffset"] = batch.newest
        return told

    def _observed(self, marks: Mapping[str, tuple[int | float | None, ...]]) -> dict[str, Any]:
        columns = [{"name": name, "type": "long"} for name in ("n", "first", "mean", "last")]
        schema = {"type": "struct", "fields": columns}
        return {f"op:{name}": {"values": list(row), "schema": schema} for name, row in marks.items()}

    def _add(self, event: str, told: Mapping[str, Any]) -> None:
        self.lines.append(json.dumps({"Event": event, **told}, separators=(",", ":")) + "\n")


def asked(text: str) -> str:
    """A filter that every record passes, as a plan has it."""
    return f"Filter ((SPARK_PARTITION_ID() >= 0) OR (cast(SPARK_PARTITION_ID() as string) = {text}))"


def observed_by(batch: Batch) -> Mapping[str, tuple[int | float | None, ...]]:
    """The marks that are no filters."""
    filters = {stage.mark for stage in batch.stages if batch.filters and stage.reads}
    return {name: row for name, row in batch.marks.items() if name not in filters}


def works_in(stage: Stage) -> str:
    return "Join" if len(stage.reads) > 1 else "Project"


def node(name: str, *children: dict[str, Any], text: str = "") -> dict[str, Any]:
    return {"nodeName": name, "simpleString": text or name, "children": list(children), "metadata": {}, "metrics": []}


def exchange(log: Log, number: int, child: dict[str, Any]) -> dict[str, Any]:
    told = f"[plan_id={number}]" if log.since(3, 3) else f"[id=#{number}]" if log.since(3, 0) else ""
    return node("Exchange", child, text=f"Exchange hashpartitioning(x#1, 4), {told}")


def known(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if value is not None}


def without(told: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """`names` are of fields, or of fields in a block: Input Metrics/Records Read."""
    for name in names:
        block, _, inner = name.partition("/")
        if inner and block in told:
            told[block] = {key: value for key, value in told[block].items() if key != inner}
        else:
            told.pop(name, None)
    return told
