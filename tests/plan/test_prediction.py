from __future__ import annotations

from dataclasses import replace

import pytest

from autotrascale.domain.target import Target
from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings, predict_at, predict_least, train_model
from autotrascale.plan.control.autoscaling.readings_by_rate import (
    MAX_AVERAGED_WINDOWS,
    MAX_CELLS,
    MAX_RUNS,
    ReadingsByRate,
    round_rate,
)
from autotrascale.plan.sizing.sizing import Sizing, Unsized, size
from benchmarks.workloads.case import Case
from benchmarks.workloads.presets import SPARK_STALLED, WORDCOUNT

SIZED = Sizing.of_loads((2, 3), (20, 20), (1.8, 2.7), rate=round_rate(100.0), execution="pipelined")


def known_sizing(sized: Sizing | Unsized) -> Sizing:
    assert isinstance(sized, Sizing)
    return sized


def measured(case: Case, k: tuple[int, ...], factor: float, known: ReadingsByRate = ReadingsByRate()) -> ReadingsByRate:  # noqa: B008
    """`known`, and one window of the case at `k` and `factor` times its rate."""
    rates = {name: rate * factor for name, rate in case.source_rates.items()}
    engine = SimulatorEngine(case.job, case.topology, p_max=case.p_max, seed=len(known.cells))
    snapshot = engine.run(case.topology.named(k), rates).snapshot
    assert snapshot is not None
    target = Target(case.latency_target)
    sized = known_sizing(size(snapshot, target, rate=round_rate(snapshot.target_rate)))
    return known.add(sized, k, snapshot.latency_seconds.mean)


def sized_for(case: Case, factor: float) -> Sizing:
    rates = {name: rate * factor for name, rate in case.source_rates.items()}
    engine = SimulatorEngine(case.job, case.topology, p_max=case.p_max)
    snapshot = engine.run(case.topology.named(case.floor), rates).snapshot
    assert snapshot is not None
    return known_sizing(size(snapshot, Target(case.latency_target), rate=round_rate(snapshot.target_rate)))


@pytest.mark.parametrize(("case", "k"), [(WORDCOUNT, (3, 3, 7, 6)), (SPARK_STALLED, (1, 7, 2, 1))])
def test_one_rate_foretells_a_higher_one(case: Case, k: tuple[int, ...]) -> None:
    """What met the target at half of the rate says what will at 80 %: few instances, and in truth within the target."""
    known = measured(case, k, 0.5, measured(case, k, 0.48))
    sized = sized_for(case, 0.8)
    found = predict_least(AutoscalingSettings(Target(case.latency_target)), known, (), sized)
    true = case.at_rate(sized.rate / case.rate)
    assert true is not None
    assert true.latency([found.k])[0] <= case.latency_target
    assert sum(found.k) <= 2 * sum(k)


def test_a_reading_of_the_same_rate_is_believed_most() -> None:
    known = ReadingsByRate().add(SIZED, (4, 6), 0.2)
    settings = AutoscalingSettings(Target(0.25))
    here = predict_at(settings, known, (), SIZED, (4, 6))
    assert here.latency(0.25) == pytest.approx(0.2, rel=0.1)
    assert here.sd < predict_at(settings, known, (), SIZED, (8, 3)).sd


def test_what_is_usual_keeps_the_operators_as_busy_as_they_were() -> None:
    known = ReadingsByRate().add(SIZED, (3, 4), 0.1)
    twice = Sizing.of_loads((3, 5), (20, 20), (2.7, 4.05), rate=SIZED.rate * 1.5, execution="pipelined")
    assert known.find_usual(twice, 0.25) == (5, 6)
    assert known.find_usual(twice, 0.05) is None  # it did not meet that target


def test_a_run_below_the_floor_that_carries_the_rate_lowers_the_floor() -> None:
    known = ReadingsByRate().add(SIZED, (1, 3), 0.3)
    cell = known.at(SIZED.rate)
    assert cell is not None
    assert cell.sizing.floor == (1, 3)


def test_a_run_below_the_floor_that_falls_behind_says_nothing() -> None:
    assert ReadingsByRate().add(SIZED, (1, 3), None) == ReadingsByRate()


def test_memory_is_bounded() -> None:
    known = ReadingsByRate()
    for i in range(2 * MAX_CELLS):
        sized = Sizing.of_loads((1, 1), (50, 50), (0.5, 0.5), rate=1.05**i, execution="pipelined")
        known = known.add(sized, (1 + i % 40, 2), 0.1)
    for i in range(3 * MAX_RUNS):
        known = known.add(SIZED, (2 + i % 18, 3 + i % 15), 0.1)
    assert len(known.cells) == MAX_CELLS
    assert all(len(cell.runs) <= MAX_RUNS for cell in known.cells)
    for _ in range(3 * MAX_AVERAGED_WINDOWS):
        known = known.add(SIZED, (5, 5), 0.1)
    cell = known.at(SIZED.rate)
    assert cell is not None
    assert cell.runs[-1].windows == MAX_AVERAGED_WINDOWS


def test_later_windows_replace_the_earlier_ones() -> None:
    known = ReadingsByRate()
    for latency in [0.1] * 10 + [0.3] * 60:
        known = known.add(SIZED, (5, 5), latency)
    cell = known.at(SIZED.rate)
    assert cell is not None
    assert cell.runs[0].latency == pytest.approx(0.3, rel=0.01)


def test_a_rate_is_a_benefit_model_for_the_library_and_carries_the_rates_around_it() -> None:
    faster = replace(SIZED, rate=1.3 * SIZED.rate, load=tuple(1.3 * (load or 0) for load in SIZED.load))
    known = ReadingsByRate().add(SIZED, (4, 6), 0.2).add(faster, (6, 8), 0.21)
    assert train_model(AutoscalingSettings(Target(0.25)), known, 7.0) is None
    model = train_model(AutoscalingSettings(Target(0.25)), known, SIZED.rate)
    assert model is not None
    assert [ancestor.rate for ancestor in model.ancestors] == [faster.rate]
    assert (model.rate, model.floor) == (SIZED.rate, SIZED.floor)
    mean, _ = model.log_ratio([(4, 6)])
    assert mean[0] < 0
