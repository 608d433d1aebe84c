"""The jobs of the search benchmark: those of `problems.py`, and jobs fitted to recorded trials of a Spark job.

The family `recorded`: each job is fitted to a random two thirds of the 21 trials in `recorded_trials.json`, a PySpark
word count on two cores. Its rate is drawn between 0.3 and 1.1 times the recorded one, and its noise is the error of the
fit. These jobs are simulated; no Spark runs.
"""

from __future__ import annotations

from functools import cache
from itertools import count, islice

import numpy as np

from autotrascale.domain.errors import InputError
from autotrascale.domain.trial import Trial, Verdict
from benchmarks.workloads import problems, shapes
from benchmarks.workloads.calibration import calibrate
from benchmarks.workloads.problems import Aim, Problem, make_problem
from benchmarks.workloads.recorded_trials import read_recorded_trials

RECORDED = "recorded"
FAMILIES = (*shapes.FAMILIES, RECORDED)
SLOTS = 16  # of the Spark master that ran the trials
RATES = (0.3, 1.1)
FITTED_ON = 2 / 3

JobId = tuple[str, int]


def choose_jobs(families: tuple[str, ...], jobs: int, apart: int | None) -> list[JobId]:
    """Return `jobs` jobs of each family.

    Args:
        families: names of the families.
        jobs: number of jobs of each family.
        apart: seed for held-out jobs; None takes jobs of development.
    """
    drawn = []
    for family in families:
        numbers = problems.development_numbers(family) if apart is None else problems.held_out_numbers(family, apart)
        drawn += [(family, number) for number in islice(numbers, jobs)]
    return drawn


def draw_problem(family: str, number: int, operators: int | None = None) -> Problem:
    """Return the problem of a job, with a given number of operators if `operators` is set."""
    return _recorded(number) if family == RECORDED else problems.draw_problem(family, number, operators)


def draw_other_family(family: str, number: int, operators: int) -> Problem:
    """Return a problem of another family with as many operators, held out if this job is."""
    half = problems.is_held_out(family, number)
    others = [each for each in shapes.FAMILIES if each != family]
    for i in count(number % len(others)):
        other = others[i % len(others)]
        theirs = next(
            n for n in count((number + i) % problems.LARGEST_NUMBER) if problems.is_held_out(other, n) == half
        )
        try:
            return problems.draw_problem(other, theirs, operators)
        except InputError:  # that family has no sound job with so many operators
            continue
    raise AssertionError("unreachable")


def _recorded(number: int) -> Problem:
    rng = np.random.default_rng([7, number])
    for _ in range(problems.REDRAWS):
        trials = _sample_trials(rng)
        job, snapshot = calibrate(trials, slots=SLOTS), trials[0].snapshot
        assert snapshot is not None
        factor = float(rng.uniform(*RATES))
        rates = {name: round(rate * factor, 1) for name, rate in _recorded_rates().items()}
        aim = Aim.draw("share", job.noise, rng)
        problem = make_problem(RECORDED, number, job, snapshot.topology, rates, SLOTS, aim)
        if problem is not None:
            return problem
    raise InputError("number", "gives no sound problem of recorded trials", seen=number, remedy="take another")


def _sample_trials(rng: np.random.Generator) -> list[Trial]:
    """Return a random two thirds of the trials that kept up, and of the trials that did not."""
    picked: list[Trial] = []
    for stable in (True, False):
        these = [trial for trial in _trials() if (trial.verdict is Verdict.STABLE) == stable]
        size = round(len(these) * FITTED_ON)
        picked += [these[i] for i in rng.choice(len(these), size=size, replace=False)]
    return picked


@cache
def _trials() -> tuple[Trial, ...]:
    return read_recorded_trials()


def _recorded_rates() -> dict[str, float]:
    """Return the source rates of the first trial, which are those of the job file."""
    snapshot = _trials()[0].snapshot
    assert snapshot is not None
    return dict(snapshot.source_rates)
