"""Batches of one query, as Spark's own events tell of them → activities and messages. The same for a job that runs now
and for an archive: both have `BatchFact`s.

    timeline                     does
    driver                       plans, logs, schedules, commits; waits while tasks run (`driver`)
    executor 1 slot 0            tasks, one after another, each in its phases (`task_phases`, `slots`)
    executor 2 to executor 1 …   nothing of its own: where the blocks come from that a task waits for

    message                      from                              to
    a task is launched           driver, its stage's first launch  a slot that stood idle, the task's launch
    its result                   the slot, the task's end          driver, at once
    a fetch                      the slot, when it begins to wait  the slot, when it has waited enough

A slot that stands idle waits for the driver, and the driver for its tasks: so the stages of a batch stand one behind
the other as they do in Spark, whose driver launches no stage before the last task of those that it reads has ended.
What began when a slot came free was held up by the task before it, and needs no message.

Spark's log says how long a task waited for blocks and how many of its bytes were remote, not which executor kept it
waiting. Where only one can have, its name stands for where they come from, else the names of the operators that wrote
them. So there is one pair of messages for each task that waited, and not one for each pair of tasks; that every
producer had ended when a consumer began is said by the way through the driver.

Between two batches the driver waits for its trigger or for input: nothing says for which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from autotrascale.analyze.critical import driver_phases
from autotrascale.analyze.critical.activities import Activity, ActivityTrace, Kind, Message
from autotrascale.analyze.critical.driver_phases import DRIVER, MOMENT, StageSpan
from autotrascale.analyze.critical.task_phases import split_task
from autotrascale.analyze.critical.task_timelines import PlacedTask, place_tasks
from autotrascale.analyze.facts import BatchFact, StageFact
from autotrascale.analyze.joiner import Joiner
from autotrascale.monitor.eventlog.decoding import EventReader


def trace_batches(batches: Sequence[BatchFact]) -> ActivityTrace:
    """Of one query's batches, in any order. Those of different runs do not overlap."""
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
    """All of it lies between the batch's trigger and its commit."""
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
        waited = _before(task, spans[task.task.stage], operator)
        activities += waited.activities
        messages += waited.messages
        did = _task(task, operator, fetching)
        activities += did.activities
        messages += did.messages
        messages.append(Message(task.timeline, task.end_ms, DRIVER, task.end_ms, Kind.scheduling, operator))
    return ActivityTrace(tuple(activities), tuple(messages))


def read_batches(lines: Iterable[bytes]) -> Iterator[BatchFact]:
    """The batches of one application's log, each as soon as its report is read. What is no event of use is passed over:
    who must know of damage reads with a `Follower` or from an archive."""
    facts = EventReader().read(lines, Joiner(every_stage=True).take)
    return (fact for fact in facts if isinstance(fact, BatchFact))


def _before(task: PlacedTask, stage: StageSpan, operator: str | None) -> ActivityTrace:
    """How it came to its slot: launched when that stood idle, or as soon as it was free."""
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


def _task(task: PlacedTask, operator: str | None, fetching: _Fetches) -> ActivityTrace:
    """Its phases. While it waits for blocks it does nothing; what it waits for is the message."""
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
            messages.append(Message(task.timeline, at, source, at, kind, operator))
            messages.append(Message(source, at, task.timeline, end, kind, operator))
        activities.append(Activity(task.timeline, at, end, doing, operator, task.task.index))
        at = end
    return ActivityTrace(tuple(activities), tuple(messages))


@dataclass(frozen=True)
class _Fetches:
    """Where tasks' blocks come from."""

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
        """A name of its own for each slot that is sent to: tasks that wait at once do not wait for one another."""
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
    """By stage. One that reads from others is ready when they have ended, and none is before its job is submitted."""
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
