"""The predicted batch time against a schedule of tasks one by one, as Spark does it."""

from __future__ import annotations

import heapq
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.domain.stages import StageTime
from autotrascale.plan.sizing.batch_time import (
    QuerySetup,
    QueryWorkload,
    StageWork,
    build_workload,
    predict_batch_time,
    predict_stage_seconds,
)
from autotrascale.plan.sizing.sizing import Sizing

counts = st.integers(1, 40)
shares = st.floats(0, 1)


def stage_of(tasks: list[float], slots: int) -> float:
    """Return the duration of a stage whose tasks go to the next free slot."""
    free = [0.0] * slots
    for task in tasks:
        heapq.heapreplace(free, free[0] + task)
    return max(free)


def tasks_of(work: float, tasks: int, undivided: float, chance: random.Random | None = None) -> list[float]:
    """Return task times: the hot task last, the worst order; others vary by up to a tenth."""
    even = [work * (1 - undivided) / tasks] * tasks
    even[-1] += work * undivided
    return even if chance is None else [task * chance.uniform(0.9, 1.1) for task in even]


@given(counts, counts, shares)
def test_the_stage_time_equals_a_schedule_of_its_tasks(tasks: int, slots: int, undivided: float) -> None:
    found = predict_stage_seconds(StageWork("s", 1.0, tasks, undivided), tasks, slots)
    assert found == pytest.approx(stage_of(tasks_of(1.0, tasks, undivided), slots))


@given(counts, counts, counts, shares)
def test_more_slots_never_make_a_stage_longer(tasks: int, slots: int, more: int, undivided: float) -> None:
    stage = StageWork("s", 1.0, tasks, undivided)
    assert predict_stage_seconds(stage, tasks, slots + more) <= predict_stage_seconds(stage, tasks, slots) + 1e-12
    assert predict_stage_seconds(stage, tasks, slots) >= max(undivided, 1 / slots if undivided == 0 else 0) - 1e-12


@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 4), st.floats(0, 6))
def test_successive_batches_converge_to_the_predicted_time(
    seed: int, executors: int, cores: int, trigger: float
) -> None:
    """Each batch covers the input that arrived during the previous batch; task times vary by a tenth."""
    chance = random.Random(seed)
    stages = tuple(
        StageWork(f"stage {at}", chance.uniform(0.1, 0.4), chance.choice([2, 8, 12]), chance.choice([0, 0, 0.2]))
        for at in range(chance.randint(1, 3))
    )
    of, setup = (
        QueryWorkload(chance.uniform(0.1, 1.0), stages, 100.0),
        QuerySetup(executors, cores, trigger_seconds=trigger),
    )
    found = predict_batch_time(of, setup)
    if found.busy > 0.8:  # near saturation, one percent of a task is many percent of a batch
        return
    batches, covered = [], 1.0
    for _ in range(60):
        took = of.fixed_seconds + sum(
            stage_of(tasks_of(stage.work * covered, setup.tasks(stage), stage.undivided, chance), setup.slots)
            for stage in stages
        )
        batches.append(took)
        covered = max(trigger, took)
    assert sum(batches[30:]) / 30 == pytest.approx(found.seconds, rel=0.15 / (1 - found.busy))


def test_batch_time_with_and_without_a_trigger() -> None:
    of = QueryWorkload(0.5, (StageWork("s", 1.0, 4),), 10.0)
    waits = predict_batch_time(of, QuerySetup(2, 2, trigger_seconds=4.0))
    assert (waits.seconds, waits.covered, waits.latency("mean")) == (1.5, 4.0, 3.5)
    follows = predict_batch_time(of, QuerySetup(2, 2))
    assert follows.seconds == pytest.approx(0.5 / 0.75) == follows.covered
    behind = predict_batch_time(of, QuerySetup(1, 1, trigger_seconds=4.0))
    assert (behind.seconds, behind.keeps_up, behind.latency("p95")) == (math.inf, False, math.inf)


def sizing(load: float | None, fixed: float | None) -> Sizing:
    one: tuple[float | None, ...] = (1.0,)
    return Sizing(
        ("executors",), 100.0, "micro-batch", (1,), (1,), (8,), one, one, (load,), (1.0,), fixed_seconds=fixed
    )


def times(work: float | None = 3.0) -> tuple[StageTime, ...]:
    return (
        StageTime("read kafka", 4, 1.0, 1.0, 1.0, reads_source=True),
        StageTime("count by word", 8, 1.0, work, 2.4, stateful=True),
        StageTime("count", 1, 0.1, 0.0, 1.0),
    )


def test_the_work_of_the_stages_sums_to_the_load() -> None:
    found = build_workload(sizing(1.5, 0.4), times(), 2.0)
    assert found is not None
    assert found.work == pytest.approx(1.5 * 2.0)
    read, count, last = found.stages
    assert (read.work, count.work) == (pytest.approx(0.75), pytest.approx(2.25))
    assert (count.undivided, last.single) == (pytest.approx(0.2), True)
    assert QuerySetup(4, 2, partitions=16).tasks(last) == 1
    assert found.stateful
    assert found.at_rate(200.0).work == pytest.approx(6.0)


def test_missing_measurements_give_no_workload() -> None:
    assert build_workload(sizing(None, 0.4), times(), 2.0) is None
    assert build_workload(sizing(1.5, None), times(), 2.0) is None
    assert build_workload(sizing(1.5, 0.4), times(None), 2.0) is None
    assert build_workload(sizing(1.5, 0.4), (), 2.0) is None


@pytest.mark.parametrize("wrong", [{"executors": 0}, {"cores": 0}, {"partitions": 0}, {"trigger_seconds": -1.0}])
def test_an_invalid_setup_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        QuerySetup(**{"executors": 1, "cores": 1, **wrong})  # type: ignore[arg-type]
