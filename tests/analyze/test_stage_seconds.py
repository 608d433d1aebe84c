"""Time with running stages of each operator, where stages overlap, and slots of a batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.analyze import metrics, unmarked_query
from autotrascale.analyze.facts import BatchFact, StageFact, TaskFact
from autotrascale.analyze.task_slots import ExecutorStay, ExecutorStays, count_slots, read_task_cpus
from autotrascale.domain.topology import Topology
from autotrascale.monitor.eventlog.events import ApplicationStart, Environment, ExecutorChange, ExecutorInfo

NAMES = ("source", "map", "sink")
CHAIN = Topology.chain(*NAMES)

spans = st.tuples(st.integers(0, 3000), st.integers(0, 1500))


@st.composite
def batches(draw: st.DrawFn) -> list[BatchFact]:
    """Stages that overlap, that touch, that last no time at all, and that end after their batch."""
    found, at = [], 1_000_000
    for number in range(draw(st.integers(1, 5))):
        stages = [
            StageFact(10 * number + place, draw(st.sampled_from(NAMES)), 2, at + begin, at + begin + length)
            for place, (begin, length) in enumerate(draw(st.lists(spans, max_size=6)))
        ]
        seconds = draw(st.integers(1, 5000)) / 1000
        found.append(BatchFact(number, "run", at, seconds, 100, stages=tuple(stages)))
        at += 6000
    return found


@given(batches())
def test_together_they_are_the_time_in_which_any_stage_ran(found: list[BatchFact]) -> None:
    share, lasted = metrics.measure_overhead_share(found), metrics.measure_stage_seconds(found)
    total = sum(batch.seconds for batch in found)
    assert sum(lasted.values()) == pytest.approx(0.0 if share is None else (1 - share) * total, abs=1e-9)


@given(batches())
def test_every_instant_is_shared_evenly(found: list[BatchFact]) -> None:
    """Counted out, millisecond by millisecond."""
    counted = dict.fromkeys(NAMES, 0.0)
    for batch in found:
        mine, busy = dict.fromkeys(NAMES, 0.0), 0
        for at in range(batch.started_ms, batch.started_ms + 4600):
            running = {each.operator for each in batch.stages if each.submitted_ms <= at < each.completed_ms}
            busy += bool(running)
            for name in running:
                mine[name] += 0.001 / len(running)
        for name in NAMES if busy else ():
            counted[name] += mine[name] * min(1.0, 1000 * batch.seconds / busy)
    assert {name: seconds for name, seconds in counted.items() if seconds} == pytest.approx(
        metrics.measure_stage_seconds(found)
    )


@given(batches())
def test_the_order_of_stages_does_not_matter(found: list[BatchFact]) -> None:
    turned = [
        BatchFact(each.batch, each.run, each.started_ms, each.seconds, 100, stages=each.stages[::-1]) for each in found
    ]
    assert metrics.measure_stage_seconds(turned[::-1]) == metrics.measure_stage_seconds(found)


@given(batches())
def test_a_snapshot_has_them_by_operator(found: list[BatchFact]) -> None:
    snapshot = metrics.take_snapshot("job", CHAIN, 8, {"source": 10.0}, found)
    assert {name: each.stage_seconds for name, each in snapshot.operators.items()} == {
        name: metrics.measure_stage_seconds(found).get(name) for name in NAMES
    }


@given(st.integers(1, 4), st.floats(0.0, 0.4))
def test_executors_together_have_all_that_is_no_overhead(k: int, each_task: float) -> None:
    """Fixed costs of tasks count as overhead there, so no stage contains them."""
    found = [
        BatchFact(
            number,
            "run",
            10_000 * number,
            2.0,
            100,
            offered_seconds=10.0,
            stages=(StageFact(number, "count", 2, 10_000 * number + 200, 10_000 * number + 1700),),
            tasks=tuple(TaskFact(number, at, 1400, executor="0") for at in range(2)),
            slots=4,
        )
        for number in range(4)
    ]
    there = {str(at): unmarked_query.RunningExecutor(str(at), "h", 2) for at in range(k)}
    snapshot = unmarked_query.take_query_snapshot("job", found, there, 8, costs={"count": each_task})
    assert snapshot is not None
    assert snapshot.overhead_share is not None
    (metrics_,) = snapshot.operators.values()
    assert metrics_.stage_seconds == pytest.approx((1 - snapshot.overhead_share) * 8.0)
    assert snapshot.slots is None  # they are what there is more or less of


class TestSlots:
    stays = st.lists(
        st.builds(ExecutorStay, st.integers(1, 16), st.integers(0, 100), st.one_of(st.none(), st.integers(100, 200))),
        max_size=5,
    )

    @given(stays, st.integers(0, 200), st.integers(1, 50), st.integers(1, 4))
    def test_slots_are_known_while_executors_stay(
        self, stays: list[ExecutorStay], begin: int, length: int, task_cpus: int
    ) -> None:
        """No task runs on cores of two executors."""
        at_each = [
            sum(stay.cores // task_cpus for stay in stays if stay.came_ms <= at < (stay.gone_ms or 1000))
            for at in range(begin, begin + length)
        ]
        moved = any(begin < at < begin + length for stay in stays for at in (stay.came_ms, stay.gone_ms or 0))
        assert count_slots(stays, begin, begin + length, task_cpus) == (None if moved else at_each[0] or None)

    def test_a_log_without_its_beginning_may_lack_executors(self) -> None:
        stays = ExecutorStays()
        stays.take(ExecutorChange(5, "1", ExecutorInfo(4)))
        assert stays.slots(10, 20) is None
        stays.take(ApplicationStart("shop"))
        assert stays.slots(10, 20) == 4
        stays.take(ExecutorChange(30, "1"))
        assert (stays.slots(10, 30), stays.slots(10, 31), stays.slots(30, 40)) == (4, None, None)

    def test_the_settings_may_come_before_the_executors_or_after_them(self) -> None:
        come, settings = ExecutorChange(5, "1", ExecutorInfo(5)), Environment({"spark.task.cpus": "2"})
        for order in ((come, settings), (settings, come)):
            stays = ExecutorStays()
            for event in (ApplicationStart("shop"), *order):
                stays.take(event)
            assert stays.slots(10, 20) == 2

    @pytest.mark.parametrize("said", ["", "0", "-1", "many", "1.5", "9" * 5000, "²"])
    def test_impossible_cpus_of_a_task_count_as_one(self, said: str) -> None:
        assert read_task_cpus({"spark.task.cpus": said}) == 1

    def test_slots_of_a_window_must_be_equal_in_all_batches(self) -> None:
        def told(*each: int | None) -> int | None:
            return metrics.find_slots([BatchFact(at, "run", 0, 1.0, 1, slots=known) for at, known in enumerate(each)])

        assert (told(4, 4, 4), told(4, 8), told(4, None), told(None), told()) == (4, None, None, None, None)
