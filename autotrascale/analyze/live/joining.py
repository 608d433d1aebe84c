"""Spark's event log, uncompressed, read while it is written: lines → facts.

Why the log and not the driver's REST API or a listener: it holds plans, stages, tasks and progress in one ordered
stream, costs the driver one sequential write, needs no port, and is what the offline analysis reads too. A listener in
Python is called back through a socket for every task; the API must be polled, and forgets old stages.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from autotrascale.analyze.facts import (
    BatchFact,
    BatchStarted,
    Fact,
    Mark,
    QueryEnded,
    StageFact,
    StateFact,
    TaskFact,
)
from autotrascale.analyze.plan_tree import Plan, Role
from autotrascale.monitor.marks import MARK

_SQL_START = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
_STREAMING = "org.apache.spark.sql.streaming.StreamingQueryListener$"
_PLANS_KEPT = 64
_Batch = tuple[str, int]  # the query's run, the batch's number


class Joiner:
    """Puts the lines of one application's log together. It forgets a batch once it has told of it."""

    def __init__(self) -> None:
        self._plans: dict[int, Plan | Mapping[str, Any]] = {}
        self._executions: dict[_Batch, set[int]] = defaultdict(set)
        self._roles: dict[int, tuple[_Batch, Role]] = {}  # by stage
        self._stages: dict[_Batch, list[StageFact]] = defaultdict(list)
        self._tasks: dict[int, list[TaskFact]] = defaultdict(list)  # by stage

    def feed(self, line: str) -> Iterator[Fact]:
        """What this line completes. Most lines are told apart by their first words, without parsing them."""
        kind = line[10 : line.find('"', 10)]  # {"Event":"…"
        if kind == "SparkListenerTaskEnd":
            self._task(json.loads(line))
        elif kind == "SparkListenerStageCompleted":
            self._stage(json.loads(line)["Stage Info"])
        elif kind == "SparkListenerJobStart":
            yield from self._job(json.loads(line))
        elif kind == _SQL_START:
            self._execution(json.loads(line))
        elif kind == _STREAMING + "QueryProgressEvent":
            yield from self._progress(json.loads(line)["progress"])
        elif kind == _STREAMING + "QueryTerminatedEvent":
            yield self._ended(json.loads(line))

    def _execution(self, event: Mapping[str, Any]) -> None:
        self._plans[event["executionId"]] = event["sparkPlanInfo"]
        if len(self._plans) > _PLANS_KEPT:  # most are of batches and leave with them; broadcasts' and others' do not
            del self._plans[min(self._plans)]

    def _job(self, event: Mapping[str, Any]) -> Iterator[Fact]:
        properties = event.get("Properties") or {}
        number = properties.get("streaming.sql.batchId")
        execution = int(properties.get("spark.sql.execution.id", -1))
        if number is None or execution not in self._plans:
            return
        batch = (properties["spark.jobGroup.id"], int(number))
        if batch not in self._executions:
            yield BatchStarted(batch[1], batch[0], event["Submission Time"])
        self._executions[batch] |= {execution, int(properties.get("spark.sql.execution.root.id", execution))}
        plan = self._plan(execution)
        for stage in event["Stage Infos"]:
            if role := plan.role(stage):
                self._roles[stage["Stage ID"]] = (batch, role)

    def _plan(self, execution: int) -> Plan:
        plan = self._plans[execution]
        if not isinstance(plan, Plan):
            plan = self._plans[execution] = Plan(plan)
        return plan

    def _stage(self, info: Mapping[str, Any]) -> None:
        known = self._roles.get(info["Stage ID"])
        if known is None or "Failure Reason" in info:
            return
        batch, role = known
        self._stages[batch].append(
            StageFact(
                stage=info["Stage ID"],
                operator=role.operator,
                tasks=info["Number of Tasks"],
                submitted_ms=info["Submission Time"],
                completed_ms=info["Completion Time"],
                entry=role.entry,
                exit=role.exit,
            )
        )

    def _task(self, event: Mapping[str, Any]) -> None:
        stage, metrics = event["Stage ID"], event.get("Task Metrics")
        if stage in self._roles and metrics and event["Task End Reason"]["Reason"] == "Success":
            self._tasks[stage].append(_task(stage, event["Task Info"], metrics))

    def _progress(self, progress: Mapping[str, Any]) -> Iterator[Fact]:
        batch = (progress["runId"], progress["batchId"])
        if batch not in self._executions:
            return  # Spark reports idle time too, under the number of a batch that did not run
        stages = sorted(self._stages.pop(batch, []), key=lambda stage: stage.stage)
        tasks = [task for stage in stages for task in self._tasks.get(stage.stage, [])]
        self._forget(batch)
        yield _batch(progress, tuple(stages), tuple(tasks))

    def _ended(self, event: Mapping[str, Any]) -> QueryEnded:
        run = event["runId"]
        for batch in [batch for batch in self._executions if batch[0] == run]:
            self._stages.pop(batch, None)
            self._forget(batch)
        return QueryEnded(run, event.get("exception") or "")

    def _forget(self, batch: _Batch) -> None:
        for execution in self._executions.pop(batch):
            self._plans.pop(execution, None)
        for stage in [stage for stage, (owner, _) in self._roles.items() if owner == batch]:
            del self._roles[stage]
            self._tasks.pop(stage, None)


def _task(stage: int, info: Mapping[str, Any], metrics: Mapping[str, Any]) -> TaskFact:
    read, written = metrics["Shuffle Read Metrics"], metrics["Shuffle Write Metrics"]
    return TaskFact(
        stage=stage,
        index=info["Index"],
        run_seconds=metrics["Executor Run Time"] / 1e3,
        deserialise_seconds=metrics["Executor Deserialize Time"] / 1e3,
        serialise_seconds=metrics["Result Serialization Time"] / 1e3,
        wait_seconds=read["Fetch Wait Time"] / 1e3,
        gc_seconds=metrics["JVM GC Time"] / 1e3,
        cpu_seconds=(metrics["Executor CPU Time"] + metrics["Executor Deserialize CPU Time"]) / 1e9,
        records_in=read["Total Records Read"] + metrics["Input Metrics"]["Records Read"],
        records_out=written["Shuffle Records Written"],
    )


def _batch(progress: Mapping[str, Any], stages: tuple[StageFact, ...], tasks: tuple[TaskFact, ...]) -> BatchFact:
    phases = {name: ms / 1e3 for name, ms in progress["durationMs"].items()}
    marks = progress.get("observedMetrics") or {}
    return BatchFact(
        batch=progress["batchId"],
        run=progress["runId"],
        started_ms=round(datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000),
        seconds=phases.pop("triggerExecution", progress["batchDuration"] / 1e3),
        input_records=sum(source["numInputRows"] for source in progress["sources"]),
        phases=phases,
        marks={name.removeprefix(MARK): _mark(mark) for name, mark in marks.items() if name.startswith(MARK)},
        stages=stages,
        tasks=tasks,
        states=tuple(_state(state) for state in progress["stateOperators"]),
        offsets=tuple((source["startOffset"], source["endOffset"]) for source in progress["sources"]),
    )


def _mark(row: Mapping[str, Any]) -> Mark:
    mark = dict(zip((column["name"] for column in row["schema"]["fields"]), row["values"], strict=True))
    first, mean, last = (_seconds(mark.get(name)) for name in ("first", "mean", "last"))
    return Mark(mark["n"], first, mean, last)


def _seconds(micros: float | None) -> float | None:
    return None if micros is None else micros / 1e6


def _state(state: Mapping[str, Any]) -> StateFact:
    return StateFact(state["numRowsTotal"], state["memoryUsedBytes"], state["commitTimeMs"] / 1e3)


class Follower:
    """Whole lines of a log that still grows. A rolling log goes on in the next file; files read to their end are
    removed when `consume` says so, or the log of a long session would fill the disk. `latest`: a log that is months
    long is begun with the last of its files."""

    def __init__(self, folder: Path, application: str, *, consume: bool, latest: bool = False) -> None:
        self._parts = folder / f"eventlog_v2_{application}"
        self._application = application
        self._consume = consume
        self._part = max(self._numbers(), default=1) if latest else 1
        self._at = 0

    def lines(self) -> Iterator[str]:
        while True:
            last = not self._path(self._part + 1).exists()  # asked first: what is written before it is then complete
            yield from self._rest()
            if last:
                return
            if self._consume:
                self._path(self._part).unlink(missing_ok=True)
            self._part, self._at = self._part + 1, 0

    def _rest(self) -> Iterator[str]:
        try:
            file = self._path(self._part).open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._at += len(line)
                yield line.decode("utf-8")

    def _numbers(self) -> Iterator[int]:
        for path in self._parts.glob(f"events_*_{self._application}"):
            number = path.name.split("_")[1]
            if number.isdigit():
                yield int(number)

    def _path(self, part: int) -> Path:
        return self._parts / f"events_{part}_{self._application}"
