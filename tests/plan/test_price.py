"""The price of a rescale: dearer ones are worth it less often, and plan further ahead; free ones follow the load."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.domain.observation import RescaleTime
from autotrascale.plan.control.autoscaling.autoscaling_memory import AutoscalingMemory
from autotrascale.plan.control.autoscaling.rescale_price import (
    MAX_CONFIDENCE,
    RescalePrice,
    Saving,
    format_instance_time,
)

SECONDS = st.floats(0.0, 1000.0)
TIMES = st.builds(RescaleTime, SECONDS, SECONDS)
WORTH = st.floats(0.0, 600.0)
BUSY = st.floats(0.0, 1.2)
PRICES = st.builds(RescalePrice, TIMES, WORTH, BUSY)
INSTANCES = st.integers(1, 500)


@st.composite
def savings(draw: st.DrawFn) -> tuple[Saving, list[int]]:
    """A job that is to have less, or other instances; and what of it is given back."""
    running = draw(st.lists(st.integers(1, 12), min_size=1, max_size=5))
    wanted = [draw(st.integers(1, 14)) for _ in running]
    rate, memory = draw(st.floats(1.0, 1e4)), draw(st.floats(0.0, 1e4))
    saving = Saving.estimate(draw(PRICES), running, wanted, rate, lambda higher: memory * higher / rate)
    return saving, [own - k for own, k in zip(running, wanted, strict=True)]


@given(PRICES, BUSY, BUSY)
def test_the_price_grows_with_how_busy_the_job_is_left_and_is_never_less_than_the_standstill(
    price: RescalePrice, one: float, other: float
) -> None:
    idle, busy = (price.at(each) for each in sorted((one, other)))
    taken = price.expected
    assert taken.standstill_seconds <= idle.late_seconds <= busy.late_seconds
    least = price.late_worth * taken.standstill_seconds + taken.overlap_seconds
    assert least <= idle.job_seconds <= busy.job_seconds


@given(PRICES, SECONDS, SECONDS)
def test_less_costs_what_records_were_late_after_it_too(price: RescalePrice, one: float, other: float) -> None:
    seldom, often = (price.for_scale_down(each) for each in sorted((one, other)))
    assert price.job_seconds == price.for_scale_down(0.0).job_seconds <= seldom.job_seconds <= often.job_seconds
    added = often.job_seconds - price.job_seconds
    assert added == pytest.approx(price.late_worth * max(one, other), rel=1e-6, abs=1e-6)
    assert often.at(price.busy) == often


@given(st.lists(st.tuples(st.booleans(), st.floats(0.0, 3600.0))))
def test_what_followed_scale_downs_is_remembered_and_fades(history: list[tuple[bool, float]]) -> None:
    memory, most = AutoscalingMemory(), 0.0
    for down, late in history:
        memory = replace(memory, late_seconds=memory.late_seconds + late)
        most, before = max(most, memory.late_seconds), memory
        memory = memory.record_rescale((4,), (3,) if down else (5,), 0.0)
        assert 0.0 <= memory.mean_late_seconds <= most
        if down:
            assert (memory.mean_late_seconds - before.mean_late_seconds) * (
                before.late_seconds - before.mean_late_seconds
            ) >= 0
        assert (memory.late_seconds, memory.mean_late_seconds) == (
            (0.0, memory.mean_late_seconds) if down else (before.late_seconds, before.mean_late_seconds)
        )


@given(st.floats(0.0, 100.0), st.floats(0.0, 0.98), st.floats(1.0, 1e4))
def test_late_is_until_what_came_in_meanwhile_is_worked_off(stop: float, busy: float, capacity: float) -> None:
    rate, late = busy * capacity, RescalePrice(RescaleTime(stop), 1.0, busy).late_seconds
    assert rate * late == pytest.approx(capacity * (late - stop))  # what came until then, and what was carried


@given(savings())
def test_a_change_is_taken_where_its_instances_save_together_what_it_costs(case: tuple[Saving, list[int]]) -> None:
    saving, given_back = case
    alone = [own for own, n in zip(saving.unneeded, given_back, strict=True) if n > 0]
    longest = max((stay for own in alone for stay in own), default=0.0)
    added = -sum(n for n in given_back if n < 0)
    saves = sum(map(sum, alone)) - added * longest
    assert saving.saved(given_back) == pytest.approx(saves, rel=1e-9, abs=1e-6)
    costs = saving.price.instance_seconds(saving.running)
    assert saving.pays(given_back) == (saving.saved(given_back) > 0 and saving.saved(given_back) >= costs)


@given(savings())
def test_one_instance_that_was_long_too_much_is_not_hidden_by_one_that_was_not(case: tuple[Saving, list[int]]) -> None:
    """Whoever waits for the last of them to have been spare for long gives each back later than it is worth."""
    saving, given_back = case
    if min(given_back) < 0 or sum(given_back) == 0:
        return
    last = min(stay for own in saving.unneeded for stay in own)
    assert saving.saved(given_back) >= sum(given_back) * last * (1 - 1e-9)
    for i in range(len(given_back)):  # nor one operator by another
        alone = [n if j == i else 0 for j, n in enumerate(given_back)]
        assert saving.saved(alone) <= saving.saved(given_back) * (1 + 1e-9)


@given(savings(), st.floats(0.0, 1.0))
def test_what_is_given_back_for_a_dear_change_is_given_back_for_a_cheaper(
    case: tuple[Saving, list[int]], part: float
) -> None:
    saving, given_back = case
    taken, price = saving.price.expected, saving.price
    less = RescaleTime(part * taken.standstill_seconds, part * taken.overlap_seconds)
    cheaper = replace(saving, price=replace(price, expected=less))
    assert cheaper.pays(given_back) or not saving.pays(given_back)


@given(savings())
def test_what_gives_nothing_back_saves_nothing(case: tuple[Saving, list[int]]) -> None:
    saving, given_back = case
    if sum(given_back) <= 0:
        assert saving.saved(given_back) <= 1e-6
        assert not saving.pays(given_back) or saving.price.job_seconds == 0


@given(PRICES, SECONDS, SECONDS, INSTANCES, st.floats(0.0, 1e7), st.floats(1e-9, 1e-2))
def test_a_dearer_rescale_is_never_worth_it_where_a_cheaper_is_not(
    price: RescalePrice, stop: float, both: float, running: int, saved: float, growth: float
) -> None:
    taken = price.expected
    dearer = replace(price, expected=RescaleTime(taken.standstill_seconds + stop, taken.overlap_seconds + both))
    assert price.pays(saved, running) or not dearer.pays(saved, running)
    assert price.horizon(growth, 300.0, 3600.0) <= dearer.horizon(growth, 300.0, 3600.0)


@given(PRICES, PRICES, st.floats(0.0, 1.0))
def test_the_cheaper_a_rescale_is_the_surer_it_must_be(one: RescalePrice, other: RescalePrice, asked: float) -> None:
    cheap, dear = sorted((one, other), key=lambda price: price.job_seconds)
    assert asked <= dear.required_confidence(asked) <= cheap.required_confidence(asked) <= max(asked, MAX_CONFIDENCE)


def test_what_was_asked_for_holds_for_ten_seconds_in_place() -> None:
    assert RescalePrice(RescaleTime(10.0), 20.0).required_confidence(0.75) == pytest.approx(0.75)
    assert RescalePrice(RescaleTime(0.2, 10.0), 20.0).required_confidence(0.75) == 0.95


@given(WORTH, INSTANCES, st.floats(1e-6, 1e7), st.floats(-1e-2, 1e-2))
def test_a_free_rescale_follows_the_load(worth: float, running: int, saved: float, growth: float) -> None:
    free = RescalePrice(RescaleTime(0.0), worth)
    assert free.pays(saved, running)
    assert not free.pays(0.0, running)  # what saves nothing is no reason to touch a job
    assert free.horizon(growth, 300.0, 3600.0) == 300.0


@given(PRICES, INSTANCES, st.floats(0.0, 1e6), st.floats(1.0, 10.0))
def test_what_is_worth_it_stays_so_when_it_saves_more(
    price: RescalePrice, running: int, saved: float, more: float
) -> None:
    assert price.pays(saved * more, running) or not price.pays(saved, running)


@given(st.floats(0.1, 100.0), st.floats(1e-6, 1e-3), st.floats(0.1, 10.0))
def test_the_horizon_is_the_cheapest_there_is(stop: float, growth: float, other: float) -> None:
    """p/H for the changes, and g·H/2 for what stands idle until the rate is there."""
    price = RescalePrice(RescaleTime(stop), 60.0)

    def costs(horizon: float) -> float:
        return price.job_seconds / horizon + growth * horizon / 2

    best = price.horizon(growth, 0.0, 1e12)
    assert costs(best) <= costs(best * other) * (1 + 1e-9)


def test_what_a_change_costs_is_told_in_words() -> None:
    price = RescalePrice(RescaleTime(0.2, 10.0), 60.0)
    assert price.job_seconds == pytest.approx(46.0)  # 0.6 s late, at a minute of the job each, and 10 s
    saving = Saving(price, 10, ((2400.0, 1200.0),))
    paying, little = saving.explain((2,)), replace(saving, unneeded=((60.0,),)).explain((1,))
    assert paying.code == little.code == "price"
    assert paying.numbers["saved_instance_seconds"] == 3600.0
    assert paying.numbers["price_instance_seconds"] == pytest.approx(460.0)
    for shown in ("200 ms", "600 ms", "10.00 s", "7.67 instance-minutes", "60 instance-minutes"):
        assert shown in paying.text
    assert "too little" in little.text
    assert "too little" not in paying.text
    late = price.for_scale_down(40.0).describe(10)
    assert "40.00 s" in late
    assert "6.8 instance-hours" in late
    assert "20 min" in price.explain_horizon(1200.0, 10).text


@pytest.mark.parametrize(("seconds", "says"), [(60.0, "1 instance-minutes"), (9000.0, "2.5 instance-hours")])
def test_instance_times_are_read_at_a_glance(seconds: float, says: str) -> None:
    assert format_instance_time(seconds) == says


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_times_that_cannot_be_are_refused(wrong: float) -> None:
    with pytest.raises(InputError, match="standstill_seconds"):
        RescaleTime(wrong)
    with pytest.raises(InputError, match="overlap_seconds"):
        RescaleTime(1.0, wrong)
