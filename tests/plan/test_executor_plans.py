"""Laws of a plan for executors: its result, the order of its steps, and how rarely it stops a query."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from autotrascale.domain.errors import InputError
from autotrascale.plan.sizing.executor_plan import (
    LEAST_USE,
    MANY_WAVES,
    MOST_WAVES,
    NEW_WAVES,
    ExecutorPlan,
    ExecutorRange,
    ExecutorStep,
    GrowExecutors,
    MovePartitions,
    QueryNeed,
    RunningApplication,
    ShrinkExecutors,
    choose_partitions,
    compute_price,
    compute_slot_usage,
    partitions_fit,
    plan_executors,
    sum_executor_seconds,
)

counts = st.integers(1, 60)
cores = st.integers(1, 16)


@st.composite
def bounds(draw: DrawFn) -> ExecutorRange:
    least = draw(counts)
    return ExecutorRange(least, draw(st.integers(least, 120)))


@st.composite
def applications(draw: DrawFn) -> RunningApplication:
    partitions, stages = st.one_of(st.none(), st.integers(1, 400)), st.sampled_from(["enrich", "clean"])
    queries = tuple(
        QueryNeed(f"q{i}", draw(counts), draw(partitions), draw(st.dictionaries(stages, st.integers(1, 400))))
        for i in range(draw(st.integers(1, 4)))
    )
    return RunningApplication(draw(st.integers(0, 120)), draw(cores), queries)


def after(application: RunningApplication, step: ExecutorStep) -> RunningApplication:
    match step:
        case GrowExecutors(total) | ShrinkExecutors(total):
            return replace(application, executors=total)
        case MovePartitions(name, partitions, _, stages):
            moved = (
                replace(q, partitions=partitions, stages={**q.stages, **stages}) if q.name == name else q
                for q in application.queries
            )
            return replace(application, queries=tuple(moved))


def done(application: RunningApplication, plan: ExecutorPlan) -> RunningApplication:
    for step in plan.steps:
        application = after(application, step)
    return application


@given(applications(), bounds())
def test_the_plan_has_the_executors_of_all_queries_within_the_bounds(
    application: RunningApplication, bounds: ExecutorRange
) -> None:
    plan = plan_executors(application, bounds)
    need = sum(query.needed for query in application.queries)
    assert plan.executors == bounds.clamp(need)
    assert done(application, plan).executors == plan.executors
    if plan.executors >= len(application.queries):
        assert sum(plan.shares.values()) == plan.executors
    assert bool(plan.short) == (plan.executors < need and any(q.needed > 1 for q in application.queries))
    assert all(plan.shares[q.name] >= q.needed for q in application.queries if q.name not in plan.short)


@given(applications(), bounds())
def test_every_slot_gets_a_task(application: RunningApplication, bounds: ExecutorRange) -> None:
    plan = plan_executors(application, bounds)
    end = done(application, plan)
    for query in end.queries:
        if query.partitions is not None:
            wanted_at_most = NEW_WAVES * bounds.most * application.cores
            for number in (query.partitions, *query.stages.values()):
                assert partitions_fit(number, plan.shares[query.name] * application.cores, wanted_at_most)
    if all(query.partitions for query in end.queries):
        assert sum(query.partitions or 0 for query in end.queries) >= plan.executors * application.cores


@given(applications(), bounds())
def test_executors_are_added_first_and_released_last(application: RunningApplication, bounds: ExecutorRange) -> None:
    plan = plan_executors(application, bounds)
    kinds = [type(step) for step in plan.steps]
    assert GrowExecutors not in kinds[1:]
    assert ShrinkExecutors not in kinds[:-1]
    assert (GrowExecutors in kinds) == (plan.executors > application.executors)
    assert (ShrinkExecutors in kinds) == (plan.executors < application.executors)
    need = min(sum(query.needed for query in application.queries), bounds.most)
    at = application
    for step in plan.steps:
        if isinstance(
            step, MovePartitions
        ):  # during the moves there are enough slots for the need, or all future slots
            assert at.executors >= need
        at = after(at, step)


@given(applications(), bounds())
def test_after_a_plan_is_carried_out_no_steps_remain(application: RunningApplication, bounds: ExecutorRange) -> None:
    plan = plan_executors(application, bounds)
    again = plan_executors(done(application, plan), bounds)
    assert again.steps == ()
    assert (again.executors, again.shares, again.short) == (plan.executors, plan.shares, plan.short)


@given(applications(), bounds(), st.integers(1, 120))
def test_a_plan_with_the_granted_executors_has_no_steps_left(
    application: RunningApplication, bounds: ExecutorRange, granted: int
) -> None:
    """After a refused request, the plan uses the granted executors, and partitions fit them."""
    granted = min(granted, bounds.most)
    plan = plan_executors(replace(application, executors=granted), ExecutorRange(min(bounds.least, granted), granted))
    assert not any(isinstance(step, GrowExecutors) for step in plan.steps)


@given(st.integers(1, 2000), cores, st.integers(1, 10_000), st.one_of(st.none(), bounds()))
def test_fitting_partitions_stay_and_new_partitions_fit(
    executors: int, cores: int, now: int, bounds: ExecutorRange | None
) -> None:
    wanted, reason = choose_partitions(executors, cores, now, bounds)
    slots = executors * cores
    wanted_at_most = NEW_WAVES * bounds.most * cores if bounds else 0
    assert partitions_fit(wanted, slots, wanted_at_most)
    assert (wanted == now) == partitions_fit(now, slots, wanted_at_most)
    assert reason.code == ("partitions-fit" if wanted == now else "partitions-move")
    if wanted != now:
        assert slots <= wanted <= NEW_WAVES * slots
        assert compute_slot_usage(wanted, slots) >= 0.75
    assert not partitions_fit(slots - 1, slots) if slots > 1 else True
    assert not partitions_fit(MOST_WAVES * slots + 1, slots)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=30), cores, st.integers(1, 40))
def test_between_one_and_three_executors_state_moves_at_most_twice(course: list[int], cores: int, now: int) -> None:
    """This holds for any sequence of changes."""
    moves = 0
    for executors in course:
        wanted = choose_partitions(executors, cores, now, ExecutorRange(1, 3))[0]
        moves, now = moves + (wanted != now), wanted
    assert moves <= 2


@given(st.data(), st.integers(1, 40), cores)
def test_partitions_for_many_executors_are_kept_for_few(data: st.DataObject, most: int, cores: int) -> None:
    """Partitions are kept up to MANY_WAVES waves, if at most one slot in six is idle."""
    executors, now = data.draw(st.integers(1, most)), NEW_WAVES * most * cores
    waves = math.ceil(now / (executors * cores))
    stays = choose_partitions(executors, cores, now, ExecutorRange(1, most))[0] == now
    assert stays == (waves <= MANY_WAVES and compute_slot_usage(now, executors * cores) >= LEAST_USE)


def test_a_move_of_partitions_has_a_reason_with_numbers() -> None:
    assert choose_partitions(4, 1, 3)[1].numbers["wanted"] == 12
    assert "62% of 4 slots" in choose_partitions(4, 1, 5)[1].text
    assert "9 waves" in choose_partitions(4, 1, 36)[1].text


@given(st.lists(st.tuples(st.floats(0.1, 100.0), st.integers(0, 40)), min_size=1), st.floats(0.0, 10.0))
def test_executor_seconds_add_up(spans: list[tuple[float, int]], price: float) -> None:
    at, changes, total = 0.0, list[tuple[float, int]](), 0.0
    for seconds, count in spans:
        changes.append((at, count))
        at, total = at + seconds, total + seconds * count
    assert sum_executor_seconds(changes, at) == pytest.approx(total)
    assert sum_executor_seconds(changes, at / 2) <= total + 1e-9
    assert compute_price(2.0, 1800.0, price) == pytest.approx(price)


@pytest.mark.parametrize(("least", "most"), [(0, 3), (3, 2), (1, True)])
def test_invalid_bounds_are_refused(least: int, most: int) -> None:
    with pytest.raises(InputError):
        ExecutorRange(least, most)


def test_two_queries_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="same name"):
        plan_executors(RunningApplication(1, 1, (QueryNeed("a", 1, 1), QueryNeed("a", 1, 1))), ExecutorRange(1, 2))
