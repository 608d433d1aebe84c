from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.plan.control.clock import MAX_GAP_SECONDS, Clock
from autotrascale.plan.control.observations.lagged_correlation import find_best_lag
from autotrascale.plan.control.observations.slow_services import ServiceLatencyHistory

WAVE = [0.0, 1.0, 5.0, 9.0, 5.0, 1.0, 0.0, 0.0, 2.0, 7.0, 3.0, 0.0]


@pytest.mark.parametrize("lag", range(4))
def test_the_lag_by_which_one_series_follows_another_is_found(lag: int) -> None:
    found = find_best_lag([0.0] * lag + WAVE[: len(WAVE) - lag], WAVE)
    assert found is not None
    assert found.lag == lag
    assert found.correlation == pytest.approx(1.0)


def test_too_little_or_nothing_that_moves_says_nothing() -> None:
    assert find_best_lag([1.0, 2.0], [1.0, 2.0]) is None
    assert find_best_lag([5.0] * 20, WAVE + WAVE) is None


@given(st.lists(st.floats(0, 1e6), min_size=6, max_size=30), st.floats(0.1, 10), st.floats(0, 100))
def test_neither_unit_nor_offset_matters(series: list[float], factor: float, offset: float) -> None:
    whole = [round(x) for x in series]
    one, two = find_best_lag(whole, whole, 0), find_best_lag([x * factor + offset for x in whole], whole, 0)
    if one is not None and two is not None:
        assert two.correlation == pytest.approx(one.correlation, abs=1e-3)


def test_a_service_that_is_not_slow_is_not_blamed() -> None:
    services = ServiceLatencyHistory()
    for backlog in WAVE:
        services = services.add(backlog, {"quick": 1.0 + backlog / 1000})
    assert services.find_slow_service() is None


def test_a_slow_service_is_named_with_its_lag() -> None:
    services = ServiceLatencyHistory()
    for before, latency in zip([0.0, *WAVE[:9]], WAVE[:10], strict=True):
        services = services.add(before, {"slow": 0.1 + latency})
    reason = services.find_slow_service()
    assert reason is not None
    assert (reason.code, reason.numbers["service"], reason.numbers["lag"]) == ("hold-external", "slow", 1)


def test_without_services_nothing_is_kept() -> None:
    assert ServiceLatencyHistory().add(5.0, {}) == ServiceLatencyHistory()
    assert ServiceLatencyHistory().add(None, {"a": 1.0}) == ServiceLatencyHistory()


@given(st.lists(st.one_of(st.floats(-1e6, 1e6), st.floats()), max_size=50))
def test_the_clocks_of_the_loop_never_go_back_and_always_go_on(readings: list[float]) -> None:
    clock = Clock()
    for reading in readings:
        later, _ = clock.tick(reading, 30.0)
        assert later.now >= clock.now
        assert later.now - clock.now <= 600.0
        assert clock.passed <= later.passed <= clock.passed + MAX_GAP_SECONDS
        clock = later
    if clock.read is not None and abs(clock.read) < 1e12:
        assert clock.tick(clock.read + 30.0, 30.0)[0].passed > clock.passed
        days = clock.tick(clock.read + 3 * 86_400.0, 30.0)[0]
        assert days.passed >= clock.passed + 3 * 86_400.0 - 1.0
