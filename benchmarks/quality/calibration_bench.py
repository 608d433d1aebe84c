"""The error of a simulated job that is fitted to recorded Spark trials, and the time of one fit.

    python -m benchmarks.run calibration

Two baselines: the error of predicting the median batch time of the same trials, and the windows of those trials, which
are the least time that they took on Spark.
"""

from __future__ import annotations

import time

from autotrascale.domain.trial import Verdict
from benchmarks.workloads.calibration import calibrate
from benchmarks.workloads.recorded_trials import read_recorded_trials, summarise_errors

_FITS = 10


def figures() -> dict[str, object]:
    """Return the errors of predicted batch times as shares, and the fit in seconds and relative to the trials."""
    trials = read_recorded_trials()
    errors = summarise_errors(trials, splits=20, seed=0)
    snapshots = [trial.snapshot for trial in trials if trial.verdict is Verdict.STABLE and trial.snapshot]
    trial_seconds = sum(snapshot.window_seconds for snapshot in snapshots)
    began = time.perf_counter()
    for _ in range(_FITS):
        calibrate(trials)
    fit_seconds = (time.perf_counter() - began) / _FITS
    return {
        **{name: value for name, value in errors.items() if name != "simulator"},
        "fit_seconds": round(fit_seconds, 3),
        "trials_seconds_over_fit_seconds": round(trial_seconds / fit_seconds),
        "goal_median_error": 0.15,
    }
