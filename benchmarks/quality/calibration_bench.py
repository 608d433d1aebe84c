"""How well a simulated job that was fitted to some Spark trials predicts the others, and how long a fit takes.

The trials are those recorded in experiments/calibration; no Spark is run. To compare with: whoever answers with the
median batch time of the same trials, and how long one of those trials took on Spark at the least, its window.
"""

from __future__ import annotations

import time

from autotrascale.domain.trial import Verdict
from benchmarks.workloads.calibration import calibrate
from experiments.calibration.run import TRIALS, read_trials, report

_FITS = 10


def figures() -> dict[str, object]:
    trials = read_trials(TRIALS)
    found = report(trials, splits=20, seed=0)
    snapshots = [trial.snapshot for trial in trials if trial.verdict is Verdict.STABLE and trial.snapshot]
    windows = sum(snapshot.window_seconds for snapshot in snapshots)
    began = time.perf_counter()
    for _ in range(_FITS):
        calibrate(trials)
    fit = (time.perf_counter() - began) / _FITS
    return {
        **{name: value for name, value in found.items() if name != "simulator"},
        "fit_seconds": round(fit, 3),
        "trials_seconds_over_fit_seconds": round(windows / fit),
        "goal_median_error": 0.15,
    }
