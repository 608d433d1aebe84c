"""Executors of an application with several queries: requests of the controller, and their order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from autotrascale.analyze.unmarked_query import OPERATOR
from autotrascale.execute.spark.controller.adopted_application import AdoptedApplication
from autotrascale.execute.spark.controller.agent_client import AgentClient
from autotrascale.execute.spark.protocol.agent_messages import (
    AdoptedQuery,
    ApplicationInfo,
    ExecutorCounts,
    QueryRescaled,
    RescaleQuery,
)
from autotrascale.plan.sizing.executor_plan import NEW_WAVES, ExecutorRange, partitions_fit

ABOUT = ApplicationInfo(1, "app-1", "shops", "spark://host:7077", "4.3.0", "", 4)


def query(name: str, partitions: int = 4, not_movable: str = "") -> AdoptedQuery:
    run = f"run-{name}"
    return AdoptedQuery(name, run, (run,), name, "/checkpoint", partitions, True, True, False, not_movable)


@dataclass
class Driver:
    """A driver that grants up to `most` executors at once and rescales every query."""

    running: list[AdoptedQuery]
    staying: int
    most: int = 100
    cores: int = 1
    said: list[Any] = field(default_factory=list)

    def queries(self) -> tuple[AdoptedQuery, ...]:
        return tuple(self.running)

    def executors(self) -> ExecutorCounts:
        return ExecutorCounts(self.staying, 0, self.cores)

    def scale_to(self, total: int) -> ExecutorCounts:
        if total != next((each for each in reversed(self.said) if isinstance(each, int)), None):
            self.said.append(total)
        self.staying = min(total, self.most)
        return self.executors()

    def rescale(self, request: RescaleQuery) -> QueryRescaled:
        self.said.append((request.query, request.partitions))
        self.running = [
            replace(each, partitions=request.partitions) if each.id == request.query else each for each in self.running
        ]
        return QueryRescaled(True, request.partitions, "run", cut_off=False, finish_seconds=0.5, standstill_seconds=2.0)


def application(driver: Driver, folder: Path, most: int = 12) -> AdoptedApplication:
    """Return an application whose clock advances only by sleeping."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    about = replace(ABOUT, event_log=folder.as_uri())
    return AdoptedApplication(
        cast(AgentClient, driver), about, ExecutorRange(1, most), clock=lambda: now[0], sleep=sleep
    )


@given(
    wanted=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 12)), min_size=1, max_size=8),
    count=st.integers(1, 3),
    begin=st.integers(1, 12),
    cores=st.integers(1, 4),
)
def test_the_sum_is_requested_and_every_slot_has_a_task(
    wanted: list[tuple[int, int]], count: int, begin: int, cores: int
) -> None:
    names = [f"q{number}" for number in range(count)]
    driver = Driver([query(name) for name in names], begin, cores=cores)
    kept, needed = application(driver, Path("/nowhere")), dict[str, int]()
    for number, k in wanted:
        needed[names[number % count]] = k
        given_now = kept.scale_query(names[number % count], k)
        assert 1 <= kept.executors <= 12
        assert given_now.done == ((given_now.running or {})[OPERATOR] >= k)
    if len(needed) == count:  # every query has a need
        assert kept.executors == min(12, max(count if sum(needed.values()) < count else 1, sum(needed.values())))
        if sum(needed.values()) <= 12:
            assert all(kept.share(name) >= k for name, k in needed.items())
    last = names[wanted[-1][0] % count]
    partitions = next(each.partitions for each in driver.running if each.id == last)
    assert partitions_fit(partitions, kept.share(last) * cores, NEW_WAVES * 12 * cores)


def test_executors_come_before_partitions_and_go_after_them() -> None:
    driver = Driver([query("q", partitions=2)], staying=2)
    kept = application(driver, Path("/nowhere"), most=40)
    up = kept.scale_query("q", 40)
    assert [type(each) for each in driver.said] == [int, tuple]
    assert (up.done, (up.running or {})[OPERATOR], up.standstill_seconds) == (True, 40, 2.0)
    driver.said.clear()
    down = kept.scale_query("q", 1)
    assert down.done
    assert [type(each) for each in driver.said][-2:] == [tuple, int] or [type(each) for each in driver.said] == [
        int,
        int,
    ]


def test_missing_executors_are_reported_and_planned_without() -> None:
    driver = Driver([query("q")], staying=2, most=3)
    kept = application(driver, Path("/nowhere"))
    got = kept.scale_query("q", 6)
    assert (got.done, (got.running or {})[OPERATOR]) == (False, 3)
    assert "3 of 6 executors" in got.detail
    assert driver.said[0] == 6
    assert 3 in driver.said  # late executors would belong to no query


def test_a_query_that_cannot_be_rescaled_keeps_its_partitions() -> None:
    driver = Driver([query("q", partitions=1, not_movable="reads from socket")], staying=1)
    assert application(driver, Path("/nowhere")).scale_query("q", 4).done
    assert not any(isinstance(each, tuple) for each in driver.said)


def test_a_request_is_repeated_at_each_observation() -> None:
    driver = Driver([query("q", partitions=4)], staying=4)
    kept = application(driver, Path("/nowhere"))
    kept.refresh()
    assert driver.said == []  # no request yet
    kept.scale_query("q", 3)
    driver.staying = 4  # a released executor has come back
    kept.refresh()
    assert kept.executors == 3
