"""Fixed costs of tasks are separated from the costs of their records."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.analyze.facts import BatchFact, StageFact, TaskFact
from autotrascale.analyze.task_costs import FEWEST, MOST, fit_task_costs, remove_task_costs
from autotrascale.analyze.unmarked_query import OPERATOR, RunningExecutor, take_query_snapshot
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.sizing.sizing import Sizing, size

TASKS, SECOND = 4, 1000


def batches(
    reads: list[list[int]], fixed: float, each: float, chance: random.Random | None = None, noise: float = 0.0
) -> list[BatchFact]:
    """Return a batch for each list of its tasks' records, one a second, of one stage on an executor of one core."""
    found = []
    for number, read in enumerate(reads):
        at = number * SECOND
        took = [fixed + each * n + (chance.gauss(0, noise) if chance else 0.0) for n in read]
        tasks = tuple(
            TaskFact(number, index, max(0, round(ms)), read=n, executor="0")
            for index, (n, ms) in enumerate(zip(read, took, strict=True))
        )
        stage = StageFact(number, "count", len(read), at + 10, at + 900)
        found.append(BatchFact(number, "r", at, 0.95, sum(read), 1.0, stages=(stage,), tasks=tasks))
    return found


def mixed(chance: random.Random, count: int, most: int) -> list[list[int]]:
    return [[chance.randint(0, most) for _ in range(TASKS)] for _ in range(count)]


@given(
    seed=st.integers(0, 2**32),
    fixed=st.integers(0, 200),
    each=st.integers(0, 100),
    count=st.integers(FEWEST, 40),
    most=st.integers(1, 30),
)
def test_the_fitted_cost_is_at_most_the_true_cost(seed: int, fixed: int, each: int, count: int, most: int) -> None:
    reads = mixed(random.Random(seed), count, most)
    seen = batches(reads, fixed, each)
    (cost,) = fit_task_costs(seen).values()
    total = sum(task.useful_ms or 0 for batch in seen for task in batch.tasks)
    told = max(0.0, min(fixed, MOST * total / (TASKS * count)))
    varied = len({n for read in reads for n in read}) > 1
    assert cost == pytest.approx(told if varied else 0.0, abs=1e-6)


@given(seed=st.integers(0, 2**32))
def test_noise_makes_it_less_sooner_than_more(seed: int) -> None:
    chance = random.Random(seed)
    found = [fit_task_costs(batches(mixed(chance, 30, 6), 80, 32, chance, 25.0))["count"] for _ in range(20)]
    assert sum(cost <= 80 for cost in found) >= 14
    assert max(found) <= 100
    far_from_none = [[chance.randint(100, 110) for _ in range(TASKS)] for _ in range(30)]
    assert fit_task_costs(batches(far_from_none, 80, 32, chance, 200.0))["count"] <= 900  # of some 3,400 ms


def test_few_or_equal_tasks_have_no_fixed_cost() -> None:
    assert fit_task_costs(batches([[1, 2, 3, 4]] * 2, 80, 32)) == {}
    assert fit_task_costs(batches([[5] * TASKS] * 30, 80, 32)) == {"count": 0.0}


def test_it_is_counted_once_as_work_or_beside_it() -> None:
    seen = batches(mixed(random.Random(3), 30, 6), 80, 32)
    kept, taken = remove_task_costs(seen, fit_task_costs(seen))
    before, after = (sum(task.useful_ms or 0 for batch in each for task in batch.tasks) for each in (seen, kept))
    assert (before - after) / 1000 == pytest.approx(taken)
    assert taken == pytest.approx(0.08 * TASKS * len(seen))
    assert remove_task_costs(seen, {}) == (seen, 0.0)


def test_the_load_is_that_of_the_records_and_a_batch_costs_the_rest() -> None:
    seen = batches(mixed(random.Random(3), 30, 6), 80, 32)
    there = {"0": RunningExecutor("0", "h", 1)}

    def of(shot: Snapshot | None) -> tuple[float, float]:
        assert shot is not None
        sized = size(shot)
        assert isinstance(sized, Sizing)
        assert shot.operators[OPERATOR].parallelism == 1
        return sized.load[0] or 0.0, (shot.overhead_share or 0.0) * (shot.batch_seconds or 0.0)

    load, beside = of(take_query_snapshot("q", seen, there, 4, costs=fit_task_costs(seen)))
    whole, less = of(take_query_snapshot("q", seen, there, 4))
    rate = sum(batch.input_records or 0 for batch in seen) / len(seen)
    assert load == pytest.approx(0.032 * rate)
    assert whole == pytest.approx(load + 0.08 * TASKS)
    assert beside == pytest.approx(less + 0.08 * TASKS)
