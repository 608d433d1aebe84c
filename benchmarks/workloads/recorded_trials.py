"""Trials of a PySpark word count, recorded on two cores, and the error of a simulated job fitted to some of them.

`experiments/calibration/measure.py` records the trials. No Spark runs here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.simulator.simulated_job import to_section
from autotrascale.validation import validate
from benchmarks.workloads.calibration import (
    LEAST_TRIALS,
    PredictionErrors,
    calibrate,
    is_usable,
    measure_prediction_errors,
)

TRIALS = Path(__file__).with_suffix(".json")
_FITTED_SHARE = 2 / 3


def read_recorded_trials(path: Path = TRIALS) -> tuple[Trial, ...]:
    recorded = json.loads(path.read_text(encoding="utf-8"))["trials"]
    return tuple(validate(each["trial"], Trial, place=f"{path}: trial {i}") for i, each in enumerate(recorded))


def measure_held_out_errors(trials: Sequence[Trial], splits: int, seed: int) -> list[PredictionErrors]:
    """Fit a job to a random two thirds of the trials and predict the rest, `splits` times.

    Trials that kept up and trials that did not are divided in the same proportion.
    """
    rng = np.random.default_rng(seed)
    errors: list[PredictionErrors] = []
    for _ in range(splits):
        fitted: list[Trial] = []
        held_out: list[Trial] = []
        for kept_up in (True, False):
            alike = [trial for trial in trials if is_usable(trial) and (trial.verdict is Verdict.STABLE) == kept_up]
            order = rng.permutation(len(alike))
            cut = max(round(_FITTED_SHARE * len(alike)), LEAST_TRIALS if kept_up else 0)
            fitted += [alike[i] for i in order[:cut]]
            held_out += [alike[i] for i in order[cut:]]
        errors.append(measure_prediction_errors(calibrate(fitted), held_out))
    return errors


def summarise_errors(trials: Sequence[Trial], splits: int, seed: int) -> dict[str, Any]:
    """Return held-out errors, the error of the median batch time as a baseline, and the job fitted to all trials."""
    errors = measure_held_out_errors(trials, splits, seed)
    fitted_to_all = calibrate(trials)
    usable_trials = [trial for trial in trials if is_usable(trial)]
    batches = [
        trial.snapshot.batch_seconds or 0.0
        for trial in usable_trials
        if trial.verdict is Verdict.STABLE and trial.snapshot
    ]
    baseline = float(np.median(batches))
    return {
        "trials": len(usable_trials),
        "stable": len(batches),
        "splits": splits,
        "seed": seed,
        "median_error": round(float(np.median([each.median for each in errors])), 3),
        "mean_error": round(float(np.mean([each.mean for each in errors])), 3),
        "worst_error": round(max(each.worst for each in errors), 3),
        "verdicts_foreseen": round(float(np.mean([each.verdicts_right for each in errors])), 3),
        "median_error_of_the_median_batch": round(float(np.median([abs(baseline / b - 1) for b in batches])), 3),
        "error_on_all_when_fitted_on_all": asdict(measure_prediction_errors(fitted_to_all, usable_trials)),
        "simulator": to_section(fitted_to_all),
    }
