"""The laws of relaunches: when one may be, with which settings, and what the action log says of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.analyze.executor_conf import ExecutorConf
from autotrascale.domain.decision import Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.executor_window import ExecutorSizes, ExecutorWindow, LostExecutor
from autotrascale.plan.executor_size import relaunch
from autotrascale.plan.executor_size.clamp_to_cluster import ClusterLimits
from autotrascale.plan.executor_size.relaunch import DailyWindow, RelaunchMoment, explain_wait
from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.plan.executor_size.size_evidence import ExecutorSizeRules
from autotrascale.plan.executor_size.size_step import (
    DAY_SECONDS,
    ExecutorSizeState,
    SizeChangeQuota,
    judge_window,
    record_failed_relaunch,
    record_relaunch,
    restore_state,
)

SECONDS = 60.0
RULES = ExecutorSizeRules(evidence_seconds=6 * SECONDS)
SIZES = st.builds(ExecutorSizes, st.integers(512, 8000), st.integers(384, 8000), st.integers(1, 8), st.integers(1, 12))
MINUTES = st.integers(0, 24 * 60 - 1)
ORDER = SizeChange(
    7,
    "asked",
    0.0,
    "P6",
    "heap",
    ExecutorSizes(2000, 500, 1, 1),
    ExecutorSizes(1000, 500, 1, 1),
    Reason("P6-heap", "too much"),
    10.0,
)


def action(what: Any, at: float = 0.0, policy: str = "P6") -> SizeChange:
    return SizeChange(7, what, at, policy, "heap", ORDER.before, ORDER.after, ORDER.reason)


@given(MINUTES, MINUTES, MINUTES)
def test_two_parts_of_a_day_make_the_day(begin: int, end: int, minute: int) -> None:
    part, rest = DailyWindow(begin, end), DailyWindow(end, begin)
    assert DailyWindow.read(str(part)) == part
    if begin == end:
        assert part.contains(minute)
    else:
        assert part.contains(minute) != rest.contains(minute)
        assert part.contains(begin)
        assert not part.contains(end)


@pytest.mark.parametrize("text", ["", "2-4", "02:00", "24:00-01:00", "02:60-03:00", "02:00-04:00 UTC"])
def test_what_is_no_part_of_a_day_is_one_line(text: str) -> None:
    with pytest.raises(InputError, match=r"between: is no part of a day.*write 02:00-04:00"):
        DailyWindow.read(text)


@given(
    st.none()
    | st.builds(action, st.sampled_from(["asked", "relaunched", "seen"]), policy=st.sampled_from(["P6", "back"])),
    st.none() | st.builds(DailyWindow, MINUTES, MINUTES),
    st.integers(1, 4),
    st.lists(
        st.builds(action, st.sampled_from(["asked", "relaunched", "kept"]), st.floats(0, 3 * DAY_SECONDS)), max_size=8
    ),
    st.builds(RelaunchMoment, st.floats(0, 3 * DAY_SECONDS), MINUTES, st.booleans(), st.booleans()),
)
def test_one_at_a_time_so_many_a_day_and_only_then(
    order: SizeChange | None, between: DailyWindow | None, a_day: int, done: list[SizeChange], now: RelaunchMoment
) -> None:
    why = explain_wait(order, between, a_day, done, now)
    if order is None or order.what != "asked" or now.under_way:
        assert why
    elif order.policy == "back":  # what did worse goes at once
        assert not why
    else:
        today = [each for each in done if each.what == "relaunched" and now.at - each.at < DAY_SECONDS]
        fits = between is None or between.contains(now.minute) or now.just_moved
        assert (not why) == (len(today) < a_day and fits)


@given(SIZES, SIZES, st.sampled_from([0, 100, 384]), st.sampled_from(["spark://h:7077", "yarn", "k8s://h"]))
def test_what_is_set_makes_the_sizes_that_were_asked_for(
    before: ExecutorSizes, after: ExecutorSizes, apart: int, master: str
) -> None:
    """As Spark and we read them again; memory that has settings of its own is not counted twice."""
    began = {
        "spark.master": master,
        "spark.executor.memory": f"{before.heap_mb}m",
        "spark.executor.cores": str(before.cores),
        "spark.executor.memoryOverhead": f"{before.overhead_mb - apart}m",
        "spark.executor.pyspark.memory": f"{apart}m",
    }
    conf = ExecutorConf(began)
    assert conf.apart_mb == apart
    changed = relaunch.choose_settings(before, after, master, conf.apart_mb)
    life = {**began, **changed}
    assert ExecutorConf(life).sizes(int(life["spark.executor.cores"]), after.executors) == after
    assert bool(changed) == (before != after)
    if master == "spark://h:7077":
        assert changed.get("spark.cores.max", str(before.slots)) == str(after.slots)
    else:
        assert changed.get("spark.executor.instances", str(before.executors)) == str(after.executors)


def a_window(sizes: ExecutorSizes, at: int, **said: Any) -> ExecutorWindow:
    run = 0.75 * SECONDS * sizes.slots
    usual: dict[str, Any] = {
        "run_seconds": run,
        "gc_seconds": 0.05 * run,
        "fetching_seconds": 0.0,
        "cpu_seconds": 0.8 * run,
        "heap_used_mb": 0.9 * sizes.heap_mb,
        "heap_touched_mb": 500.0,
        "outside_mb": 0.93 * sizes.overhead_mb,
        "memory_mb": 500.0 + 0.93 * sizes.overhead_mb,
        "rate": 100.0,
        "done": 100.0,
        "behind": (100.0, 100.0),
    }
    return ExecutorWindow("orders", SECONDS * at, SECONDS, sizes, batches=2, tasks=10, **{**usual, **said})


def asked_to_give_back(sizes: ExecutorSizes, *, elastic: bool = False) -> tuple[ExecutorSizeState, list[SizeChange]]:
    state, done = ExecutorSizeState(elastic=elastic), list[SizeChange]()
    for at in range(8):
        state, _, actions = judge_window(RULES, ClusterLimits(), SizeChangeQuota(), state, a_window(sizes, at))
        done += actions
    assert [(each.what, each.resource) for each in done] == [("asked", "heap")]
    return state, done


def test_a_relaunch_is_in_the_log_once_and_the_sizes_are_then_judged() -> None:
    state, done = asked_to_give_back(ExecutorSizes(2000, 500, 1, 1))
    state, said = record_relaunch(state, 2, 12.0, 500.0)
    done += said
    assert [(each.what, each.number, each.reason.numbers["launch"]) for each in said] == [("relaunched", 1, 2)]
    assert record_relaunch(state, 2, 12.0, 501.0) == (state, ())
    assert restore_state(done).in_flight == state.in_flight
    for at in range(9, 15):
        state, _, actions = judge_window(RULES, ClusterLimits(), SizeChangeQuota(), state, a_window(done[0].after, at))
        done += actions
    assert [each.what for each in done] == ["asked", "relaunched", "seen", "kept"]


@given(st.sampled_from(["asked", "relaunched"]))
def test_sizes_with_which_it_did_not_come_up_are_not_tried_again(what: str) -> None:
    now = ExecutorSizes(2000, 500, 1, 1)
    state, done = asked_to_give_back(now)
    if what == "relaunched":
        state, said = record_relaunch(state, 2, 12.0, 500.0)
        done += said
    state, said = record_failed_relaunch(state, 3, "no batch was done within 300 s", 510.0)
    done += said
    assert [each.what for each in said] == ["taken-back"]
    assert "no batch was done within 300 s" in said[0].reason.text
    assert said[0].reason.numbers == {"launch": 3}
    assert record_failed_relaunch(state, 3, "", 511.0) == (state, ())
    assert restore_state(done).tried == state.tried
    assert restore_state(done).in_flight is None
    for at in range(20, 60):
        state, _, actions = judge_window(RULES, ClusterLimits(), SizeChangeQuota(), state, a_window(now, at))
        assert all(each.after.heap_mb > done[0].after.heap_mb for each in actions)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 6),
            st.sampled_from(
                [
                    {},
                    {"rate": 10.0, "run_seconds": 1.0},
                    {"behind": (100.0,)},
                    {"behind": (1e6,)},
                    {"lost": (LostExecutor("1", "heap"),)},
                    {"gc_seconds": 1e3},
                ]
            ),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_slots_are_left_to_whoever_lets_executors_come_and_go(history: list[tuple[int, dict[str, Any]]]) -> None:
    """More or fewer of the same size is no change: what is on trial stays there."""
    state, sizes = ExecutorSizeState(elastic=True), ExecutorSizes(2000, 500, 2, 2)
    for at, (executors, said) in enumerate(history):
        window = a_window(ExecutorSizes(sizes.heap_mb, sizes.overhead_mb, sizes.cores, executors), at, **said)
        state, _, actions = judge_window(
            RULES, ClusterLimits(host_memory_mb=4000), SizeChangeQuota(a_day=100), state, window
        )
        for each in actions:
            assert each.resource in ("heap", "overhead")
            assert each.after.cores == each.before.cores
            assert each.what != "given-up"
        if state.in_flight is not None and state.in_flight.what == "asked":
            state, _ = record_relaunch(state, at, 1.0, SECONDS * at)
            assert state.in_flight is not None
            sizes = state.in_flight.after


def test_memory_is_given_back_while_slots_idle_that_somebody_else_plans() -> None:
    idle = {"run_seconds": 1.0, "gc_seconds": 0.0, "cpu_seconds": 1.0, "outside_mb": 100.0, "memory_mb": 600.0}
    for elastic, policy in ((False, "P5"), (True, "P6+P7")):
        state, done = ExecutorSizeState(elastic=elastic), list[SizeChange]()
        for at in range(8):
            state, _, actions = judge_window(
                RULES, ClusterLimits(), SizeChangeQuota(), state, a_window(ExecutorSizes(2000, 500, 1, 4), at, **idle)
            )
            done += actions
        assert done[0].policy == policy
