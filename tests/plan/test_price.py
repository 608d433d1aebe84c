"""The price of a rescale: dearer ones are worth it less often, and plan further ahead; free ones follow the load."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.domain.look import RescaleTime
from autotrascale.plan.control.autoscaling.price import MOST_SURE, Price, instance_time

SECONDS = st.floats(0.0, 1000.0)
TIMES = st.builds(RescaleTime, SECONDS, SECONDS)
WORTH = st.floats(0.0, 600.0)
PRICES = st.builds(Price, TIMES, WORTH)
INSTANCES = st.integers(1, 500)


@given(PRICES, SECONDS, SECONDS, INSTANCES, st.floats(0.0, 1e7), st.floats(1e-9, 1e-2))
def test_a_dearer_rescale_is_never_worth_it_where_a_cheaper_is_not(
    price: Price, stop: float, both: float, running: int, saved: float, growth: float
) -> None:
    taken = price.expected
    dearer = Price(RescaleTime(taken.standstill_seconds + stop, taken.both_seconds + both), price.late_worth)
    assert price.pays(saved, running) or not dearer.pays(saved, running)
    assert price.horizon(growth, 300.0, 3600.0) <= dearer.horizon(growth, 300.0, 3600.0)


@given(PRICES, PRICES, st.floats(0.0, 1.0))
def test_the_cheaper_a_rescale_is_the_surer_it_must_be(one: Price, other: Price, asked: float) -> None:
    cheap, dear = sorted((one, other), key=lambda price: price.job_seconds)
    assert asked <= dear.confidence(asked) <= cheap.confidence(asked) <= max(asked, MOST_SURE)


def test_what_was_asked_for_holds_for_ten_seconds_in_place() -> None:
    assert Price(RescaleTime(10.0), 20.0).confidence(0.75) == 0.75
    assert Price(RescaleTime(0.2, 10.0), 20.0).confidence(0.75) == 0.95


@given(WORTH, INSTANCES, st.floats(1e-6, 1e7), st.floats(-1e-2, 1e-2))
def test_a_free_rescale_follows_the_load(worth: float, running: int, saved: float, growth: float) -> None:
    free = Price(RescaleTime(0.0), worth)
    assert free.pays(saved, running)
    assert not free.pays(0.0, running)  # what saves nothing is no reason to touch a job
    assert free.horizon(growth, 300.0, 3600.0) == 300.0


@given(PRICES, INSTANCES, st.floats(0.0, 1e6), st.floats(1.0, 10.0))
def test_what_is_worth_it_stays_so_when_it_saves_more(price: Price, running: int, saved: float, more: float) -> None:
    assert price.pays(saved * more, running) or not price.pays(saved, running)


@given(st.floats(0.1, 100.0), st.floats(1e-6, 1e-3), st.floats(0.1, 10.0))
def test_the_horizon_is_the_cheapest_there_is(stop: float, growth: float, other: float) -> None:
    """p/H for the changes, and g·H/2 for what stands idle until the rate is there."""
    price = Price(RescaleTime(stop), 60.0)

    def costs(horizon: float) -> float:
        return price.job_seconds / horizon + growth * horizon / 2

    best = price.horizon(growth, 0.0, 1e12)
    assert costs(best) <= costs(best * other) * (1 + 1e-9)


def test_what_a_change_costs_is_told_in_words() -> None:
    price = Price(RescaleTime(0.2, 10.0), 60.0)
    assert price.job_seconds == pytest.approx(46.0)  # 0.6 s late, at a minute of the job each, and 10 s
    reason = price.against(2, 1800.0, 10)
    assert reason.text == (
        "a change costs about 200 ms of standstill and 10.00 s of running twice, worth 7.67 instance-minutes;"
        " 2 less save 60 instance-minutes before the load is expected back"
    )
    assert price.against(1, 60.0, 10).text.endswith("1 less save 1 instance-minutes before the load is expected back:"
                                                    " too little")  # fmt: skip
    assert "for 20 min ahead" in price.ahead(1200.0, 10).text


@pytest.mark.parametrize(("seconds", "says"), [(60.0, "1 instance-minutes"), (9000.0, "2.5 instance-hours")])
def test_instance_times_are_read_at_a_glance(seconds: float, says: str) -> None:
    assert instance_time(seconds) == says


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_times_that_cannot_be_are_refused(wrong: float) -> None:
    with pytest.raises(InputError, match="standstill_seconds"):
        RescaleTime(wrong)
    with pytest.raises(InputError, match="both_seconds"):
        RescaleTime(1.0, wrong)
