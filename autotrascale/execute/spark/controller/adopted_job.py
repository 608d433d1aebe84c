"""One query of an adopted program, for the control loop: `LiveJob` of one operator, the executors that it may use."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from autotrascale.analyze import unmarked_query as measuring
from autotrascale.analyze.critical.bottleneck_shares import measure_critical
from autotrascale.analyze.facts import BatchFact
from autotrascale.analyze.live.application import ApplicationRun
from autotrascale.analyze.live.measurer import RATES_UNKNOWN
from autotrascale.analyze.task_costs import fit_task_costs
from autotrascale.analyze.unmarked_query import OPERATOR
from autotrascale.closeable import Closeable
from autotrascale.domain.errors import EngineError
from autotrascale.domain.job import Job
from autotrascale.domain.observation import Observation, RescaleResult
from autotrascale.domain.topology import check_parallelism
from autotrascale.execute.spark.controller.adopted_application import AdoptedApplication
from autotrascale.execute.spark.protocol.agent_messages import AdoptedQuery

_NOTHING_NEW = "no batch on warm executors was committed since the last look"
_MOST_RECENT = 500  # batches
_TELLING = 60  # … and how many of them say what a task costs


class AdoptedJob(Closeable):
    """It was started by its program, and is never ours to start or to end."""

    simulated = False

    def __init__(self, job: Job, query: AdoptedQuery, application: AdoptedApplication) -> None:
        self.name, self.topology, self.query = job.name, job.topology, query.id
        self.ended = False
        self.recent: list[BatchFact] = []  # of its present run, for advice
        self._application = application
        self._from_ms = 0.0  # batches triggered before this were looked at, or ran with another share
        self._query, self._run = query, ""
        self._warm: set[str] = set()  # executors that have run a batch of it
        self._was_cold = False  # the last batch had one that had not

    @property
    def p_max(self) -> int:
        return self._application.bounds.most

    @property
    def stages(self) -> Mapping[str, int]:
        """That are marked with a number of their own, as they run."""
        return self._query.stages

    @property
    def source_options(self) -> Mapping[str, str] | None:
        """Of its one source, as its author set them."""
        return self._query.source_options

    def start(self, parallelism: Mapping[str, int]) -> Observation:  # noqa: ARG002 - it runs as its program started it
        return self.observe()

    def observe(self) -> Observation:
        application, at = self._application, time.time()
        application.look()
        queries = [query for query in application.queries() if query.active]
        query = next((each for each in queries if each.id == self.query), None)
        self._query = query or self._query
        self.ended = query is None
        if query is None:
            return Observation(at, None, None, detail=self._why_ended())
        share = application.share(self.query)
        batches = self._batches(application.run_of(query))
        if not batches:
            return Observation(at, {OPERATOR: share}, None, None, _NOTHING_NEW)
        executors = application.watched.executors
        whole = len(queries) == 1 and len(executors) == share
        taken = measuring.take_query_snapshot(
            self.name,
            batches,
            executors,
            self.p_max,
            share=None if whole else share,
            gives_all=self._query.gives_all,
            costs=fit_task_costs(self.recent[-_TELLING:]),
        )
        if taken is not None:
            taken = replace(taken, critical=measure_critical(batches))
        return Observation(
            at, {OPERATOR: share}, taken, batches[-1].committed_ms / 1000, "" if taken else RATES_UNKNOWN
        )

    def read_on(self) -> None:
        """What the log says by now, for advice: the program may have ended."""
        self._application.watched.poll()
        self._batches(self._application.run_of(self._query))

    def _batches(self, run: ApplicationRun | None) -> list[BatchFact]:
        """Since the last look, of this run and at this share, on executors that are warm. The first of a run carries
        what arrived while the query stood still, on cold caches."""
        if run is None or not run.batches:
            return []
        if run.run != self._run:
            self.recent = []
            self._run, self._from_ms = run.run, max(self._from_ms, run.batches[0].started_ms + 1)
            self._warm |= _ran(run.batches[0])
        batches = run.since(self._from_ms)
        if batches:
            self._from_ms = batches[-1].started_ms + 1
            run.forget(self._from_ms)
        batches = self._after_the_last_cold(batches)
        self.recent = [*self.recent, *batches][-_MOST_RECENT:]
        return batches

    def _after_the_last_cold(self, batches: list[BatchFact]) -> list[BatchFact]:
        """An executor compiles its code in its first batch, and all others wait for it; the batch after it takes in
        what arrived meanwhile. They say nothing of the next: more executors would seem to make batches longer."""
        kept = list[BatchFact]()
        for batch in batches:
            ran = _ran(batch)
            cold = not ran <= self._warm
            kept = [] if cold or self._was_cold else [*kept, batch]
            self._warm, self._was_cold = self._warm | ran, cold
        return kept

    def _why_ended(self) -> str:
        found = next((each for each in self._application.queries() if each.id == self.query), None)
        return f"the query has ended: {found.error}" if found is not None and found.error else "the query has ended"

    def rescale(self, parallelism: Mapping[str, int]) -> RescaleResult:
        check_parallelism(self.topology, parallelism, self.p_max)
        try:
            given = self._application.give(self.query, parallelism[OPERATOR])
        except EngineError as problem:
            return RescaleResult(
                time.time(), False, {OPERATOR: self._application.share(self.query)}, detail=str(problem)
            )
        self._from_ms = time.time() * 1000
        return RescaleResult(
            time.time(),
            given.done,
            {OPERATOR: given.share},
            given.standstill_seconds,
            given.phases,
            given.detail,
            given.how,
            given.overlap_seconds,
        )

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        """It is not ours to stop."""


def _ran(batch: BatchFact) -> set[str]:
    """The executors that had a part in it."""
    return {task.executor for task in batch.tasks if task.executor}
