"""One query of a user's program as a `LiveJob` with one operator: the executors that the query may use."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autotrascale.analyze.critical.bottleneck_shares import measure_critical
from autotrascale.analyze.facts import BatchFact
from autotrascale.analyze.live.application import ApplicationRun
from autotrascale.analyze.live.measurer import RATES_UNKNOWN
from autotrascale.analyze.task_costs import fit_task_costs
from autotrascale.analyze.unmarked_query import OPERATOR, take_query_snapshot
from autotrascale.closeable import Closeable
from autotrascale.domain.errors import EngineError
from autotrascale.domain.job import Job
from autotrascale.domain.observation import Observation, RescaleResult
from autotrascale.domain.topology import check_parallelism
from autotrascale.execute.spark.controller.adopted_application import AdoptedApplication
from autotrascale.execute.spark.protocol.agent_messages import AdoptedQuery

_NO_WARM_BATCH = "no batch on warm executors was committed since the last observation"
_MAX_RECENT_BATCHES = 500
_BATCHES_FOR_TASK_COSTS = 60


class AdoptedJob(Closeable):
    """A query that its program started. AuTraScale never starts or stops it."""

    simulated = False

    def __init__(self, job: Job, query: AdoptedQuery, application: AdoptedApplication) -> None:
        self.name, self.topology, self.query = job.name, job.topology, query.id
        self.ended = False
        self.recent: list[BatchFact] = []  # of the present run, for advice
        self._application = application
        self._from_ms = 0.0  # earlier batches were observed already, or ran with another share
        self._query, self._run = query, ""
        self._warm: set[str] = set()  # executors that have run a batch of the query
        self._was_cold = False  # the last batch ran on a new executor

    @property
    def p_max(self) -> int:
        return self._application.bounds.most

    @property
    def stages(self) -> Mapping[str, int]:
        """Partitions of marked stages by mark, as they run."""
        return self._query.stages

    @property
    def source_options(self) -> Mapping[str, str] | None:
        """Options of the query's only source, None if unknown."""
        return self._query.source_options

    def start(self, parallelism: Mapping[str, int]) -> Observation:  # noqa: ARG002 - its program started it
        return self.observe()

    def observe(self) -> Observation:
        application, at = self._application, time.time()
        queries = application.refresh()
        query = next((each for each in queries if each.id == self.query), None)
        self.ended = query is None or not query.active
        if query is None or not query.active:
            error = query.error if query is not None else ""
            return Observation(at, None, None, detail=f"the query has ended{error and ': '}{error}")
        self._query, share = query, application.share(self.query)
        batches = self._take_batches(application.find_run(query))
        if not batches:
            return Observation(at, {OPERATOR: share}, None, None, _NO_WARM_BATCH)
        executors = application.followed.executors
        is_alone = sum(each.active for each in queries) == 1 and len(executors) == share
        snapshot = take_query_snapshot(
            self.name,
            batches,
            executors,
            self.p_max,
            share=None if is_alone else share,
            gives_all=query.reads_all_available,
            costs=fit_task_costs(self.recent[-_BATCHES_FOR_TASK_COSTS:]),
        )
        measured_at = batches[-1].committed_ms / 1000
        if snapshot is None:
            return Observation(at, {OPERATOR: share}, None, measured_at, RATES_UNKNOWN)
        return Observation(at, {OPERATOR: share}, replace(snapshot, critical=measure_critical(batches)), measured_at)

    def read_on(self) -> None:
        """Read on in the event log. The program may have ended."""
        self._application.followed.poll()
        self._take_batches(self._application.find_run(self._query))

    def _take_batches(self, run: ApplicationRun | None) -> Sequence[BatchFact]:
        """Return the batches since the last observation: of this run, at this share, on warm executors.

        The first batch of a run is left out. It carries what arrived during the standstill, on cold caches.
        """
        if run is None or not run.batches:
            return []
        if run.run != self._run:
            self.recent = []
            self._run, self._from_ms = run.run, max(self._from_ms, run.batches[0].started_ms + 1)
            self._warm |= _list_executors(run.batches[0])
        batches = run.since(self._from_ms)
        if batches:
            self._from_ms = batches[-1].started_ms + 1
            run.forget(self._from_ms)
        batches = self._drop_cold_batches(batches)
        self.recent = [*self.recent, *batches][-_MAX_RECENT_BATCHES:]
        return batches

    def _drop_cold_batches(self, batches: list[BatchFact]) -> list[BatchFact]:
        """Drop batches up to the last one with a new executor, and the batch after it.

        A new executor compiles code in its first batch, and all other executors wait for it. The next batch takes what
        arrived meanwhile. With both, more executors would seem to make batches longer.
        """
        warm = list[BatchFact]()
        for batch in batches:
            executors = _list_executors(batch)
            is_cold = not executors <= self._warm
            warm = [] if is_cold or self._was_cold else [*warm, batch]
            self._warm, self._was_cold = self._warm | executors, is_cold
        return warm

    def rescale(self, parallelism: Mapping[str, int]) -> RescaleResult:
        check_parallelism(self.topology, parallelism, self.p_max)
        try:
            result = self._application.scale_query(self.query, parallelism[OPERATOR])
        except EngineError as problem:
            share = self._application.share(self.query)
            return RescaleResult(time.time(), False, {OPERATOR: share}, detail=str(problem))
        self._from_ms = result.at * 1000
        return result

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


def _list_executors(batch: BatchFact) -> set[str]:
    return {task.executor for task in batch.tasks if task.executor}
