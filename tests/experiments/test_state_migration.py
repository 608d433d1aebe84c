"""State migration in bins: laws of moves and plans, and the shapes of the thesis' figures."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.state_migration.bins import Move, list_moves, rebalance, spread_bins
from experiments.state_migration.measure import PLANS, half_gives_half
from experiments.state_migration.plans import count_least_steps, plan_all_at_once, plan_batched, plan_fluid
from experiments.state_migration.simulator import MigratingWorkers, MigrationShape, simulate

workers = st.integers(1, 9)
migrations = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 6), st.sampled_from([1.0, 2.0, 50.0])), max_size=60
).map(lambda drawn: [Move(b, giver, taker + 7, size) for b, (giver, taker, size) in enumerate(drawn)])


@given(st.integers(1, 200), workers, workers)
def test_fewest_bins_move_and_shares_are_even(bins: int, before: int, after: int) -> None:
    old = spread_bins(bins, before)
    new = rebalance(old, after)
    shares = Counter(new)
    assert set(new) <= set(range(after))
    assert max(shares.values()) - min(shares[w] for w in range(after)) <= 1
    moved = list_moves(old, new, [1.0] * bins)
    # In an even configuration each worker keeps at most its share of its bins.
    least, larger = divmod(bins, after)
    had = sorted((Counter(old)[w] for w in range(after)), reverse=True)
    assert bins - len(moved) == sum(min(count, least + (at < larger)) for at, count in enumerate(had))
    assert rebalance(new, after) == new


@given(migrations)
def test_a_batched_plan_has_no_conflict_and_the_fewest_steps(wanted: list[Move]) -> None:
    plan = plan_batched(wanted)
    assert Counter(move for step in plan for move in step) == Counter(wanted)
    for step in plan:
        assert len({move.giver for move in step}) == len({move.taker for move in step}) == len(step)
    assert len(plan) == count_least_steps(wanted)


@given(migrations, st.floats(0, 0.9))
def test_smaller_steps_lower_latency_and_memory_and_raise_duration(wanted: list[Move], utilisation: float) -> None:
    machine = MigratingWorkers(0.01, 10.0, utilisation)
    once, some, one = (simulate(make(wanted), machine) for make in (plan_all_at_once, plan_batched, plan_fluid))
    assert once.duration <= some.duration + 1e-9
    assert some.duration <= one.duration + 1e-9
    assert once.in_flight >= some.in_flight >= one.in_flight
    if not wanted:
        assert once == some == one == MigrationShape()


def shapes(bins: int, state_bytes: float) -> dict[str, MigrationShape]:
    moves = half_gives_half(bins, state_bytes)
    return {name: simulate(plan(moves), MigratingWorkers()) for name, plan in PLANS.items()}


def test_more_bins_lower_the_latency_of_fluid_and_batched_migration() -> None:
    """Figure 5.15."""
    few, many = shapes(2**4, 8e9), shapes(2**12, 8e9)
    assert many["all-at-once"] == few["all-at-once"]
    for name in ("batched", "fluid"):
        assert many[name].latency < few[name].latency / 10
    assert many["fluid"].latency < many["all-at-once"].latency / 10
    # Each step has a fixed cost, and batched migration has fewer steps.
    assert many["batched"].duration < many["fluid"].duration
    assert few["batched"].duration < 1.05 * few["all-at-once"].duration


def test_latency_duration_and_memory_grow_in_proportion_to_the_state() -> None:
    """Figure 5.16."""
    small, large = shapes(2**8, 8e9), shapes(2**8, 80e9)
    for name in small:
        assert large[name].latency == pytest.approx(10 * small[name].latency, rel=0.6)
        assert large[name].duration == pytest.approx(10 * small[name].duration, rel=0.6)
        assert large[name].in_flight == pytest.approx(10 * small[name].in_flight)


def test_with_constant_state_per_bin_only_all_at_once_waits_longer() -> None:
    """Figures 5.17 and 5.19."""
    small, large = shapes(2**6, 1e9), shapes(2**12, 64e9)
    for name in ("batched", "fluid"):
        assert large[name].latency == pytest.approx(small[name].latency, rel=0.5)
        assert large[name].duration > 30 * small[name].duration
        assert large[name].in_flight == pytest.approx(small[name].in_flight)
    assert large["all-at-once"].latency > 30 * small["all-at-once"].latency
    assert large["all-at-once"].in_flight > 30 * small["all-at-once"].in_flight
