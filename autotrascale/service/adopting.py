"""A program that somebody else wrote, while it runs: each of its queries is advised on or kept by a loop of its own.

The program decides when it ends; its exit code is ours. Our end changes nothing for it: whatever it was given last, it
keeps, and another controller may take over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Protocol

from autotrascale.analyze.executors import OPERATOR, TOPOLOGY
from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.execute.spark.adopted.application import AdoptedApplication
from autotrascale.execute.spark.adopted.client import AgentAwayError, Client
from autotrascale.execute.spark.adopted.live import AdoptedJob
from autotrascale.execute.spark.adopted.messages import AdoptedQuery, Application
from autotrascale.knowledge.cards import Wanted
from autotrascale.plan.sizing.executors import Bounds
from autotrascale.service import keeping
from autotrascale.service.keeping import Around, Kept, Sections
from autotrascale.service.output import note

_GLANCE_SECONDS = 0.5  # between two looks at whether the program still runs
_START_SECONDS = 60.0  # a Python that loads PySpark, on a busy machine


class Running(Protocol):
    """The program, as its controller sees it from outside."""

    def client(self) -> Client: ...
    def exit_code(self) -> int | None: ...


@dataclass(frozen=True)
class Wishes:
    """What is wanted of the program. Without bounds its executors stay as they are."""

    name: str
    target: Target
    sections: Sections
    bounds: Bounds | None = None


@dataclass
class _Query:
    job: AdoptedJob
    kept: Kept
    held: ExitStack  # its lease
    due: float


class Controller:
    def __init__(
        self, program: Running, wishes: Wishes, around: Around, clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._program, self._wishes, self._around = program, wishes, around
        self._clock, self._sleep = clock, sleep
        self._client = program.client()
        self._queries: dict[str, _Query] = {}
        self.application: AdoptedApplication | None = None
        self.missed = False

    def run(self, seconds: float | None = None) -> None:
        """Until the program ends, or for so long. Raises `InputError` where it cannot be measured."""
        self._client.await_agent(_START_SECONDS)
        until = None if seconds is None else self._clock() + seconds
        try:
            while self._program.exit_code() is None and (until is None or self._clock() < until):
                try:
                    self._turn()
                except AgentAwayError:  # it ends just now, or its driver is busy with itself
                    pass
                self._sleep(_GLANCE_SECONDS)
            self._end("finished")
        finally:
            self._end("interrupted")
            self._client.close()

    def _turn(self) -> None:
        application = self._opened()
        if application is None:
            return
        for query in application.queries():
            if query.active and query.id not in self._queries:
                self._queries[query.id] = self._taken_in(query, application)
        for query_id, each in list(self._queries.items()):
            if self._clock() >= each.due:
                each.kept.loop.turn()
                each.due = self._clock() + each.kept.loop.rules.knobs.interval_seconds
            if each.job.ended:
                self._close(query_id, "finished")

    def _opened(self) -> AdoptedApplication | None:
        """None before the program has opened Spark. One that closes it and opens it again has another application."""
        about = self._client.application()
        if not about.id:
            return None
        if self.application is None or self.application.about.id != about.id:
            self._end("finished")
            self.application = AdoptedApplication(self._client, about, self._wishes.bounds)
            _tell(about, self.application, advise=self._around.advise)
        return self.application

    def _taken_in(self, query: AdoptedQuery, application: AdoptedApplication) -> _Query:
        name = f"{self._wishes.name}-{query.name}" if query.name else self._wishes.name
        live = AdoptedJob(name, query.id, application)
        job = Job(name, TOPOLOGY, application.bounds.most, {OPERATOR: 0.0}, self._wishes.target)
        with ExitStack() as stack:
            lease, store = keeping.lease_of(stack, self._around.store, name, advise=self._around.advise)
            around = replace(self._around, store=store)
            wanted = Wanted.by(job, execution="micro-batch", simulated=False, faithful=False)
            initial = {OPERATOR: application.share(query.id)}
            kept = Kept(around, self._wishes.sections, job, live, "spark", wanted, initial, lease)
            held = stack.pop_all()
        if query.not_movable:
            note(f"{name}: its partitions stay as they are: it {query.not_movable}")
        return _Query(live, kept, held, self._clock())

    def _close(self, query_id: str, ended: str) -> None:
        query = self._queries.pop(query_id)
        self.missed = self.missed or bool(query.kept.loop.state.memory.missed)
        with query.held:
            query.kept.end(ended)

    def _end(self, ended: str) -> None:
        for query_id in list(self._queries):
            self._close(query_id, ended)


def _tell(about: Application, application: AdoptedApplication, *, advise: bool) -> None:
    doing = "advising on" if advise else "keeping"
    note(f"{doing} {about.name} ({about.id}) on {about.master}, Spark {about.spark_version}")
    standing = application.standing
    if standing.why_not:
        note(f"its executors stay as they are: {standing.why_not}")
