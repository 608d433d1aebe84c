"""What the numbers of the physics come out as on many jobs: where the priors of `plan/search/physics.py` are from.

    python -m experiments.search_choices.priors [--jobs 12] [--processes 2]

Each job seen in development is read without noise at a hundred frugal points, at its rate and at 0.6 and 1.5 times it,
and the physics is fitted to that, from the present priors and with hardly any process beside it. Prints, for each
number, what half and what eight in ten of all jobs lie between, and what the physics leaves unexplained. Simulated.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from autotrascale.plan.search import surrogate
from autotrascale.plan.search.training_data import SessionReadings
from autotrascale.plan.sizing.sizing import Sizing
from benchmarks.workloads.case import Case
from benchmarks.workloads.lattice import sample_frugal
from benchmarks.workloads.transfer_jobs import FAMILIES, JobId, choose_jobs, draw_problem
from benchmarks.workloads.transfer_searches import measure_floor

FACTORS = (1.0, 0.6, 1.5)
POINTS, SLOWEST = 33, 4.0  # of each rate, and no slower than so many times the fastest
NOISE, AMPLITUDE = 0.03, 0.03

Floats = NDArray[np.float64]


def fitted(job: JobId) -> dict[str, Any] | None:
    problem = draw_problem(*job)
    parts = [part for factor in FACTORS if (case := problem.at_rate(factor)) and (part := _readings(case))]
    if not parts:
        return None
    patched = {"AMPLITUDE": AMPLITUDE, "AMPLITUDE_OF_TIMED": AMPLITUDE, "STEPS": 200, "DOUBTS": ((0.0, 0.0),)}
    with mock.patch.multiple(surrogate, **patched):
        posterior = surrogate.fit(parts[0], parts[1:], noise=NOISE)
    numbers_only = posterior.beta[: len(posterior.latency_model.centre)]
    expected, _, _ = posterior.latency_model.latency(posterior.data.ks, posterior.data.log_q, numbers_only)
    numbers = {name: posterior.beta[place] for name, place in posterior.latency_model.places.items()}
    return {"family": job[0], "unexplained": float((posterior.data.y - expected).std()), "numbers": numbers}


def _readings(case: Case) -> SessionReadings | None:
    """Without noise; the sizing is what one noisy window at the floor gives."""
    rng = np.random.default_rng(case.seed)
    ks = sample_frugal(case.floor, case.p_max, case.resource_limit, 20 * POINTS, rng)
    latency = case.latency(ks)
    near = np.flatnonzero(np.isfinite(latency) & (latency < SLOWEST * latency.min()))
    if len(near) == 0:
        return None
    picked = rng.choice(near, min(POINTS, len(near)), replace=False)
    sizing = measure_floor(case, case.seed) or Sizing.of_loads(
        case.floor, [case.p_max] * len(case.floor), rate=case.rate
    )
    y = np.log(latency[picked] / case.latency_target)
    points = tuple(tuple(int(x) for x in ks[i]) for i in picked)
    return SessionReadings(
        replace(sizing, execution=case.job.execution), points, tuple(y.tolist()), (1.0,) * len(points)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=12, help="of each family")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    drawn = choose_jobs(FAMILIES, arguments.jobs, None)
    found = [each for each in Parallel(arguments.processes)(delayed(fitted)(job) for job in drawn) if each]
    for family in FAMILIES:
        left = [each["unexplained"] for each in found if each["family"] == family]
        print(json.dumps({"family": family, "unexplained": _between(np.array(left))}))
    for name in dict.fromkeys(name for each in found for name in each["numbers"]):
        values = np.concatenate([each["numbers"][name] for each in found if name in each["numbers"]])
        print(json.dumps({"number": name, "values": _between(values)}))


def _between(values: Floats) -> dict[str, float]:
    shares = {"10 %": 0.1, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "90 %": 0.9}
    return {name: round(float(np.quantile(values, share)), 3) for name, share in shares.items()}


if __name__ == "__main__":
    # By its own name, for the worker processes to find what they are sent.
    from experiments.search_choices.priors import main as run

    run()
