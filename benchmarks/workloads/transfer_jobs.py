"""Which jobs: those of `execute/simulator/problems.py`, and simulated ones fitted to recorded trials of a Spark job.

`recorded`: each job is fitted to two thirds, drawn at random, of the trials in `recorded_trials.json`, 21
of a PySpark word count on two cores, and is tuned at a rate drawn between 0.3 and 1.1 times the one recorded, with the
noise that the fit leaves. These are simulated jobs fitted to recorded trials; no Spark is run.
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
SLOTS = 16  # of the master that the trials ran on
RATES = (0.3, 1.1)
FITTED_ON = 2 / 3

JobId = tuple[str, int]


def choose_jobs(families: tuple[str, ...], jobs: int, apart: int | None) -> list[JobId]:
    """So many numbers of each family: of those seen, or of those kept apart, drawn by the seed `apart`."""
    drawn = []
    for family in families:
        numbers = problems.development_numbers(family) if apart is None else problems.held_out_numbers(family, apart)
        drawn += [(family, number) for number in islice(numbers, jobs)]
    return drawn


def draw_problem(family: str, number: int, operators: int | None = None) -> Problem:
    return _recorded(number) if family == RECORDED else problems.draw_problem(family, number, operators)


def draw_other_family(family: str, number: int, operators: int) -> Problem:
    """A job of another family with so many operators, of the same half."""
    half = problems.is_held_out(family, number)
    others = [each for each in shapes.FAMILIES if each != family]
    for i in count(number % len(others)):
        other = others[i % len(others)]
        theirs = next(
            n for n in count((number + i) % problems.LARGEST_NUMBER) if problems.is_held_out(other, n) == half
        )
        try:
            return problems.draw_problem(other, theirs, operators)
        except InputError:  # no sound job of that family has so many operators
            continue
    raise AssertionError("unreachable")


def _recorded(number: int) -> Problem:
    rng = np.random.default_rng([7, number])
    for _ in range(problems.REDRAWS):
        trials = _some(rng)
        job, snapshot = calibrate(trials, slots=SLOTS), trials[0].snapshot
        assert snapshot is not None
        factor = float(rng.uniform(*RATES))
        rates = {name: round(rate * factor, 1) for name, rate in _full_rates().items()}
        aim = Aim.draw("share", job.noise, rng)
        problem = make_problem(RECORDED, number, job, snapshot.topology, rates, SLOTS, aim)
        if problem is not None:
            return problem
    raise InputError("number", "gives no sound problem of recorded trials", seen=number, remedy="take another")


def _some(rng: np.random.Generator) -> list[Trial]:
    """Two in three of those that kept up, and of the others."""
    picked: list[Trial] = []
    for stable in (True, False):
        these = [trial for trial in _trials() if (trial.verdict is Verdict.STABLE) == stable]
        size = round(len(these) * FITTED_ON)
        picked += [these[i] for i in rng.choice(len(these), size=size, replace=False)]
    return picked


@cache
def _trials() -> tuple[Trial, ...]:
    return read_recorded_trials()


def _full_rates() -> dict[str, float]:
    """Those of the first trial, which ran at the job file's own rates."""
    snapshot = _trials()[0].snapshot
    assert snapshot is not None
    return dict(snapshot.source_rates)
