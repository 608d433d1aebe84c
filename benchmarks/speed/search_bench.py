"""The time of one `tell` and the next `ask`, compared with scikit-optimize in turns, on one thread.

    python -m benchmarks.speed.search_bench

`benchmarks/quality/transfer_bench.py` measures the number of runs and the quality of the result.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from autotrascale.plan.search.ask_tell import AskTellStudy
from benchmarks.workloads.peers import Skopt

NOISE = 0.05


def figures() -> dict[str, Any]:
    return {"simulated": True, "tell_ask_seconds": time_tell_and_ask()}


def time_tell_and_ask(operators: int = 10, samples: int = 60, repeats: int = 5) -> dict[str, float]:
    """Return the seconds of one tell and the next ask, of our search and of scikit-optimize, and their ratio."""
    floor = np.random.default_rng(0).integers(1, 10, operators).tolist()
    ours, theirs = [], []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(repeats):
            ours.append(_seconds_ours(floor, samples, seed))
            theirs.append(_seconds_skopt(floor, samples, seed))
    mine, skopt = float(np.median(ours)), float(np.median(theirs))
    return {
        "operators": operators,
        "samples": samples,
        "autrascale": mine,
        "skopt": skopt,
        "times_faster": skopt / mine,
    }


def _seconds_ours(floor: Sequence[int], samples: int, seed: int) -> float:
    study = AskTellStudy(floor, 40, 0.08, seed=seed, max_runs=10_000)
    rng = np.random.default_rng(seed)
    for row in study.lattice.sample(rng, samples - 1):
        study.tell(tuple(row), latency=_surface(floor, row, rng))
    k = study.ask()
    return _timed(lambda: (study.tell(k, latency=_surface(floor, k, rng)), study.ask()))


def _seconds_skopt(floor: Sequence[int], samples: int, seed: int) -> float:
    peer = Skopt(floor, [40] * len(floor), seed, n_initial_points=1)
    rng = np.random.default_rng(seed)
    rows = [[int(x) for x in rng.integers(floor, 41)] for _ in range(samples - 1)]
    peer.optimizer.tell(rows, [_surface(floor, row, rng) for row in rows])
    k = peer.ask()
    return _timed(lambda: (peer.tell(k, -_surface(floor, k, rng)), peer.ask()))


def _surface(floor: Sequence[int], k: Iterable[int], rng: np.random.Generator) -> float:
    ratio = float(np.mean(np.asarray(floor) / np.asarray(list(k))))
    return (0.05 + 0.1 * ratio) * math.exp(NOISE * rng.standard_normal())


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    print(json.dumps(figures(), indent=2))
