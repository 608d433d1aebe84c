from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.jobs import load_file, load_generator
from autotrascale.execute.spark.jobs.load_file import QueryLoad, SourceLoad
from autotrascale.execute.spark.jobs.load_generator import LoadReader
from autotrascale.execute.spark.jobs.rate_schedule import RateSchedule, constant_schedule

rates = st.floats(0, 5000)
schedules = st.lists(st.tuples(st.floats(0.001, 20), rates), max_size=6).map(
    lambda pieces: RateSchedule(
        tuple(
            (float(at), rate)
            for at, rate in zip(
                np.cumsum([0.0, *(width for width, _ in pieces)]), [100.0, *(rate for _, rate in pieces)], strict=True
            )
        )
    )
)


def begun(schedule: RateSchedule, at: int = 0) -> SourceLoad:
    """Return a load without priming."""
    return SourceLoad.priming(0.0, batches=0, least=1).begun(schedule, now_ms=at)


def test_a_constant_rate_gives_rate_times_time() -> None:
    assert constant_schedule(250.0).arrived(4.0) == 1000.0


def test_a_ramp_gives_the_triangle_under_it_and_holds_its_last_rate() -> None:
    ramp = RateSchedule(((0.0, 0.0), (10.0, 100.0)))
    assert ramp.arrived(10.0) == pytest.approx(500.0)
    assert ramp.arrived(12.0) == pytest.approx(700.0)


def test_two_points_at_one_time_are_a_step() -> None:
    step = RateSchedule(((0.0, 10.0), (5.0, 10.0), (5.0, 1000.0)))
    assert step.rate(4.999) == 10.0
    assert step.rate(5.0) == 1000.0
    assert step.arrived(6.0) == pytest.approx(1050.0)


@settings(deadline=None)
@given(schedules, st.floats(0, 100), st.floats(0, 100))
def test_arrivals_never_go_back(schedule: RateSchedule, one: float, other: float) -> None:
    early, late = sorted((one, other))
    assert schedule.arrived(early) <= schedule.arrived(late) + 1e-6


@settings(deadline=None)
@given(schedules)
def test_the_integral_is_that_of_the_rate(schedule: RateSchedule) -> None:
    end = schedule.points[-1][0] + 1.0
    grid = np.linspace(0, end, 4001)
    middle = [schedule.rate(float(t)) for t in (grid[1:] + grid[:-1]) / 2]
    by_hand = math.fsum(middle) * end / 4000
    assert float(schedule.arrived(end)) == pytest.approx(by_hand, rel=0.02, abs=1.0)


@pytest.mark.parametrize("points", [(), ((1.0, 5.0),), ((0.0, 5.0), (3.0, 1.0), (2.0, 1.0)), ((0.0, -1.0),)])
def test_what_is_no_schedule_is_refused(points: tuple[tuple[float, float], ...]) -> None:
    with pytest.raises(InputError):
        RateSchedule(points)


@settings(deadline=None)
@given(schedules, st.lists(st.integers(0, 20_000), min_size=2, max_size=8))
def test_slices_of_a_load_are_exact_however_it_is_cut(schedule: RateSchedule, cuts: list[int]) -> None:
    source = begun(schedule)
    cuts = sorted(cuts)
    together = sum(len(source.arrivals(a, b)[1]) for a, b in pairwise(cuts))
    assert together == len(source.arrivals(cuts[0], cuts[-1])[1])


def test_records_of_a_slice_arrive_within_it_and_are_numbered_on() -> None:
    source = begun(constant_schedule(1000.0))
    first, arrivals = source.arrivals(100, 103)
    assert first == 100
    assert arrivals.tolist() == [100, 101, 102]


def test_priming_offers_one_small_batch_after_another_up_to_its_limit() -> None:
    source = SourceLoad.priming(rate=1000.0, batches=2, least=4)
    assert source.latest_ms(0, now_ms=10**12) == 50
    assert source.latest_ms(50, now_ms=10**12) == 100
    assert source.latest_ms(100, now_ms=10**12) == 100
    assert source.limit_count == 100
    assert source.primed_further().latest_ms(100, now_ms=10**12) == 150


@pytest.mark.parametrize("rate", [0.0, 0.1, 10.0])
def test_priming_has_a_record_for_every_instance_however_low_the_rate(rate: float) -> None:
    source = SourceLoad.priming(rate, batches=3, least=8)
    assert [int(source.count(ms)) for ms in (0, 50, 100, 150)] == [0, 8, 16, 24]


def test_the_load_begins_where_priming_ended() -> None:
    source = SourceLoad.priming(10.0, batches=2, least=8).begun(constant_schedule(1000.0), now_ms=70_000)
    assert source.latest_ms(100, now_ms=70_000) == 100
    assert source.latest_ms(100, now_ms=70_250) == 350
    assert source.count(350) - source.count(100) == 250


def test_a_load_that_has_begun_follows_the_clock_and_waits_for_nobody() -> None:
    source = begun(constant_schedule(1000.0), at=5_000)
    assert source.latest_ms(0, now_ms=5_250) == 250
    assert source.latest_ms(0, now_ms=65_000) == 60_000


def test_a_held_load_offers_nothing_new_and_loses_nothing() -> None:
    source = begun(constant_schedule(1000.0), at=5_000).held(6_000)
    assert source.latest_ms(500, now_ms=9_000) == 1_000
    assert source.limit_count == 1_000
    assert source.released().latest_ms(1_000, now_ms=9_000) == 4_000


def test_a_change_of_rate_leaves_earlier_offsets_their_meaning() -> None:
    source = begun(constant_schedule(1000.0))
    changed = source.changed(constant_schedule(10.0), now_ms=2_000)
    assert changed.arrivals(500, 600)[1].tolist() == source.arrivals(500, 600)[1].tolist()
    assert changed.count(2_000) == 2_000
    assert changed.count(3_000) == 2_010


def test_the_load_file_keeps_everything(tmp_path: Path) -> None:
    source = begun(RateSchedule(((0.0, 5.0), (2.0, 7.5))), at=77).held(99)
    load_file.write_load(QueryLoad({"source": source}), tmp_path / "load.json")
    assert load_file.read_load(tmp_path / "load.json") == QueryLoad({"source": source})


def reader(source: SourceLoad, folder: Path) -> LoadReader:
    load_file.write_load(QueryLoad({"source": source}), folder / "load.json")
    schema = StructType([StructField("n", LongType()), StructField("ts", TimestampType())])
    options = {"file": str(folder / "load.json"), "source": "source", "partitions": "2"}
    return LoadReader(options, schema, lambda numbers: [numbers])


def stamps(source: SourceLoad, start: int, end: int, folder: Path) -> list[int]:
    """Return the arrival times of a batch in Unix milliseconds."""
    reads, before, after = reader(source, folder), {"ms": start, "n": 0}, {"ms": end, "n": 0}
    batches = (batch for part in reads.partitions(before, after) for batch in reads.read(part))
    return [round(at.timestamp() * 1000) for batch in batches for at in batch.column("ts").to_pylist()]


def test_no_record_comes_from_the_future_while_priming_or_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watermark from the future would close windows that are still open."""
    monkeypatch.setattr(load_generator, "_now_ms", lambda: 700_000)
    primes = SourceLoad.priming(100.0, batches=3, least=8)
    for start in (0, 50, 100):
        primed = stamps(primes, start, start + 50, tmp_path)
        assert 700_000 - 50 <= min(primed) <= max(primed) < 700_000
    loaded = primes.begun(constant_schedule(1000.0), now_ms=700_000)
    assert min(stamps(loaded, 150, 250, tmp_path)) == 700_000
