"""Events of one application as they come → facts of its batches. The same for a running job and for an archive.

A batch is spread over many events: plans, jobs, tasks, stages, and at last its progress record. `Joiner` keeps the open
batches and gives out the fact of a batch as soon as it is committed. The meaning of the parts is in `progress_records`,
`stage_to_operator` and `task_facts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    TaskFact,
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
from autotrascale.analyze.stage_to_operator import SparkJob, StageRole, assign_marked_roles, assign_roles, hash_shape
from autotrascale.analyze.task_facts import make_task_fact
from autotrascale.analyze.task_slots import ExecutorStays
from autotrascale.monitor.eventlog import events

_PLANS_KEPT = 64
# A hostile log may hold more than any job writes. Beyond these bounds an event makes no sense, and the batch that has
# been open for longest is given up. Characters are counted with the size of the object that holds the text.
_EVENT_CHARACTERS = 1 << 22
_OPEN_CHARACTERS = 1 << 26  # of the jobs of all open batches
_OPEN_TASKS = 200_000
_OPEN_BATCHES = 1000
_OBJECT = 200
_LONGEST_TEXT = 500
# The application's settings that are reported.
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
BatchKey = tuple[str, int]  # the query's run, the batch's number
_NO_STREAM = ""  # stands for the run of a query that is no stream


@dataclass
class _OpenBatch:
    """A batch that runs, as far as its events have come."""

    executions: set[int] = field(default_factory=set)
    counters: dict[int, str] = field(default_factory=dict)  # the mark of each counter, by number
    counts: dict[int, int] = field(default_factory=dict)  # the value of each counter
    jobs: list[SparkJob] = field(default_factory=list)
    submitted_ms: list[int] = field(default_factory=list)  # of the jobs
    completed: dict[int, events.StageInfo] = field(default_factory=dict)
    tasks: list[TaskFact] = field(default_factory=list)
    characters: int = 0
    has_all_plans: bool = True  # false where the log began in the middle of the batch


class Joiner:
    """Joins the events of one application's log. It forgets a batch once it has reported it."""

    def __init__(
        self,
        *,
        every_stage: bool = False,
        batch_queries: bool = False,
        reports: Mapping[BatchKey, events.ProgressRecord] | None = None,
        most_tasks: int = _OPEN_TASKS,
    ) -> None:
        """Begin without any batch.

        Args:
            every_stage: Also report stages without marks, query runs, executors and settings. Without it only
                operators with marks are reported, because no other stage can be rescaled by itself.
            batch_queries: Report the queries of an application without streams, each as one batch. The run of such a
                query is a hash of its operators. `finish` must be called at the end of the log.
            reports: Progress records from outside the log, used for batches that the log has no record of.
            most_tasks: Tasks of all open batches; beyond them the oldest batch is given up.
        """
        self._every_stage, self._batch_queries = every_stage, batch_queries
        self._reports, self._most_tasks = reports or {}, most_tasks
        self._plans: dict[int, events.Node] = {}
        self._counters: dict[int, dict[int, str]] = {}  # by execution, as in `_OpenBatch`
        self._batches: dict[BatchKey, _OpenBatch] = {}
        self._owners: dict[int, _OpenBatch] = {}  # by stage
        self._characters = self._tasks = 0  # of all open batches
        self.stays = ExecutorStays()
        self.application = ""
        self.has_streams = False
        self.given_up = 0  # batches beyond the bounds

    def take(self, event: Struct) -> Sequence[Fact]:
        """Return the facts that this event completes. Raises `ValueError` for an event that makes no sense."""
        match event:
            case events.TaskEnd():
                self._task(event)
            case events.StageCompleted():
                self._stage(event.info)
            case events.JobStart():
                return list(self._job(event))
            case events.ExecutionStart():
                self._execution(event)
            case events.QueryProgress():
                return list(self._progress(event.progress))
            case events.QueryTerminated():
                return [self._run_ended(event)]
            case events.ExecutionEnd():
                return list(self._query(event.execution))
            case events.JobEnd():
                return list(self._query(-1 - event.job))
            case events.QueryStarted() if self._every_stage:
                return [QueryRunStarted(event.runId, event.id, event.name)]
            case events.ApplicationStart():
                self.application = event.name
                self.stays.take(event)
            case events.ExecutorChange() | events.Environment():
                self.stays.take(event)
                return [_resources(event)] if self._every_stage else ()
        return ()

    def finish(self) -> Iterator[Fact]:
        """Yield the facts that are complete at the end of the log."""
        for key in list(self._batches):
            if key in self._reports:
                yield from self._progress(self._reports[key])
            elif key[0] == _NO_STREAM:
                yield from self._query(key[1])

    def _execution(self, event: events.ExecutionStart) -> None:
        _check_characters(sum(_OBJECT + len(node.nodeName) + len(node.simpleString) for node in _nodes(event.plan)))
        self._counters[event.execution] = find_counters(event.plan)
        shorten_plan(event.plan)
        self._plans[event.execution] = event.plan
        # Most plans belong to batches and leave with them. Plans of broadcasts and of other queries do not.
        if len(self._plans) > _PLANS_KEPT:
            self._drop_plan(min(self._plans))

    def _job(self, event: events.JobStart) -> Iterator[Fact]:
        known, key = event.properties, self._key(event)
        if key is None:
            return
        execution = None if known is None else known.execution
        plan = None if execution is None else self._plans.get(execution)
        if plan is None and not self._every_stage:
            return  # the log began in the middle of this batch
        characters = _check_characters(_job_characters(event))
        if key not in self._batches:
            yield from self._reported_beside(key)
            self._batches[key] = _OpenBatch()
            if event.submitted is not None and key[0] != _NO_STREAM:
                yield BatchStarted(key[1], key[0], event.submitted)
        opened = self._batches[key]
        for number in (execution, None if known is None else known.root):
            if number is not None:
                opened.executions.add(number)
                opened.counters |= self._counters.get(number, {})
        opened.jobs.append(SparkJob([Stage.listed(stage) for stage in event.stages], plan))
        if event.submitted is not None:
            opened.submitted_ms.append(event.submitted)
        opened.has_all_plans &= plan is not None or execution is None
        opened.characters += characters
        self._characters += characters
        for stage in event.stages:
            self._owners.setdefault(stage.stage, opened)
        self._keep_within_bounds()

    def _key(self, event: events.JobStart) -> BatchKey | None:
        """Return the batch of a job; None for a job that is not reported."""
        if key := find_batch(event.properties):
            if not self.has_streams:
                self.has_streams = True
                for query in list(self._batches):  # queries count only in a log without streams
                    self._forget(query)
            return key
        if not self._batch_queries or self.has_streams:
            return None
        known = event.properties
        execution = None if known is None else known.execution if known.root is None else known.root
        # A job of plain RDDs has no execution; its own number must not be taken for an execution's.
        return _NO_STREAM, -1 - event.job if execution is None else execution

    def _stage(self, info: events.StageInfo) -> None:
        """Count the attempts of a stage as one, from the first moment to the last."""
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

    def _task(self, event: events.TaskEnd) -> None:
        opened = self._owners.get(event.stage)
        if opened is not None and event.metrics is not None and event.end.reason == "Success":
            opened.tasks.append(make_task_fact(event, event.metrics))
            self._tasks += 1
            if self._tasks > self._most_tasks:
                self._keep_within_bounds()

    def _keep_within_bounds(self) -> None:
        while self._batches and (
            self._tasks > self._most_tasks or self._characters > _OPEN_CHARACTERS or len(self._batches) > _OPEN_BATCHES
        ):
            self.given_up += 1
            self._forget(next(iter(self._batches)))

    def _reported_beside(self, key: BatchKey) -> Iterator[Fact]:
        """Report earlier batches of the same run from records outside the log: they are over when the next begins."""
        if self._reports:
            for earlier in [each for each in self._batches if each[0] == key[0] and each in self._reports]:
                yield from self._progress(self._reports[earlier])

    def _progress(self, progress: events.ProgressRecord) -> Iterator[Fact]:
        report = read_report(progress)
        opened = self._batches.get((report.run, report.batch))
        if opened is None or report.seconds is None:
            return  # Spark reports idle time too, under the number of a batch that did not run
        self._forget((report.run, report.batch))
        if not opened.has_all_plans:
            return  # earlier lines of the batch are missing, so its work would come out too small
        roles = self._roles(opened)
        ran = opened.completed.keys() & {role.stage for role in roles}
        yield BatchFact(
            batch=report.batch,
            run=report.run,
            started_ms=report.started_ms,
            seconds=report.seconds,
            input_records=report.input_records,
            output_records=read_output_records(progress),
            offered_seconds=report.offered_seconds,
            behind=report.behind,
            phases=read_phases(progress),
            marks={**count_marks(opened.counters, opened.counts), **report.marks},
            stages=_stage_facts(opened, roles),
            tasks=tuple(task for task in opened.tasks if task.stage in ran),
            states=read_states(progress),
            offsets=tuple(
                (decode_offset(source.startOffset), decode_offset(source.endOffset)) for source in progress.sources
            ),
            newest=tuple(decode_offset(source.latestOffset) for source in progress.sources),
            query=progress.id,
            name=progress.name,
            sources=tuple(source.description[:_LONGEST_TEXT] for source in progress.sources),
            sink=progress.sink.description[:_LONGEST_TEXT] if progress.sink else "",
            jobs_ms=tuple(sorted(opened.submitted_ms)),
            slots=self.stays.slots(report.started_ms, report.started_ms + report.seconds * 1000),
            marked=any(role.marked for role in roles),
        )

    def _query(self, number: int) -> Iterator[Fact]:
        """Report a query that is no stream: only its stages have times."""
        opened = self._batches.get((_NO_STREAM, number))
        if opened is None:
            return
        self._forget((_NO_STREAM, number))
        roles = self._roles(opened)
        stages = _stage_facts(opened, roles)
        if not stages:
            return
        ran = {stage.stage for stage in stages}
        started_ms = min(stage.submitted_ms for stage in stages)
        ended_ms = max(stage.completed_ms for stage in stages)
        yield BatchFact(
            batch=number,
            run=hash_shape(roles),
            started_ms=started_ms,
            seconds=(ended_ms - started_ms) / 1000,
            input_records=None,
            stages=stages,
            tasks=tuple(task for task in opened.tasks if task.stage in ran),
            slots=self.stays.slots(started_ms, ended_ms),
            marked=any(role.marked for role in roles),
        )

    def _roles(self, opened: _OpenBatch) -> list[StageRole]:
        return assign_roles(opened.jobs) if self._every_stage else assign_marked_roles(opened.jobs, refuse=True)

    def _run_ended(self, event: events.QueryTerminated) -> QueryRunEnded:
        for key in [key for key in self._batches if key[0] == event.runId and key not in self._reports]:
            self._forget(key)
        return QueryRunEnded(event.runId, event.exception or "")

    def _forget(self, key: BatchKey) -> None:
        opened = self._batches.pop(key)
        self._tasks -= len(opened.tasks)
        self._characters -= opened.characters
        for execution in opened.executions:
            self._drop_plan(execution)
        for stage in [stage for stage, owner in self._owners.items() if owner is opened]:
            del self._owners[stage]

    def _drop_plan(self, execution: int) -> None:
        self._plans.pop(execution, None)
        self._counters.pop(execution, None)


def _resources(event: events.ExecutorChange | events.Environment) -> Fact:
    if isinstance(event, events.Environment):
        return Configured(
            {name: event.properties[name][:_LONGEST_TEXT] for name in SETTINGS if name in event.properties}
        )
    if event.info is None:
        return ExecutorGone(event.executor, event.at)
    return ExecutorCame(event.executor, event.info.host, event.info.cores, event.at)


def _job_characters(event: events.JobStart) -> int:
    count = sum(_OBJECT + len(rdd.name) + len(rdd.scope or "") for stage in event.stages for rdd in stage.rdds)
    return count + sum(_OBJECT + len(stage.name) + 8 * len(stage.parents or ()) for stage in event.stages)


def _check_characters(count: int) -> int:
    if count > _EVENT_CHARACTERS:
        raise ValueError("the event is longer than any job's")
    return count


def _nodes(plan: events.Node) -> Iterator[events.Node]:
    todo = [plan]
    while todo:
        node = todo.pop()
        todo += node.children
        yield node


def _stage_facts(opened: _OpenBatch, roles: Sequence[StageRole]) -> tuple[StageFact, ...]:
    """Return the facts of the stages that completed and have a role, by number."""
    parents = {stage.number: stage.parents or () for job in reversed(opened.jobs) for stage in job.stages}
    return tuple(
        _stage_fact(opened.completed[role.stage], role, parents[role.stage])
        for role in sorted(roles, key=lambda role: role.stage)
        if role.stage in opened.completed
    )


def _stage_fact(done: events.StageInfo, role: StageRole, parents: tuple[int, ...]) -> StageFact:
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
        upstream=role.upstream,
        rank=role.rank,
    )
