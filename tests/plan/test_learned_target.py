from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.plan.sizing.learned_target import MARGIN, BatchLatency, learn_target

latencies = st.lists(st.floats(1.0, 1.9), min_size=120, max_size=360)


def every_ten_seconds(held: list[float], since: float = 0.0) -> list[BatchLatency]:
    return [BatchLatency(since + 10.0 * at, latency) for at, latency in enumerate(held)]


@given(latencies)
def test_the_target_is_the_latency_held_for_95_percent_of_the_hour_plus_a_margin(held: list[float]) -> None:
    batches = every_ten_seconds(held)
    target = learn_target(batches, batches[-1].at + 10.0)
    within = sum(latency * (1 + MARGIN) <= target.latency_seconds * (1 + 1e-9) for latency in held)
    assert within >= 0.95 * len(held) - 1
    assert target.latency_seconds <= max(held) * (1 + MARGIN) * 1.1
    assert target.statistic == "mean"


@given(latencies, st.floats(1.5, 10.0))
def test_slower_batches_raise_the_target_in_proportion(held: list[float], factor: float) -> None:
    slow = every_ten_seconds([latency * factor for latency in held])
    fast = every_ten_seconds(held)
    now = fast[-1].at + 10.0
    ratio = learn_target(slow, now).latency_seconds / learn_target(fast, now).latency_seconds
    assert ratio == pytest.approx(factor, rel=0.12), "but for rounding to two digits"


def test_a_restart_does_not_raise_the_target_and_a_long_slow_phase_does() -> None:
    usual = [2.0] * 350
    assert learn_target(every_ten_seconds([*usual[:-5], *[40.0] * 5, 2.0, 2.0]), 3520.0).latency_seconds == 2.4
    assert learn_target(every_ten_seconds([*usual[:150], *[40.0] * 30, *usual[180:]]), 3500.0).latency_seconds == 48.0


def test_a_batch_is_weighted_by_its_duration() -> None:
    batches = [*every_ten_seconds([2.0] * 100), BatchLatency(1000.0, 90.0), *every_ten_seconds([2.0] * 30, 1100.0)]
    assert learn_target(batches, 1400.0).latency_seconds > 90.0


def test_only_the_last_hour_counts() -> None:
    batches = every_ten_seconds([50.0] * 400 + [2.0] * 370)
    assert learn_target(batches, 7700.0).latency_seconds == 2.4


@pytest.mark.parametrize(
    ("batches", "now", "says"),
    [
        ([], 0.0, "0 batches in 0 ms"),
        (every_ten_seconds([2.0]), 5.0, "1 batch in 5.00 s"),
        (every_ten_seconds([2.0] * 30), 300.0, "30 batches in 300 s"),
        ([BatchLatency(100.0 * at, 2.0) for at in range(12)], 1200.0, "12 batches in 1,200 s"),
        (every_ten_seconds([1.0 + at for at in range(100)]), 1000.0, "latency grew from 13.00 s to 88.00 s"),
        (every_ten_seconds([0.0] * 100), 1000.0, "no batch of the last hour had records"),
    ],
)
def test_too_few_batches_are_refused_in_one_line(batches: list[BatchLatency], now: float, says: str) -> None:
    with pytest.raises(InputError) as caught:
        learn_target(batches, now)
    assert says in str(caught.value)
    assert "--target" in str(caught.value)
    assert "\n" not in str(caught.value)
