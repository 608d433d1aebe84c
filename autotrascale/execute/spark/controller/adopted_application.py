"""A user's program as its controller sees it: its queries, their batches, and their shared executors.

Each query has a control loop of its own, which says how many executors the query needs. The queries run together, so
the application needs the sum. `scale_query` plans and carries out the steps that follow from a new need.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from autotrascale.analyze.live.application import ApplicationRun, FollowedApplication
from autotrascale.analyze.unmarked_query import OPERATOR
from autotrascale.domain.errors import InputError
from autotrascale.domain.observation import RescaleResult
from autotrascale.execute.spark.clusters.registered_executors import GRANT_TIMEOUT_SECONDS
from autotrascale.execute.spark.controller.agent_client import AgentClient
from autotrascale.execute.spark.protocol.agent_messages import (
    AdoptedQuery,
    ApplicationInfo,
    QueryRescaled,
    RescaleQuery,
)
from autotrascale.monitor.eventlog.follower import Follower
from autotrascale.plan.sizing.executor_plan import (
    ExecutorRange,
    ExecutorSize,
    ExecutorStep,
    GrowExecutors,
    MovePartitions,
    QueryNeed,
    RunningApplication,
    ShrinkExecutors,
    plan_executors,
    share_executors,
)

_POLL_SECONDS = 0.5
_MAX_PLANS = 3  # for one need: after a refusal by the cluster, the rest is planned again


class AdoptedApplication:
    """The Spark application of a program.

    Args:
        client: connection to the program's agent
        info: the application, as the agent describes it
        bounds: the least and the most executors; without effect if executors cannot come and go
    """

    def __init__(
        self,
        client: AgentClient,
        info: ApplicationInfo,
        bounds: ExecutorRange | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.client, self.info = client, info
        self._clock, self._sleep = clock, sleep
        self.followed = FollowedApplication(Follower(find_event_log_folder(info), info.id, consume=False, latest=False))
        self.executor_counts = client.executors()
        self.rescales = 0  # of queries
        self._queries: tuple[AdoptedQuery, ...] = ()
        self._bounds = None if self.executor_counts.not_elastic else bounds
        self._needed: dict[str, int] = {}  # executors by query, as the loops asked last
        self._requested = 0  # executors; 0 before the first request

    @property
    def cores(self) -> int:
        """Cores of one executor."""
        return self.executor_counts.cores or self.info.slots or 1

    @property
    def executors(self) -> int:
        """Executors that stay. A driver that runs the tasks counts as one."""
        return max(1, self.executor_counts.staying)

    @property
    def is_elastic(self) -> bool:
        """Executors come and go with the load."""
        return self._bounds is not None and self._bounds.least < self._bounds.most

    @property
    def bounds(self) -> ExecutorRange:
        """The least and the most executors."""
        return self._bounds or ExecutorRange(self.executors, self.executors)

    def executor_size(self, price: float | None) -> ExecutorSize | None:
        """Return the size of one executor; None if the driver runs the tasks. `price`: of one executor hour."""
        return None if self._bounds is None else ExecutorSize(self.cores, price=price)

    def read_queries(self) -> tuple[AdoptedQuery, ...]:
        """Ask the program for its queries."""
        self._queries = self.client.queries()
        return self._queries

    def refresh(self) -> tuple[AdoptedQuery, ...]:
        """Read on in the event log, ask for executors and queries, and return the queries.

        A request for executors is repeated: the cluster then replaces an executor that was lost, and releases an
        executor that came back.
        """
        self.followed.poll()
        self.executor_counts = self.client.scale_to(self._requested) if self._requested else self.client.executors()
        return self.read_queries()

    def find_run(self, query: AdoptedQuery) -> ApplicationRun | None:
        """Return the present run of a query, if the event log has it already."""
        return self.followed.runs.get(query.run)

    def share(self, query: str) -> int:
        """Return the executors that a query may count on: all if it is alone.

        Queries are taken in the order of the plans, which decides who gets the odd executor.
        """
        needs = self._needs()
        return share_executors({**needs, query: needs.get(query, 1)}, self.executors)[query]

    def scale_query(self, query: str, executors: int) -> RescaleResult:
        """Give a query `executors`, as far as the other queries and the cluster allow.

        Each plan is carried out step by step. If the cluster does not grant executors, the rest is planned again
        within those that are there.
        """
        self._needed[query] = executors
        bounds, standstill, phases, detail, last_rescale = self.bounds, 0.0, dict[str, float](), "", _NO_RESCALE
        for _ in range(_MAX_PLANS):
            for step in plan_executors(self._describe(), bounds).steps:
                began = self._clock()
                failure, rescaled = self._carry_out(step)
                if rescaled is not None:
                    standstill, last_rescale = standstill + rescaled.standstill_seconds, rescaled
                phase = _PHASES[type(step)]
                phases[phase] = phases.get(phase, 0.0) + self._clock() - began
                if failure:
                    detail = failure
                    break
            else:
                break
            if not isinstance(step, GrowExecutors):
                break
            bounds = ExecutorRange(min(bounds.least, self.executors), self.executors)
        self.refresh()
        share = self.share(query)
        is_done, how, overlap = share >= executors and not detail, last_rescale.how, last_rescale.overlap_seconds
        return RescaleResult(time.time(), is_done, {OPERATOR: share}, standstill, phases, detail, how, overlap)

    def _needs(self) -> dict[str, int]:
        """Return the executors that each active query needs. Queries without a decision share the rest."""
        active = [each.id for each in self._queries or self.read_queries() if each.active]
        undecided = [each for each in active if each not in self._needed]
        left = self.executors - sum(self._needed[each] for each in active if each in self._needed)
        part = max(1, left // max(1, len(undecided)))
        return {each: self._needed.get(each, part) for each in active}

    def _describe(self) -> RunningApplication:
        queries, needs = self.read_queries(), self._needs()
        needed = [
            QueryNeed(each.id, needs[each.id], each.partitions if _is_movable(each) else None, each.stages)
            for each in queries
            if each.id in needs
        ]
        return RunningApplication(self.executors, self.cores, tuple(needed))

    def _carry_out(self, step: ExecutorStep) -> tuple[str, QueryRescaled | None]:
        """Return why the step failed, if it did, and the rescale of a query."""
        match step:
            case GrowExecutors(total):
                return self._grow(total), None
            case ShrinkExecutors(total):
                self._request(total)
                return "", None
            case MovePartitions(query, partitions, _, stages):
                rescaled = self.client.rescale(RescaleQuery(query, partitions, stages=dict(stages)))
                self.rescales += 1
                return "" if rescaled.done else rescaled.detail, rescaled

    def _grow(self, total: int) -> str:
        self._request(total)
        until = self._clock() + GRANT_TIMEOUT_SECONDS
        while self.executors < total and self._clock() < until:
            self._sleep(_POLL_SECONDS)
            self.executor_counts = self.client.executors()
        if self.executors >= total:
            return ""
        self._request(self.executors)  # executors that come later would belong to no query
        return f"the cluster granted {self.executors} of {total} executors within {GRANT_TIMEOUT_SECONDS:.0f} s"

    def _request(self, total: int) -> None:
        self._requested, self.executor_counts = total, self.client.scale_to(total)


_NO_RESCALE = QueryRescaled(True, 0, "", False, 0.0, 0.0)
_PHASES = {GrowExecutors: "executors", MovePartitions: "partitions", ShrinkExecutors: "release"}


def _is_movable(query: AdoptedQuery) -> bool:
    return query.partitions > 0 and not query.not_movable


def find_event_log_folder(info: ApplicationInfo) -> Path:
    """Return the folder of the event log. Raises `InputError` if it is not on this machine."""
    url = urlsplit(info.event_log)
    if not info.event_log or url.scheme not in ("", "file"):
        raise InputError(
            "program",
            "writes no event log on this machine, so it cannot be measured",
            seen=info.event_log or "none",
            remedy="remove spark.eventLog.enabled and spark.eventLog.dir: AuTraScale sets both",
        )
    return Path(unquote(url.path))
