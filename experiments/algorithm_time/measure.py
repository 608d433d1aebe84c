"""What the planning costs to compute, by the number of operators (AuTraScale §V-E, Table IV).

    train      Algorithm 1 told of its bootstrap set: fit the model, and recommend
    use        ask the model that is there for the next parallelism
    transfer   Algorithm 2: a residual process on the samples at the new rate, the predicted set, fit, and recommend

Seconds of CPU on one thread, of this process. They say as much about the machine as about the program: each case also
times a Cholesky factorisation in the same process, and figures are told as multiples of it and of each other.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from autotrascale.plan.search.acquisition import expected_improvement
from autotrascale.plan.search.ask_tell import AskTellStudy
from autotrascale.plan.search.lattice import Point, Pool
from autotrascale.plan.search.paper_algorithms import XI, bootstrap_set
from experiments.shared.published import published

OPERATORS = tuple(published("algorithm_time/operators"))
REPEATS = 3
P_MAX, TARGET = 40, 0.08
AT_NEW_RATE = 3  # real samples there
MATRIX = 300  # of the factorisation
KINDS = ("faithful", "default")


def cases() -> Sequence[Mapping[str, Any]]:
    return [{"operators": n, "kind": kind, "repeats": REPEATS} for n in OPERATORS for kind in KINDS]


def measure(case: Mapping[str, Any]) -> Mapping[str, Any]:
    times: dict[str, list[float]] = {"train": [], "use": [], "transfer": [], "matrix": []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _once(case, 0)  # imports, and what is made on first use
        for seed in range(1, case["repeats"] + 1):
            for name, seconds in _once(case, seed).items():
                times[name].append(seconds)
    return {name: median(each) for name, each in times.items()}


def _once(case: Mapping[str, Any], seed: int) -> dict[str, float]:
    """The paper's words for each, turn by turn with the factorisation."""
    faithful = case["kind"] == "faithful"
    rng = np.random.default_rng(seed)
    floor = tuple(int(k) for k in rng.integers(1, 10, case["operators"]))
    study = _told(floor, bootstrap_set(floor, P_MAX), rng, seed, faithful)
    train = _seconds(study.ask)
    model = study.model(1e5)
    pool: Pool = study.lattice.sample(rng, 1000)
    best = max(float(study.benefit.score(run.parallelism, run.latency)) for run in study.runs if run.latency)

    def use() -> object:
        return int(np.argmax(expected_improvement(*model.predict(pool), best, XI)))

    use()  # rebuilds the process that its numbers stand for
    moved = AskTellStudy(floor, P_MAX, TARGET, seed=seed, faithful=faithful, source=model, max_runs=1000)
    for k in moved.lattice.sample(rng, AT_NEW_RATE):
        moved.tell(tuple(int(each) for each in k), latency=_latency(floor, k, rng))
    matrix = np.cov(rng.standard_normal((MATRIX, 2 * MATRIX)))
    return {
        "train": train,
        "use": _seconds(use),
        "transfer": _seconds(moved.ask),
        "matrix": _seconds(lambda: np.linalg.cholesky(matrix)),
    }


def _told(floor: Point, ks: Sequence[Point], rng: np.random.Generator, seed: int, faithful: bool) -> AskTellStudy:
    study = AskTellStudy(floor, P_MAX, TARGET, seed=seed, faithful=faithful, max_runs=1000)
    for k in ks:
        study.tell(k, latency=_latency(floor, k, rng))
    return study


def _latency(floor: Point, k: Any, rng: np.random.Generator) -> float:
    ratio = float(np.mean(np.asarray(floor) / np.asarray(k)))
    return (0.05 + 0.1 * ratio) * float(np.exp(0.05 * rng.standard_normal()))


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
