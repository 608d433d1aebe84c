"""Events of one application as they come → facts of its batches. What they mean is said elsewhere, for archives too:
`progress`, `roles`, `tasks`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import Struct

from autotrascale.analyze.facts import (
    BatchFact,
    BatchStarted,
    Configured,
    ExecutorCame,
    ExecutorGone,
    Fact,
    QueryRunEnded,
    QueryRunStarted,
    StageFact,
)
from autotrascale.analyze.mark_counts import count_marks, find_counters, read_passed_rows
from autotrascale.analyze.naming import shorten_plan
from autotrascale.analyze.plan_tree import Stage
from autotrascale.analyze.progress_records import (
    decode_offset,
    find_batch,
    read_output_records,
    read_phases,
    read_report,
    read_states,
)
from autotrascale.analyze.stage_to_operator import SparkJob, StageRole, assign_marked_roles, assign_roles
from autotrascale.analyze.task_facts import make_task_facts
from autotrascale.analyze.task_slots import ExecutorStays
from autotrascale.monitor.eventlog import events

_PLANS_KEPT = 64
# A log may hold what no job says: beyond these an event makes no sense, and the batch that has been open for longest is
# given up. Characters are counted with what an object takes beside its text.
_EVENT_CHARACTERS = 1 << 22
_OPEN_CHARACTERS = 1 << 26  # of the jobs of all open batches
_OPEN_TASKS = 200_000
_OPEN_BATCHES = 1000
_OBJECT = 200
_LONGEST_TEXT = 500
SETTINGS = (
    "spark.master",
    "spark.app.name",
    "spark.task.cpus",
    "spark.sql.shuffle.partitions",
    "spark.cores.max",
    "spark.executor.instances",
    "spark.executor.cores",
    "spark.dynamicAllocation.enabled",
)
"""What is kept of what an application was started with."""
_Batch = tuple[str, int]  # the query's run, the batch's number


@dataclass
class _Open:
    """A batch that runs, with what is known of it so far."""

    executions: set[int] = field(default_factory=set)
    counters: dict[int, str] = field(default_factory=dict)  # by number, the marks that they count for
    counts: dict[int, int] = field(default_factory=dict)  # … and what they have come to
    jobs: list[SparkJob] = field(default_factory=list)
    submitted: list[int] = field(default_factory=list)  # when these were
    completed: dict[int, events.StageInfo] = field(default_factory=dict)
    tasks: list[events.FullTaskEnd] = field(default_factory=list)
    characters: int = 0
    whole: bool = True  # or come upon half way: the plan of a job of it was never seen


class Joiner:
    """Puts the events of one application's log together. It forgets a batch once it has reported it. Only operators
    with marks are reported, as nobody can rescale a stage by itself; with `every_stage` those without are too, named as
    an archive names them, and then the queries and executors as well."""

    def __init__(self, *, every_stage: bool = False) -> None:
        self._every_stage = every_stage
        self._plans: dict[int, events.Node] = {}
        self._counters: dict[int, dict[int, str]] = {}  # of these plans
        self._batches: dict[_Batch, _Open] = {}
        self._owners: dict[int, _Open] = {}  # by stage
        self._characters = self._tasks = 0  # of all that is open
        self._stays = ExecutorStays()

    def take(self, event: Struct) -> Iterator[Fact]:
        """What this event completes."""
        self._stays.take(event)
        match event:
            case events.FullTaskEnd():
                self._task(event)
            case events.StageCompleted():
                self._stage(event.info)
            case events.JobStart():
                yield from self._job(event)
            case events.ExecutionStart():
                self._execution(event)
            case events.QueryProgress():
                yield from self._progress(event.progress)
            case events.QueryTerminated():
                yield self._ended(event)
            case events.QueryStarted() if self._every_stage:
                yield QueryRunStarted(event.runId, event.id, event.name)
            case events.ExecutorChange() if self._every_stage:
                yield _executor(event)
            case events.Environment() if self._every_stage:
                told = {name: event.properties[name][:_LONGEST_TEXT] for name in SETTINGS if name in event.properties}
                yield Configured(told)

    def _execution(self, event: events.ExecutionStart) -> None:
        _check_characters(sum(_OBJECT + len(node.nodeName) + len(node.simpleString) for node in _nodes(event.plan)))
        self._counters[event.execution] = find_counters(event.plan)
        shorten_plan(event.plan)
        self._plans[event.execution] = event.plan
        if len(self._plans) > _PLANS_KEPT:  # most are of batches and leave with them; broadcasts' and others' do not
            self._drop_plan(min(self._plans))

    def _job(self, event: events.JobStart) -> Iterator[Fact]:
        known, batch = event.properties, find_batch(event.properties)
        if known is None or batch is None:
            return  # of no stream
        plan = None if known.execution is None else self._plans.get(known.execution)
        if plan is None and not self._every_stage:
            return  # of a batch that was come upon half way
        said = sum(_OBJECT + len(rdd.name) + len(rdd.scope or "") for stage in event.stages for rdd in stage.rdds)
        said += sum(_OBJECT + len(stage.name) + 8 * len(stage.parents or ()) for stage in event.stages)
        _check_characters(said)
        job = SparkJob([Stage.listed(stage) for stage in event.stages], plan)
        if batch not in self._batches:
            self._batches[batch] = _Open()
            if event.submitted is not None:
                yield BatchStarted(batch[1], batch[0], event.submitted)
        opened = self._batches[batch]
        for execution in (known.execution, known.root):
            if execution is not None:
                opened.executions.add(execution)
                opened.counters |= self._counters.get(execution, {})
        opened.jobs.append(job)
        if event.submitted is not None:
            opened.submitted.append(event.submitted)
        opened.whole &= plan is not None or known.execution is None
        opened.characters += said
        self._characters += said
        for stage in event.stages:
            self._owners.setdefault(stage.stage, opened)
        self._keep_within_bounds()

    def _stage(self, info: events.StageInfo) -> None:
        """One that is tried again completes again: together they are one, from the first to the last moment."""
        opened = self._owners.get(info.stage)
        if opened is None or not info.succeeded:
            return
        for number, count in read_passed_rows(info.accumulables):
            if number in opened.counters:
                opened.counts[number] = max(count, opened.counts.get(number, 0))
        before = opened.completed.get(info.stage, info)
        opened.completed[info.stage] = events.StageInfo(
            info.stage,
            max(info.tasks, before.tasks),
            min(info.submitted or 0, before.submitted or 0),
            max(info.completed or 0, before.completed or 0),
        )

    def _task(self, event: events.FullTaskEnd) -> None:
        opened = self._owners.get(event.stage)
        if opened is not None and event.metrics is not None and event.end.reason == "Success":
            opened.tasks.append(event)
            self._tasks += 1
            self._keep_within_bounds()

    def _keep_within_bounds(self) -> None:
        while (
            self._tasks > _OPEN_TASKS or self._characters > _OPEN_CHARACTERS or len(self._batches) > _OPEN_BATCHES
        ) and self._batches:
            self._forget(next(iter(self._batches)))

    def _progress(self, progress: events.ProgressRecord) -> Iterator[Fact]:
        batch = read_report(progress)
        opened = self._batches.get((batch.run, batch.batch))
        if opened is None or batch.seconds is None:
            return  # Spark reports idle time too, under the number of a batch that did not run
        self._forget((batch.run, batch.batch))
        if not opened.whole:
            return  # what ran before is in no line that is left, so its work would be told as less than it was
        found = assign_roles(opened.jobs) if self._every_stage else assign_marked_roles(opened.jobs, refuse=True)
        role_of = {role.stage: role for role in found}
        ran = opened.completed.keys() & role_of
        reads = {stage.number: stage.parents or () for job in reversed(opened.jobs) for stage in job.stages}
        yield BatchFact(
            batch=batch.batch,
            run=batch.run,
            started_ms=batch.started_ms,
            seconds=batch.seconds,
            input_records=batch.input_records,
            output_records=read_output_records(progress),
            offered_seconds=batch.offered_seconds,
            behind=batch.behind,
            phases=read_phases(progress),
            marks={**count_marks(opened.counters, opened.counts), **batch.marks},
            stages=tuple(_stage(opened.completed[at], role_of[at], reads[at]) for at in sorted(ran)),
            tasks=tuple(make_task_facts(end for end in opened.tasks if end.stage in ran)),
            states=read_states(progress),
            offsets=tuple(
                (decode_offset(source.startOffset), decode_offset(source.endOffset)) for source in progress.sources
            ),
            newest=tuple(decode_offset(source.latestOffset) for source in progress.sources),
            query=progress.id,
            name=progress.name,
            sources=tuple(source.description[:_LONGEST_TEXT] for source in progress.sources),
            sink=progress.sink.description[:_LONGEST_TEXT] if progress.sink else "",
            jobs_ms=tuple(sorted(opened.submitted)),
            slots=self._stays.slots(batch.started_ms, batch.started_ms + batch.seconds * 1000),
        )

    def _ended(self, event: events.QueryTerminated) -> QueryRunEnded:
        for batch in [batch for batch in self._batches if batch[0] == event.runId]:
            self._forget(batch)
        return QueryRunEnded(event.runId, event.exception or "")

    def _forget(self, batch: _Batch) -> None:
        opened = self._batches.pop(batch)
        self._tasks -= len(opened.tasks)
        self._characters -= opened.characters
        for execution in opened.executions:
            self._drop_plan(execution)
        for stage in [stage for stage, owner in self._owners.items() if owner is opened]:
            del self._owners[stage]

    def _drop_plan(self, execution: int) -> None:
        self._plans.pop(execution, None)
        self._counters.pop(execution, None)


def _executor(event: events.ExecutorChange) -> Fact:
    if event.info is None:
        return ExecutorGone(event.executor, event.at)
    return ExecutorCame(event.executor, event.info.host, event.info.cores, event.at)


def _check_characters(count: int) -> None:
    if count > _EVENT_CHARACTERS:
        raise ValueError("an event says more than any job does")


def _nodes(plan: events.Node) -> Iterator[events.Node]:
    todo = [plan]
    while todo:
        node = todo.pop()
        todo += node.children
        yield node


def _stage(done: events.StageInfo, role: StageRole, parents: tuple[int, ...]) -> StageFact:
    return StageFact(
        stage=done.stage,
        operator=role.operator,
        tasks=done.tasks,
        submitted_ms=done.submitted or 0,
        completed_ms=done.completed or 0,
        entry=role.entry,
        exit=role.exit,
        first=not role.upstream,
        stateful=role.stateful,
        parents=parents,
    )
