from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.plan.control.autoscaling.rate_history import (
    MAX_WINDOWS,
    RateHistory,
    round_rate_to_grid,
    round_rate_up,
)


def heard(rates: list[float], every: float = 60.0) -> RateHistory:
    known = RateHistory()
    for i, rate in enumerate(rates):
        known = known.add((i + 1) * every, every, rate)
    return known


def test_a_steady_rate_needs_itself_and_the_headroom() -> None:
    assert heard([100.0] * 30).need(1800.0, 0.1) == pytest.approx(110.0)


def test_a_rising_rate_is_followed_to_the_horizon_and_no_further_than_allowed() -> None:
    rising = heard([100.0 + i for i in range(30)])
    now = 30 * 60.0
    assert rising.ahead(now, 600.0, 0.0, most=2.0) == pytest.approx(139.0, rel=0.01)
    assert rising.ahead(now, 36_000.0, 0.0, most=1.5) == pytest.approx(1.5 * rising.need(now, 0.0))


def test_a_falling_rate_needs_what_it_is_now() -> None:
    falling = heard([200.0 - i for i in range(30)])
    assert falling.ahead(1800.0, 3600.0, 0.0, most=2.0) == falling.need(1800.0, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_no_trend(seed: int) -> None:
    rng = random.Random(seed)
    known, now = RateHistory(), 0.0
    for _ in range(300):
        now += 30.0
        known = known.add(now, 30.0, 100.0 * rng.lognormvariate(0, 0.03))
        assert known.ahead(now, 3600.0, 0.0, most=3.0) < 115.0


def test_a_jump_is_looked_at_twice_and_begins_a_line_of_its_own() -> None:
    known = heard([100.0] * 20).add(1260.0, 60.0, 130.0)
    assert known.jumped
    known = known.add(1320.0, 60.0, 160.0)
    assert not known.jumped
    assert known.need(1320.0, 0.0) == pytest.approx(160.0)
    assert known.recent_need(1320.0, 600.0, 0.0) == pytest.approx(160.0)


def test_a_spike_that_is_over_counts_for_a_while() -> None:
    known = heard([100.0] * 20 + [130.0, 160.0, 160.0, 120.0] + [100.0] * 5)
    now = 29 * 60.0
    assert known.recent_need(now, 600.0, 0.0) == pytest.approx(160.0)
    assert known.recent_need(now, 240.0, 0.0) < 130.0


def test_short_looks_become_windows_and_no_more_are_kept_than_needed() -> None:
    known = heard([100.0] * 2000, every=10.0)
    assert len(known.windows) <= MAX_WINDOWS
    assert known.windows[-1].seconds > 10.0


@given(st.floats(1e-3, 1e9), st.floats(1.01, 2.0))
def test_the_grid_of_rates_covers_every_rate_by_less_than_a_step(rate: float, step: float) -> None:
    above = round_rate_up(rate, step)
    assert rate * (1 - 1e-6) <= above <= rate * step * (1 + 1e-6)
    assert round_rate_up(above, step) == pytest.approx(above)
    assert abs(round_rate_to_grid(rate, step) / rate - 1) <= step - 1 + 1e-9


SHORT = 20.0  # seconds of a horizon


@given(seed=st.integers(0, 1000), up=st.booleans())
def test_a_short_horizon_sees_a_ramp_within_seconds(seed: int, up: bool) -> None:
    rng = random.Random(seed)
    known, now = RateHistory(), 0.0
    for number in range(20):
        now += 4.0
        rate = 20.0 + 2.0 * number if up else 60.0 - 2.0 * number
        known = known.add(now, 4.0, rate * rng.lognormvariate(0.0, 0.02), SHORT)
    ahead, need = known.ahead(now, SHORT, 0.0, 2.0), known.need(now, 0.0)
    assert need == pytest.approx(rate, rel=0.12)
    assert (ahead > 1.08 * need) == up
    assert not known.jumped


@given(seed=st.integers(0, 1000))
def test_a_step_is_a_jump_for_a_short_horizon_too(seed: int) -> None:
    rng = random.Random(seed)
    known, now = RateHistory(), 0.0
    for rate in [20.0] * 12 + [40.0]:
        now += 4.0
        known = known.add(now, 4.0, rate * (1 + 0.01 * rng.gauss(0, 1)), SHORT)
    assert known.jumped
    for _ in range(12):
        now += 4.0
        known = known.add(now, 4.0, 40.0, SHORT)
    assert known.ahead(now, SHORT, 0.0, 2.0) == pytest.approx(40.0, rel=0.05)
