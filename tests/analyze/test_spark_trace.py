"""Laws of the activities that Spark's events tell of: over drawn batches, and over recorded logs."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from drawn_batches import drawn_batches
from hypothesis import given, settings
from hypothesis import strategies as st
from log_reading import batches, read_lines

from autotrascale.analyze.critical.activities import Activity, ActivityTrace, Kind
from autotrascale.analyze.critical.driver_phases import DRIVER
from autotrascale.analyze.critical.edges import make_edges
from autotrascale.analyze.critical.gaps import fill_gaps
from autotrascale.analyze.critical.participation_table import measure_windows
from autotrascale.analyze.critical.spark_trace import trace_batch, trace_batches
from autotrascale.analyze.critical.task_phases import split_task
from autotrascale.analyze.facts import BatchFact
from autotrascale.analyze.joiner import Joiner

LOGS = Path(__file__).parent / "logs"
CLOSE = 1e-6 * 1e3  # ms: what is lost in adding up times of day
seeds = st.integers(0, 2**32)
Vertex = tuple[str, float]


def recorded(log: str) -> list[BatchFact]:
    return batches(read_lines(LOGS / log), Joiner(every_stage=True))


@pytest.fixture(scope="module", params=["marked", "filters", "plain"])
def real(request: pytest.FixtureRequest) -> list[BatchFact]:
    return recorded(request.param)


def timelines(of: ActivityTrace) -> dict[str, list[Activity]]:
    found: dict[str, list[Activity]] = defaultdict(list)
    for each in sorted(of.activities, key=lambda each: each.start_ms):
        found[each.timeline].append(each)
    return found


def took(activities: Iterable[Activity], *kinds: Kind) -> float:
    return sum(each.end_ms - each.start_ms for each in activities if each.kind in kinds)


def check(batches: Sequence[BatchFact]) -> None:
    for batch in batches:
        one = trace_batch(batch)
        within_the_batch(batch, one)
        the_driver_is_as_long_as_the_batch(batch, one)
        tasks_are_as_long_as_spark_says(batch, one)
        a_path_leads_through_it_that_never_waits(batch, one)
    whole = trace_batches(batches)
    nothing_overlaps(whole)
    everything_is_connected(batches, whole)


def within_the_batch(batch: BatchFact, one: ActivityTrace) -> None:
    begin, end = batch.started_ms - CLOSE, batch.committed_ms + CLOSE
    assert all(begin <= each.start_ms < each.end_ms <= end for each in one.activities)
    assert all(begin <= each.sent_ms <= each.received_ms <= end for each in one.messages)


def nothing_overlaps(whole: ActivityTrace) -> None:
    for activities in timelines(whole).values():
        assert all(before.end_ms <= after.start_ms + CLOSE for before, after in pairwise(activities))


def the_driver_is_as_long_as_the_batch(batch: BatchFact, one: ActivityTrace) -> None:
    driver = timelines(one).get(DRIVER, [])
    assert sum(each.end_ms - each.start_ms for each in driver) == pytest.approx(batch.seconds * 1000, abs=CLOSE)
    told = {name: seconds * 1000 for name, seconds in batch.phases.items()}
    asked = told.get("latestOffset", 0) + told.get("getBatch", 0)
    assert took(driver, Kind.offsets) == pytest.approx(asked, abs=CLOSE)
    assert took(driver, Kind.log) == pytest.approx(told.get("walCommit", 0), abs=CLOSE)
    assert took(driver, Kind.planning) == pytest.approx(told.get("queryPlanning", 0), abs=CLOSE)
    assert took(driver, Kind.commit) == pytest.approx(told.get("commitOffsets", 0), abs=CLOSE)


def tasks_are_as_long_as_spark_says(batch: BatchFact, one: ActivityTrace) -> None:
    operators = {stage.stage: stage.operator for stage in batch.stages}
    own: dict[tuple[str | None, int | None], float] = defaultdict(float)
    for each in one.activities:
        if each.instance is not None:
            own[each.operator, each.instance] += each.end_ms - each.start_ms
    for task in batch.tasks:
        assert task.times is not None
        held = task.times.finished_ms - task.times.launched_ms
        assert sum(ms for _, ms in split_task(task)) == pytest.approx(held)
        if held:
            assert own[operators[task.stage], task.index] == pytest.approx(held, abs=CLOSE)


def a_path_leads_through_it_that_never_waits(batch: BatchFact, one: ActivityTrace) -> None:
    """Check that every wait is explained by the graph, from the trigger to the commit."""
    moved = moved_by(one, -batch.started_ms)
    edges, names = make_edges(moved)
    for window in measure_windows(fill_gaps(edges), names, batch.seconds, application="a", query="q"):
        assert window.waiting == pytest.approx(0, abs=1e-9)
        assert sum(part.participation for part in window.kinds) == pytest.approx(1)


def moved_by(one: ActivityTrace, ms: float) -> ActivityTrace:
    activities = [replace(each, start_ms=each.start_ms + ms, end_ms=each.end_ms + ms) for each in one.activities]
    messages = [replace(each, sent_ms=each.sent_ms + ms, received_ms=each.received_ms + ms) for each in one.messages]
    return ActivityTrace(tuple(activities), tuple(messages))


def everything_is_connected(batches: Sequence[BatchFact], whole: ActivityTrace) -> None:
    """The driver has no gap from the first trigger to the last commit, and each task is reached from it and leads back:
    its timeline is entered by a message, or by what was on it before, and the driver hears of its end."""
    driver = timelines(whole)[DRIVER]
    assert driver[0].start_ms == pytest.approx(batches[0].started_ms, abs=CLOSE)
    assert driver[-1].end_ms == pytest.approx(batches[-1].committed_ms, abs=CLOSE)
    assert all(after.start_ms == pytest.approx(before.end_ms, abs=CLOSE) for before, after in pairwise(driver))
    came = {each.target: [] for each in whole.messages}
    for each in whole.messages:
        came[each.target].append(each.received_ms)
    for name, activities in timelines(whole).items():
        if name == DRIVER:
            continue
        for before, after in pairwise([None, *activities]):
            joined = before is not None and abs(before.end_ms - after.start_ms) <= CLOSE
            entered = any(after.start_ms - CLOSE <= at < after.end_ms for at in came[name])
            assert after is None or joined or entered
            if before is not None and before.kind is Kind.waiting and before.end_ms <= after.start_ms + CLOSE:
                assert entered, "a wait is ended by a message"
    ends = {(each.source, each.sent_ms) for each in whole.messages if each.target == DRIVER}
    assert len(ends) == sum(1 for batch in batches for task in batch.tasks if _held(task.times))


def _held(times: object) -> bool:
    return getattr(times, "finished_ms", 0) > getattr(times, "launched_ms", 0)


@settings(deadline=None, max_examples=50)
@given(seeds)
def test_drawn_batches_keep_every_law(seed: int) -> None:
    check(drawn_batches(random.Random(seed)))


def test_recorded_batches_keep_every_law(real: list[BatchFact]) -> None:
    assert real
    assert all(batch.tasks and all(task.times for task in batch.tasks) for batch in real)
    check(real)


def test_a_recorded_batch_has_the_expected_activities() -> None:
    one = trace_batch(recorded("marked")[3])
    tasks = [each for each in one.activities if each.timeline != DRIVER]
    assert {each.operator for each in tasks if each.kind is Kind.processing} == {"numbers", "pairs", "count", "sink"}
    assert {each.operator for each in tasks if each.kind is Kind.state_commit} == {"count"}
    assert took(tasks, Kind.shuffle_write) > 0
    assert all(each.timeline.startswith("executor driver slot ") for each in tasks)
