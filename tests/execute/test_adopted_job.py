"""A query of an adopted program: batches on cold executors are left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from autotrascale.analyze.facts import BatchFact, StageFact, TaskFact
from autotrascale.analyze.live.application import ApplicationRun
from autotrascale.analyze.unmarked_query import OPERATOR, RunningExecutor
from autotrascale.app.program_file import ExecutorBounds, ProgramFile, ProgramSettings
from autotrascale.domain.target import Target
from autotrascale.execute.spark.controller import adopted_job
from autotrascale.execute.spark.controller.adopted_application import AdoptedApplication
from autotrascale.execute.spark.controller.adopted_job import AdoptedJob
from autotrascale.execute.spark.protocol.agent_messages import AdoptedQuery
from autotrascale.plan.sizing.executor_plan import ExecutorRange

FILE = ProgramFile("shops", ProgramSettings(ExecutorBounds(4)), Target(5.0))


def query(gives_all: bool) -> AdoptedQuery:
    return AdoptedQuery("q", "run", ("run",), "totals", "/c", 4, True, True, False, reads_all_available=gives_all)


@dataclass
class Application:
    """An application with a single query."""

    gives_all: bool = True
    there: tuple[str, ...] = ("0",)
    bounds: ExecutorRange = field(default_factory=lambda: ExecutorRange(1, 4))
    run: ApplicationRun = field(init=False)

    def __post_init__(self) -> None:
        self.run = ApplicationRun("run", "q", "totals", number=1, from_its_start=True)

    @property
    def followed(self) -> SimpleNamespace:
        return SimpleNamespace(
            executors={name: RunningExecutor(name, "h", 1) for name in self.there}, poll=lambda: None
        )

    def refresh(self) -> tuple[AdoptedQuery, ...]:
        return (query(self.gives_all),)

    def find_run(self, _: AdoptedQuery) -> ApplicationRun:
        return self.run

    def share(self, _: str) -> int:
        return len(self.there)


def job(application: Application) -> AdoptedJob:
    asked = query(application.gives_all)
    return AdoptedJob(FILE.query_job("totals", Target(5.0)), asked, cast(AdoptedApplication, application))


def batch(number: int, executors: str) -> BatchFact:
    """Return a batch of one second on the executors named by the letters."""
    at = 1000 * number
    tasks = tuple(TaskFact(number, index, 300, read=10, executor=name) for index, name in enumerate(executors))
    stage = StageFact(number, "count", len(tasks), at + 100, at + 800)
    return BatchFact(number, "run", at, 0.9, 10 * len(tasks), 1.0, stages=(stage,), tasks=tasks)


@given(ran=st.lists(st.text("0123", min_size=1, max_size=4), min_size=2, max_size=12), looks=st.integers(1, 4))
def test_a_batch_with_a_new_executor_and_the_next_batch_are_left_out(ran: list[str], looks: int) -> None:
    application = Application()
    kept, seen = job(application), list[int]()
    for number, executors in enumerate(ran):
        application.run.take(batch(number, executors))
        if number % looks == 0 or number == len(ran) - 1:
            kept.observe()
            seen = [each.batch for each in kept.recent]
    new = [number for number, executors in enumerate(ran) if set(executors) - set("".join(ran[:number]))]
    assert not set(seen) & {0, *new, *(number + 1 for number in new if number)}
    assert seen == sorted(set(seen))
    assert set(range(new[-1] + 2 if new[-1] else 1, len(ran))) <= set(seen)  # from then on, all


def test_the_backlog_of_a_silent_source_is_known_only_if_it_reads_all() -> None:
    for gives_all, backlog in ((True, 0.9 * 10), (False, None)):
        application = Application(gives_all)
        kept = job(application)
        for number in range(4):
            application.run.take(batch(number, "0"))
        shot = kept.observe().snapshot
        assert shot is not None
        assert shot.parallelism == {OPERATOR: 1}
        assert shot.backlog_records == backlog


def test_an_observation_without_warm_batches_says_so() -> None:
    application = Application()
    for number, executors in enumerate(("0", "01")):
        application.run.take(batch(number, executors))
    look = job(application).observe()
    assert (look.snapshot, look.detail) == (None, adopted_job._NO_WARM_BATCH)
