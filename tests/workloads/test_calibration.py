"""The calibration of a simulated job, on trials with a known truth and on recorded Spark trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Topology
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.simulator import SimulatedJob, SimulatorEngine, steady_state, to_section
from autotrascale.validation import validate
from benchmarks.workloads.calibration import calibrate, is_usable, measure_prediction_errors, predict_batch_seconds
from benchmarks.workloads.case import Case
from benchmarks.workloads.presets import PRESETS
from benchmarks.workloads.recorded_trials import measure_held_out_errors, read_recorded_trials

STALLED = PRESETS["spark-stalled"]
POINTS = [
    (2, 12, 6, 3),
    (4, 8, 2, 2),
    (16, 16, 16, 16),
    (8, 8, 8, 8),
    (3, 14, 5, 15),
    (10, 10, 6, 10),
    (6, 15, 14, 2),
    (2, 9, 10, 3),
    (13, 13, 7, 2),
    (5, 16, 11, 14),
    (2, 4, 2, 2),
    (9, 3, 14, 6),
]


def measured(case: Case, points: Sequence[tuple[int, ...]], noise: float = 0.0, seed: int = 0) -> list[Trial]:
    """Return trials as Spark would report them, with the actual batch time."""
    engine = SimulatorEngine(replace(case.job, noise=noise), case.topology, p_max=16, seed=seed)
    rng = np.random.default_rng(seed)
    trials = []
    for number, k in enumerate(points):
        rates = {name: rate * (0.5 + 0.1 * (number % 6)) for name, rate in case.source_rates.items()}
        trial = engine.run(case.topology.named(k), rates)
        state = steady_state(case.job, case.topology, k, rates)
        kept_up = trial.verdict is Verdict.STABLE
        batch = float(state.batch_seconds[0]) * float(np.exp(noise * rng.standard_normal())) if kept_up else 12.0
        assert trial.snapshot is not None
        share = float(state.overhead_seconds[0]) / batch
        snapshot = replace(trial.snapshot, batch_seconds=batch, overhead_share=min(1.0, share))
        trials.append(replace(trial, snapshot=snapshot))
    return trials


def everywhere(topology: Topology) -> list[dict[str, int]]:
    return [topology.named(k) for k in product((4, 9, 16), (8, 12, 16), (3, 7, 16), (2, 8))]


def worst(case: Case, fitted: SimulatedJob) -> float:
    """Return the largest relative error of the fitted batch time, away from saturation."""
    pairs = [
        (
            predict_batch_seconds(case.job, case.topology, k, case.source_rates),
            predict_batch_seconds(fitted, case.topology, k, case.source_rates),
        )
        for k in everywhere(case.topology)
    ]
    return max(abs(found / true - 1) for true, found in pairs if true < 4.0)


@pytest.mark.parametrize("name", ["spark-stalled", "spark-wordcount"])
def test_exact_trials_give_the_job_back(name: str) -> None:
    case = PRESETS[name]
    assert worst(case, calibrate(measured(case, POINTS))) < 0.03


def test_noisy_trials_give_nearly_the_job_back() -> None:
    fitted = calibrate(measured(STALLED, POINTS, noise=0.05, seed=3))
    assert worst(STALLED, fitted) < 0.25
    assert 0.02 <= fitted.noise < 0.15


def test_what_is_predicted_is_the_simulators_own_steady_state() -> None:
    k = STALLED.topology.named((8, 12, 6, 3))
    state = steady_state(STALLED.job, STALLED.topology, (8, 12, 6, 3), STALLED.source_rates)
    assert predict_batch_seconds(STALLED.job, STALLED.topology, k, STALLED.source_rates) == float(
        state.batch_seconds[0]
    )
    too_few = STALLED.topology.named((2, 2, 2, 2))
    assert predict_batch_seconds(STALLED.job, STALLED.topology, too_few, STALLED.source_rates) == np.inf


def test_a_job_predicts_its_own_exact_trials_without_error() -> None:
    errors = measure_prediction_errors(STALLED.job, measured(STALLED, POINTS))
    assert errors.worst < 1e-9
    assert errors.verdicts_right == 1.0


def test_waves_of_tasks_are_reckoned_with() -> None:
    """With half the slots, stages with more than eight tasks take two waves."""
    job = replace(STALLED.job, batch=replace(STALLED.job.batch, slots=8))
    case = replace(STALLED, job=job, source_rates={"source": 2500.0})
    fitted = calibrate(measured(case, POINTS), slots=8)
    assert fitted.batch.slots == 8
    assert worst(case, fitted) < 0.03


def test_a_calibrated_job_is_a_section_of_a_job_file() -> None:
    fitted = calibrate(measured(STALLED, POINTS))
    assert validate(to_section(fitted), SimulatedJob, place="simulator") == fitted


def test_trials_that_say_nothing_are_passed_over() -> None:
    trials = measured(STALLED, POINTS)
    snapshot = trials[0].snapshot
    assert snapshot is not None
    silent = {name: replace(metrics, instances=()) for name, metrics in snapshot.operators.items()}
    mute = [
        replace(trials[0], verdict=Verdict.FAILED),
        replace(trials[0], snapshot=None),
        replace(trials[0], snapshot=replace(snapshot, operators=silent)),
        replace(trials[0], snapshot=replace(snapshot, execution="pipelined")),
    ]
    assert not any(is_usable(trial) for trial in mute)
    assert calibrate([*mute, *trials]) == calibrate(trials)


def test_too_little_is_refused_in_one_line() -> None:
    trials = measured(STALLED, POINTS)
    with pytest.raises(InputError, match=r"trials: .*too few.*seen: 2"):
        calibrate(trials[:2])
    with pytest.raises(InputError, match="trials: are of different jobs"):
        calibrate([*trials, *measured(_short(), [(4, 4), (8, 8)])])
    with pytest.raises(InputError, match=r"trials: .*no stable"):
        measure_prediction_errors(STALLED.job, [trial for trial in trials if trial.verdict is not Verdict.STABLE])


def _short() -> Case:
    operators = {name: STALLED.job.operators[name] for name in ("source", "count")}
    return replace(STALLED, job=replace(STALLED.job, operators=operators), topology=Topology.chain("source", "count"))


def test_the_stalls_of_a_job_measured_on_spark_are_found() -> None:
    """Two operators of the recorded job sleep for a known time per record.

    Their other work and late wake-ups add less than 0.2 ms.
    """
    fitted = calibrate(read_recorded_trials())
    for name, stall in (("flatmap", 0.002), ("count", 0.0005)):
        operator = fitted.operators[name]
        assert stall <= operator.service_seconds * (1 + 7 * operator.coherency) <= stall + 0.0002
        assert operator.coherency <= 1


def test_trials_are_split_so_that_both_parts_say_something() -> None:
    errors = measure_held_out_errors(measured(STALLED, POINTS, noise=0.05, seed=1), splits=3, seed=0)
    assert len(errors) == 3
    assert all(each.median < 0.15 for each in errors)


def test_spark_trials_that_were_not_used_for_the_fit_are_predicted() -> None:
    """This is the claim of the experiment, on its recorded trials."""
    errors = measure_held_out_errors(read_recorded_trials(), splits=10, seed=0)
    assert float(np.median([each.median for each in errors])) <= 0.15
