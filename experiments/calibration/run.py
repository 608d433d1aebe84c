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
from pathlib import Path

import yaml

from autotrascale.domain.errors import AuTraScaleError, InputError
from autotrascale.domain.trial import Trial
from autotrascale.execute.simulator.simulated_job import to_section
from benchmarks.workloads.calibration import calibrate, is_usable
from benchmarks.workloads.recorded_trials import TRIALS, read_recorded_trials, summarise_errors


def trials_of_run(run: str, store: str | None) -> tuple[Trial, ...]:
    from autotrascale.app.stores import open_store
    from autotrascale.knowledge.run_history import find_run, read_trials

    opened = open_store(store)
    if opened is None:
        raise InputError("--run", "is in a store, and there is none", seen=run, remedy="name it with --store")
    return tuple(each.trial for each in read_trials(opened, find_run(opened, run)))


def section(trials: Sequence[Trial]) -> str:
    snapshot = next(trial.snapshot for trial in trials if is_usable(trial) and trial.snapshot)
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
        trials = (
            trials_of_run(arguments.run, arguments.store) if arguments.run else read_recorded_trials(arguments.trials)
        )
        if arguments.section:
            print(section(trials), end="")
        elif arguments.run:
            print(json.dumps({"simulator": to_section(calibrate(trials))}, indent=2))
        else:
            print(json.dumps(summarise_errors(trials, arguments.splits, arguments.seed), indent=2))
    except AuTraScaleError as error:
        sys.exit(f"calibration: {error}")


if __name__ == "__main__":
    main()
