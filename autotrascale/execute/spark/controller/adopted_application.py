"""A program that somebody else wrote, as its controller has it: its queries, what they do, the executors they share.

Each query is kept by a loop of its own, which says how many executors it needs. What the application is given is the
sum: its queries run together. `give` does what follows from one more answer, step by step, and says what came of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from autotrascale.analyze.live.application import ApplicationRun
from autotrascale.analyze.live.application import FollowedApplication as Watched
from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.controller.agent_client import AgentClient
from autotrascale.execute.spark.protocol.agent_messages import (
    AdoptedQuery,
    ApplicationInfo,
    QueryRescaled,
    RescaleQuery,
)
from autotrascale.monitor.eventlog.follower import Follower
from autotrascale.plan.sizing import executor_plan as plan
from autotrascale.plan.sizing.executor_plan import (
    ExecutorRange,
    ExecutorSize,
    ExecutorStep,
    GrowExecutors,
    MovePartitions,
    ShrinkExecutors,
)

GRANT_TIMEOUT_SECONDS = 60.0  # a cluster that has room starts an executor in less, on a busy machine too
_POLL_SECONDS = 0.5
_MOST_PLANS = 3  # of one answer: what a cluster does not grant is planned again without


@dataclass(frozen=True)
class ScaleResult:
    """`share`: executors that the query may use now. `detail` says why that is not what was asked for."""

    done: bool
    share: int
    standstill_seconds: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)
    detail: str = ""
    how: str = ""  # of the query that was moved last: overlapped or in place, and why
    overlap_seconds: float = 0.0  # in which it ran twice


class AdoptedApplication:
    def __init__(
        self,
        client: AgentClient,
        about: ApplicationInfo,
        bounds: ExecutorRange | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`bounds`: None where executors cannot come and go; then there are as many as there are."""
        self.client, self.about = client, about
        self._clock, self._sleep = clock, sleep
        self.watched = Watched(Follower(find_event_log_folder(about), about.id, consume=False, latest=False))
        self.standing = client.standing()
        self._bounds = None if self.standing.why_not else bounds
        self._needed: dict[str, int] = {}  # by query, as the loops said last
        self.moves = 0  # of queries that stood still for it
        self._total = 0  # that the cluster was last asked for; 0: nobody asked

    @property
    def cores(self) -> int:
        """Of one executor."""
        return self.standing.cores or self.about.slots or 1

    def size(self, price: float | None) -> ExecutorSize | None:
        """Of one executor; None where the driver runs the tasks."""
        return None if self._bounds is None else ExecutorSize(self.cores, price=price)

    @property
    def executors(self) -> int:
        """Those that stay; the driver itself counts as one where it runs the tasks."""
        return max(1, self.standing.staying)

    @property
    def elastic(self) -> bool:
        """Its executors come and go with the load."""
        return self._bounds is not None and self._bounds.least < self._bounds.most

    @property
    def bounds(self) -> ExecutorRange:
        return self._bounds or ExecutorRange(self.executors, self.executors)

    def queries(self) -> tuple[AdoptedQuery, ...]:
        return self.client.queries()

    def look(self) -> None:
        """Reads on in the event log, and asks what there is. A number that was asked for is said again: an executor
        that was lost is replaced, and one that came back is given back again."""
        self.watched.poll()
        self.standing = self.client.scale_to(self._total) if self._total else self.client.standing()

    def run_of(self, query: AdoptedQuery) -> ApplicationRun | None:
        return self.watched.runs.get(query.run)

    def share(self, query: str) -> int:
        """What it may count on: all of them where it is alone. In the order in which plans have the queries, which says
        who gets the odd one."""
        needs = self._needs()
        return plan.share_executors({**needs, query: needs.get(query, 1)}, self.executors)[query]

    def give(self, query: str, executors: int) -> ScaleResult:
        """What the loop of this query asks for, among what the others have."""
        self._needed[query] = executors
        bounds, still, phases, detail, moved = self.bounds, 0.0, dict[str, float](), "", _NOT_MOVED
        for _ in range(_MOST_PLANS):
            planned = plan.plan_executors(self._now(), bounds)
            for step in planned.steps:
                began = self._clock()
                refused, found = self._do(step)
                if found is not None:
                    still, moved = still + found.standstill_seconds, found
                phases[_PHASES[type(step)]] = phases.get(_PHASES[type(step)], 0.0) + self._clock() - began
                if refused:
                    detail = refused
                    break
            else:
                break
            if not isinstance(step, GrowExecutors):
                break
            bounds = ExecutorRange(min(bounds.least, self.executors), self.executors)
        self.look()
        share = self.share(query)
        done = share >= executors and not detail
        return ScaleResult(done, share, still, phases, detail, moved.how, moved.overlap_seconds)

    def _needs(self) -> dict[str, int]:
        """Of the queries that run. One that nobody has decided on yet has its part of what the others leave."""
        active = [each.id for each in self.queries() if each.active]
        unknown = [each for each in active if each not in self._needed]
        left = self.executors - sum(self._needed[each] for each in active if each in self._needed)
        part = max(1, left // max(1, len(unknown)))
        return {each: self._needed.get(each, part) for each in active}

    def _now(self) -> plan.RunningApplication:
        needs = self._needs()
        queries = [
            plan.QueryNeed(each.id, needs[each.id], each.partitions if _moves(each) else None, each.stages)
            for each in self.queries()
            if each.id in needs
        ]
        return plan.RunningApplication(self.executors, self.cores, tuple(queries))

    def _do(self, step: ExecutorStep) -> tuple[str, QueryRescaled | None]:
        """Why it did not come about, if so, and how a query was moved."""
        match step:
            case GrowExecutors(total):
                return self._grow(total), None
            case ShrinkExecutors(total):
                self._ask_for(total)
                return "", None
            case MovePartitions(query, partitions, _, stages):
                moved = self.client.rescale(RescaleQuery(query, partitions, stages=dict(stages)))
                self.moves += 1
                return "" if moved.done else moved.detail, moved

    def _grow(self, total: int) -> str:
        self._ask_for(total)
        until = self._clock() + GRANT_TIMEOUT_SECONDS
        while self.executors < total and self._clock() < until:
            self._sleep(_POLL_SECONDS)
            self.standing = self.client.standing()
        if self.executors >= total:
            return ""
        self._ask_for(self.executors)  # what came too late would belong to nobody
        return f"the cluster gave {self.executors} of {total} executors within {GRANT_TIMEOUT_SECONDS:.0f} s"

    def _ask_for(self, total: int) -> None:
        self._total, self.standing = total, self.client.scale_to(total)


_NOT_MOVED = QueryRescaled(True, 0, "", False, 0.0, 0.0)
_PHASES = {GrowExecutors: "executors", MovePartitions: "partitions", ShrinkExecutors: "release"}


def _moves(query: AdoptedQuery) -> bool:
    return query.partitions > 0 and not query.not_movable


def find_event_log_folder(about: ApplicationInfo) -> Path:
    """The folder of its event log, which must be on this machine."""
    place = urlsplit(about.event_log)
    if not about.event_log or place.scheme not in ("", "file"):
        raise InputError(
            "program",
            "writes no event log on this machine, so it cannot be measured",
            seen=about.event_log or "none",
            remedy="leave spark.eventLog.enabled and spark.eventLog.dir out: they are then set for it",
        )
    return Path(unquote(place.path))
