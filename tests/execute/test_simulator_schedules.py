"""Rate functions are pure and never negative."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.execute.simulator.rate_functions import (
    DAY,
    ConstantRate,
    Noisy,
    Ramp,
    RateFunction,
    RecordedRates,
    Sine,
    Spikes,
    SteppedRate,
    random_day,
)

ALL: list[RateFunction] = [
    ConstantRate(5.0),
    SteppedRate((0, 10, 20), (1, 5, 2)),
    RecordedRates((0, 10, 20), (1, 5, 2)),
    Ramp(10, 2, start=5, end=15),
    Sine(10, 10, period=60),
    Spikes(Sine(10, 5), (3, 30), height=4, width=5),
    Noisy(Sine(10, 5), sigma=0.3, seed=2),
    random_day(1, 100, 200),
]


@pytest.mark.parametrize("schedule", ALL, ids=lambda schedule: type(schedule).__name__)
@given(t=st.floats(-1e5, 1e6))
def test_the_same_moment_gives_the_same_rate_and_never_a_negative_one(schedule: RateFunction, t: float) -> None:
    assert schedule(t) == schedule(t) >= 0


def test_steps_hold_and_traces_join() -> None:
    steps, trace = SteppedRate((0, 10, 20), (1, 5, 2)), RecordedRates((0, 10, 20), (1, 5, 2))
    assert [steps(t) for t in (-1, 0, 9.9, 10, 25)] == [1, 1, 1, 5, 2]
    assert [trace(t) for t in (-1, 0, 5, 10, 15, 25)] == [1, 1, 3, 5, 3.5, 2]


def test_ramps_and_sines_reach_their_ends() -> None:
    ramp = Ramp(10, 2, start=5, end=15)
    assert [ramp(t) for t in (0, 5, 10, 15, 99)] == [10, 10, 6, 2, 2]
    sine = Sine(10, 4)
    assert [sine(t) for t in (0, DAY / 4, DAY / 2)] == pytest.approx([6, 10, 14])


def test_spikes_are_as_high_and_as_long_as_said() -> None:
    spikes = Spikes(ConstantRate(10), (3, 30), height=4, width=5)
    assert [spikes(t) for t in (2.9, 3, 7.9, 8, 30, 35)] == [10, 40, 40, 10, 40, 10]


def test_noise_has_mean_one_the_spread_asked_for_and_no_memory() -> None:
    factors = np.array([Noisy(ConstantRate(1.0), sigma=0.2, seed=4)(10.0 * i) for i in range(20_000)])
    logs = np.log(factors)
    assert factors.mean() == pytest.approx(1, abs=0.01)
    assert logs.std() == pytest.approx(0.2, rel=0.03)
    assert abs(np.corrcoef(logs[:-1], logs[1:])[0, 1]) < 0.03
    assert Noisy(ConstantRate(1.0), 0.2, seed=4)(0) != Noisy(ConstantRate(1.0), 0.2, seed=5)(0)


def test_days_differ_by_seed_and_stay_in_their_bounds_but_for_bursts() -> None:
    for seed in range(10):
        rates = np.array([random_day(seed, 100, 200, spikes=0, sigma=0.0)(60.0 * i) for i in range(1440)])
        assert 99.9 < rates.min() < 101
        assert 199 < rates.max() < 200.1
    assert random_day(1, 100, 200)(0) != random_day(2, 100, 200)(0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ConstantRate(-1),
        lambda: SteppedRate((), ()),
        lambda: SteppedRate((0, 1), (1,)),
        lambda: RecordedRates((0, 0), (1, 2)),
        lambda: RecordedRates((0, 1), (1, -2)),
        lambda: Ramp(1, 2, start=5, end=5),
        lambda: Sine(1, 2),
        lambda: Sine(1, 1, period=0),
        lambda: Spikes(ConstantRate(1), (5, 3), height=2, width=1),
        lambda: Noisy(ConstantRate(1), sigma=-0.1),
    ],
)
def test_what_cannot_be_a_schedule_is_refused(wrong: object) -> None:
    with pytest.raises(InputError):
        wrong()  # type: ignore[operator]
