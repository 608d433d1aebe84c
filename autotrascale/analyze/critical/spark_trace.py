"""Batches of one query → activities and messages, for a running job and for an archive.

    timeline                     activities
    driver                       planning, logs, scheduling, commits; waits while tasks run (`driver_phases`)
    executor 1 slot 0            tasks, one after another, each in its phases (`task_phases`, `task_timelines`)
    executor 2 to executor 1 …   none: the origin of the blocks that a task waits for

    message                      from                              to
    a task is launched           driver, its stage's first launch  an idle slot, the task's launch
    its result                   the slot, the task's end          driver, at once
    a fetch                      the slot, begin of the wait       the slot, end of the wait

An idle slot waits for the driver, and the driver waits for its tasks. So the stages of a batch stand one behind the
other as in Spark, whose driver launches no stage before the last task of its parent stages has ended. A task that
begins when its slot becomes free was held up by the task before it, and needs no message.

Spark's log says how long a task waited for blocks and how many bytes were remote. It does not say which executor kept
the task waiting. Where only one executor can have, its name stands for the origin, else the names of the operators
that wrote the blocks. So there is one pair of messages for each task that waited, and not one for each pair of tasks.
The path through the driver shows that every producer had ended when a consumer began.

Between two batches the driver waits for its trigger or for input: the log does not say for which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from autotrascale.analyze.critical import driver_phases
from autotrascale.analyze.critical.activities import Activity, ActivityTrace, Kind, Message
from autotrascale.analyze.critical.driver_phases import DRIVER, MOMENT, StageSpan
from autotrascale.analyze.critical.task_phases import split_task
from autotrascale.analyze.critical.task_timelines import PlacedTask, place_tasks
from autotrascale.analyze.facts import BatchFact, StageFact


def trace_batches(batches: Sequence[BatchFact]) -> ActivityTrace:
    """Return the trace of one query's batches, in any order. Batches of different runs must not overlap."""
    ordered = sorted(batches, key=lambda batch: (batch.started_ms, batch.batch))
    activities: list[Activity] = []
    messages: list[Message] = []
    for before, batch in pairwise([None, *ordered]):
        if batch is None:
            continue
        if before is not None and before.committed_ms < batch.started_ms:
            activities.append(Activity(DRIVER, before.committed_ms, float(batch.started_ms), Kind.waiting))
        one = trace_batch(batch)
        activities += one.activities
        messages += one.messages
    return ActivityTrace(tuple(activities), tuple(messages))


def trace_batch(batch: BatchFact) -> ActivityTrace:
    """Return the trace of a batch, between its trigger and its commit."""
    outline = driver_phases.outline_batch(batch)
    tasks = place_tasks(batch.tasks, *outline.jobs)
    spans = _spans(batch, tasks)
    doing = [*outline.before, *driver_phases.split_add_batch(batch, outline.jobs, list(spans.values())), *outline.after]
    activities = driver_phases.make_activities(doing)
    operators = {stage.stage: stage.operator for stage in batch.stages}
    fetching = _Fetches.of(batch, tasks)
    messages: list[Message] = []
    for task in tasks:
        operator = operators.get(task.task.stage)
        waited = _trace_before(task, spans[task.task.stage], operator)
        activities += waited.activities
        messages += waited.messages
        launched_ms = max((each.received_ms for each in waited.messages), default=task.begin_ms)
        did = _trace_task(task, operator, fetching, launched_ms)
        activities += did.activities
        messages += did.messages
        messages.append(Message(task.timeline, task.end_ms, DRIVER, task.end_ms, Kind.scheduling, operator))
    return ActivityTrace(tuple(activities), tuple(messages))


def _trace_before(task: PlacedTask, stage: StageSpan, operator: str | None) -> ActivityTrace:
    """Return the time of a slot before a task: idle until the launch, or held up by the task before."""
    idle = task.before_ms is None or task.before_ms < stage.first_ms
    gap: list[Activity] = []
    if task.before_ms is not None and task.before_ms < task.begin_ms:
        kind = Kind.waiting if idle else Kind.scheduling
        gap = [Activity(task.timeline, task.before_ms, task.begin_ms, kind, None if idle else operator)]
    if not idle:
        return ActivityTrace(tuple(gap), ())
    sent = max(stage.first_ms, stage.ready_ms + MOMENT)
    launch = Message(DRIVER, sent, task.timeline, max(task.begin_ms, sent), Kind.scheduling, operator)
    return ActivityTrace(tuple(gap), (launch,) if launch.received_ms < task.end_ms else ())


def _trace_task(task: PlacedTask, operator: str | None, fetching: _Fetches, launched_ms: float) -> ActivityTrace:
    """Return the phases of a task. While it waits for blocks its slot waits for a message."""
    at = task.begin_ms
    activities: list[Activity] = []
    messages: list[Message] = []
    for kind, ms in split_task(task.task):
        end = min(at + ms, task.end_ms)
        if end <= at:
            continue
        doing = kind
        if kind is Kind.fetch:
            doing, source = Kind.waiting, fetching.source(task)
            sent = min(max(at, launched_ms), end)  # a task asks for blocks after its launch
            messages.append(Message(task.timeline, sent, source, sent, kind, operator))
            messages.append(Message(source, sent, task.timeline, end, kind, operator))
        activities.append(Activity(task.timeline, at, end, doing, operator, task.task.index))
        at = end
    return ActivityTrace(tuple(activities), tuple(messages))


@dataclass(frozen=True)
class _Fetches:
    """The origins of the blocks that tasks fetch."""

    stages: Mapping[int, StageFact]
    ran_on: Mapping[int, frozenset[str]]  # by stage, the executors of its tasks

    @classmethod
    def of(cls, batch: BatchFact, tasks: Iterable[PlacedTask]) -> _Fetches:
        ran_on: dict[int, set[str]] = defaultdict(set)
        for each in tasks:
            ran_on[each.task.stage].add(each.task.executor or "?")
        stages = {stage.stage: stage for stage in batch.stages}
        return cls(stages, {stage: frozenset(names) for stage, names in ran_on.items()})

    def source(self, task: PlacedTask) -> str:
        """Return the origin's timeline. Each slot has its own, so that waiting tasks do not wait for one another."""
        stage, times = self.stages.get(task.task.stage), task.task.times
        parents = stage.parents if stage else ()
        makers = {name for parent in parents for name in self.ran_on.get(parent, ())}
        mine = task.task.executor or "?"
        if times and times.remote_bytes == 0:
            makers &= {mine}
        elif times and times.local_bytes == 0:
            makers -= {mine}
        if len(makers) == 1:
            return f"executor {makers.pop()} to {task.timeline}"
        wrote = dict.fromkeys(self.stages[parent].operator for parent in parents if parent in self.stages)
        return f"shuffle of {', '.join(wrote) or '?'} to {task.timeline}"


def _spans(batch: BatchFact, tasks: Iterable[PlacedTask]) -> dict[int, StageSpan]:
    """Return the times of each stage. A stage is ready when its parents have ended and its job is submitted."""
    stages = {stage.stage: stage for stage in batch.stages}
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for each in tasks:
        number = each.task.stage
        first[number] = min(each.begin_ms, first.get(number, each.begin_ms))
        last[number] = max(each.end_ms, last.get(number, each.end_ms))
    found = {}
    for number, began in first.items():
        stage = stages.get(number)
        parents = [last[parent] for parent in (stage.parents if stage else ()) if parent in last]
        jobs = [float(at) for at in batch.jobs_ms if at <= began]
        known = [*parents, *(jobs[-1:])] or ([float(stage.submitted_ms)] if stage else [])
        ready = min(max(known, default=began), began)
        over = max(last[number], float(stage.completed_ms)) if stage else last[number]
        found[number] = StageSpan(ready, began, last[number], over)
    return found
