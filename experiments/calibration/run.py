"""How well a simulated job, fitted to some trials of a Spark job, predicts the batch times of others.

    python -m experiments.calibration.run             the recorded trials, split in two again and again
    python -m experiments.calibration.run --run RUN   those of a tuning run of your own: see `autotrascale runs ls`

Prints JSON. `--section` prints instead the `simulator:` section (with the `operators:` that it wants) to put into a job
file, fitted to all trials, so that the job can be tuned without Spark: `autotrascale tune JOB.yaml --engine simulator`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from autotrascale.domain.errors import AuTraScaleError, InputError
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.simulator.simulated_job import to_section
from autotrascale.validation import validate
from benchmarks.workloads.calibration import LEAST_TRIALS, Errors, calibrate, prediction_errors, usable

TRIALS = Path(__file__).parent / "trials.json"


def read_trials(path: Path) -> tuple[Trial, ...]:
    recorded = json.loads(path.read_text(encoding="utf-8"))["trials"]
    return tuple(validate(each["trial"], Trial, place=f"{path}: trial {i}") for i, each in enumerate(recorded))


def trials_of_run(run: str, store: str | None) -> tuple[Trial, ...]:
    from autotrascale.app.stores import open_store
    from autotrascale.knowledge.run_history import find_run, read_trials

    opened = open_store(store)
    if opened is None:
        raise InputError("--run", "is in a store, and there is none", seen=run, remedy="name it with --store")
    return tuple(each.trial for each in read_trials(opened, find_run(opened, run)))


def held_out(trials: Sequence[Trial], splits: int, seed: int) -> list[Errors]:
    """Fit on two trials in three, drawn at random among those that kept up and among the others, and predict the rest;
    `splits` times."""
    rng = np.random.default_rng(seed)
    errors: list[Errors] = []
    for _ in range(splits):
        chosen: list[Trial] = []
        rest: list[Trial] = []
        for kept_up in (True, False):
            alike = [trial for trial in trials if usable(trial) and (trial.verdict is Verdict.STABLE) == kept_up]
            order = rng.permutation(len(alike))
            cut = max(round(2 / 3 * len(alike)), LEAST_TRIALS if kept_up else 0)
            chosen += [alike[i] for i in order[:cut]]
            rest += [alike[i] for i in order[cut:]]
        errors.append(prediction_errors(calibrate(chosen), rest))
    return errors


def report(trials: Sequence[Trial], splits: int, seed: int) -> dict[str, Any]:
    errors = held_out(trials, splits, seed)
    whole = calibrate(trials)
    stable = [trial for trial in trials if usable(trial) and trial.verdict is Verdict.STABLE]
    batches = [trial.snapshot.batch_seconds or 0.0 for trial in stable if trial.snapshot]
    middle = float(np.median(batches))
    return {
        "trials": sum(map(usable, trials)),
        "stable": len(stable),
        "splits": splits,
        "seed": seed,
        "median_error": round(float(np.median([each.median for each in errors])), 3),
        "mean_error": round(float(np.mean([each.mean for each in errors])), 3),
        "worst_error": round(max(each.worst for each in errors), 3),
        "verdicts_foreseen": round(float(np.mean([each.verdicts_right for each in errors])), 3),
        "median_error_of_the_median_batch": round(float(np.median([abs(middle / b - 1) for b in batches])), 3),
        "error_on_all_when_fitted_on_all": asdict(prediction_errors(whole, [t for t in trials if usable(t)])),
        "simulator": to_section(whole),
    }


def section(trials: Sequence[Trial]) -> str:
    snapshot = next(trial.snapshot for trial in trials if usable(trial) and trial.snapshot)
    operators = {
        name: {"upstream": list(operator.upstream)} | ({"stateful": True} if operator.stateful else {})
        for name, operator in snapshot.topology.operators.items()
    }
    return yaml.safe_dump({"operators": operators, "simulator": to_section(calibrate(trials))}, sort_keys=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=Path, default=TRIALS, help="a file that measure.py wrote")
    parser.add_argument("--run", help="a tuning run's id, the beginning of it, `last`, or a job's name")
    parser.add_argument("--store", help="the store of that run; the default one, when left out")
    parser.add_argument("--section", action="store_true")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    try:
        trials = trials_of_run(arguments.run, arguments.store) if arguments.run else read_trials(arguments.trials)
        if arguments.section:
            print(section(trials), end="")
        elif arguments.run:
            print(json.dumps({"simulator": to_section(calibrate(trials))}, indent=2))
        else:
            print(json.dumps(report(trials, arguments.splits, arguments.seed), indent=2))
    except AuTraScaleError as error:
        sys.exit(f"calibration: {error}")


if __name__ == "__main__":
    main()
