"""How the bench of a day's load reads what its program reported."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.app.program_file import read_program_file
from benchmarks.quality.executors.day import Batch, Day, count_differences, latencies, mean_latency
from benchmarks.quality.executors.program import CUSTOMERS
from benchmarks.quality.executors.variants import Wanted, job_file

WIDTH = 10.0


@given(
    takes=st.lists(st.floats(0.5, 30.0), min_size=1, max_size=40), each=st.integers(1, 1000), shift=st.floats(0.0, 5.0)
)
def test_windows_together_say_what_the_day_says(takes: list[float], each: int, shift: float) -> None:
    """One batch after another, each of the input of as long as the one before took."""
    found, at = [], -shift
    for took in takes:
        found.append(Batch(at + 2 * took, took, each, at, at + took))
        at += took
    count = max(1, int(at / WIDTH))
    windows = latencies(found, 0.0, WIDTH * count, WIDTH)
    assert len(windows) == count
    known = [latency for latency in windows if latency is not None]
    whole = mean_latency(found, 0.0, WIDTH * count)
    if at > 0.1:
        assert whole is not None
        assert min(known) - 1e-6 <= whole <= max(known) + 1e-6
        assert all(0 < latency <= 2 * max(takes) + 1e-6 for latency in known)


def test_a_record_is_late_in_the_window_in_which_it_arrived() -> None:
    quick, late = Batch(6.0, 1.0, 50, 0.0, 5.0), Batch(40.0, 20.0, 50, 5.0, 15.0)
    first, second, third = latencies([quick, late], 0.0, 30.0, WIDTH)
    assert first == pytest.approx((50 * 3.5 + 25 * 32.5) / 75)
    assert second == pytest.approx(27.5)
    assert third is None


@given(records=st.integers(0, 500), lost=st.integers(0, CUSTOMERS - 1), doubled=st.integers(0, CUSTOMERS - 1))
def test_what_is_missing_and_what_is_there_twice_is_counted(records: int, lost: int, doubled: int) -> None:
    counts = Counter(number % CUSTOMERS for number in range(records))
    assert count_differences(counts, records) == (0, 0)
    counts[doubled] += 2
    assert count_differences(counts, records) == (0, 2)
    if lost != doubled and counts[lost]:
        counts[lost] -= 1
        assert count_differences(counts, records) == (1, 2)


def test_the_day_is_lowest_at_its_ends_and_the_night_around_it_too() -> None:
    day = Day(600.0, low=8.0, high=80.0, wait_ms=32, seed=3)
    rates = [day.rate(at) for at in range(-60, 660, 5)]
    assert max(rates) == max(rates[60:84])  # about noon
    assert day.rate(-5.0) == day.rate(0.0)
    assert rates[0] == pytest.approx(day.low, rel=0.25)
    assert max(rates) == pytest.approx(day.high, rel=0.25)


def test_its_job_file_is_one_that_a_program_may_have(tmp_path: Path) -> None:
    path = tmp_path / "calls.yaml"
    path.write_text(job_file(Wanted(4, target=6.0, night=60.0, price=0.12)))
    file = read_program_file(path)
    assert file.target is not None
    assert (file.target.latency_seconds, file.program.executors.maximum, file.program.price) == (6.0, 4, 0.12)
