"""What each choice of the default search is worth: the same jobs again with one choice undone.

    python -m experiments.search_choices.run [--seeds 10] [--jobs 2]

Development families only, simulated, 5 % noise; the held-apart ones stay out of every choice. Prints one JSON object
for each variant, `kept` first.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
from joblib import Parallel, delayed

from autotrascale.execute.simulator import DEVELOPMENT, draw
from autotrascale.plan.search import expectation, kernel, search, surrogate
from autotrascale.plan.search.acquisition import improvement_of_benefit, probability_met
from autotrascale.plan.search.bootstrap import bootstrap_set
from autotrascale.plan.search.search import Search
from autotrascale.plan.search.study import SearchSettings
from benchmarks.search_bench import COLD_RUNS, _known, _ours


def _flat(*_: Any) -> Any:
    ks = np.asarray(_[-1], dtype=float)
    return np.zeros((*ks.shape[:-1], 1))


def _linear_features(_: surrogate.Readings, ks: Any) -> Any:
    return np.asarray(ks, dtype=float) / 20


def _bootstrap_first(self: Search, runs: Any, rng: Any) -> Any:
    told = {run.parallelism for run in runs}
    waiting = [k for k in bootstrap_set(self.lattice.lower, self.lattice.upper) if k not in told]
    return waiting[0] if waiting else _PROPOSE(self, runs, rng)


def _plain_gain(power: float) -> Callable[[Search, Any], Any]:
    def gain(self: Search, runs: Any) -> Any:
        posterior, best = self._posterior(runs), self._scores(runs)[self.rank(runs)[0].parallelism]

        def value(ks: Any) -> Any:
            mean, std = posterior.log_ratio(ks)
            improvement = improvement_of_benefit(mean, std, self.benefit.resources(ks), best, self.benefit.alpha)
            return improvement * probability_met(mean, std) ** power

        return value

    return gain


_PROPOSE = Search.propose
_PRIORS = surrogate._PRIORS

VARIANTS: dict[str, list[Any]] = {
    "kept": [],
    "no expected shape": [mock.patch.object(expectation, "shapes", _flat)],
    "features k, not log(k/k')": [mock.patch.object(surrogate.Readings, "features", _linear_features)],
    "joint term only": [
        mock.patch.object(surrogate, "_PRIORS", _PRIORS | {"amplitude": (0.01, 0.1), "joint_amplitude": (1.0, 0.5)})
    ],
    "sum over operators only": [mock.patch.object(surrogate, "_PRIORS", _PRIORS | {"joint_amplitude": (0.01, 0.1)})],
    "hyperparameters not fitted": [mock.patch.object(surrogate, "_ITERATIONS", 0)],
    "expected shape trusted fully": [mock.patch.object(kernel, "TRUST", 0.0)],
    "bootstrap set first": [mock.patch.object(Search, "propose", _bootstrap_first)],
    "gain: EI alone": [mock.patch.object(Search, "_gain", _plain_gain(0.0))],
    "gain: EI x P": [mock.patch.object(Search, "_gain", _plain_gain(1.0))],
    "accept at 90 %": [],
    "best only above 95 %": [mock.patch.object(search, "LIKELY", 0.95)],
}
OPTIONS: dict[str, dict[str, Any]] = {"accept at 90 %": {"settings": SearchSettings(confidence=0.90)}}


@contextmanager
def _varied(name: str) -> Iterator[None]:
    for patch in VARIANTS[name]:
        patch.start()
    try:
        yield
    finally:
        for patch in VARIANTS[name]:
            patch.stop()


def one(name: str, family: str, seed: int) -> tuple[float, bool, float]:
    """Runs to stop, whether what was accepted misses, regret after the last run."""
    warnings.simplefilter("ignore")
    case = draw(family, seed)
    with _varied(name):
        trace = _ours(case, seed, COLD_RUNS, **_known(case, seed), **OPTIONS.get(name, {}))
    return trace.stop, trace.missed, trace.regret[-1]


def table(seeds: int, jobs: int) -> Iterator[dict[str, Any]]:
    cases = [(family, seed) for family in DEVELOPMENT for seed in range(seeds)]
    for name in VARIANTS:
        rows = Parallel(jobs)(delayed(one)(name, family, seed) for family, seed in cases)
        stops = [stop for stop, _, _ in rows]
        accepted = [missed for stop, missed, _ in rows if math.isfinite(stop)]
        yield {
            "variant": name,
            "jobs": len(cases),
            "runs_to_stop_mean": round(float(np.mean(np.minimum(stops, COLD_RUNS + 1))), 2),
            "missed_share": round(sum(accepted) / max(len(accepted), 1), 3),
            "regret_after_10_mean": round(float(np.mean([regret for _, _, regret in rows])), 4),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="jobs of each of the three families")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    arguments = parser.parse_args()
    for row in table(arguments.seeds, arguments.jobs):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    from experiments.search_choices.run import main as run

    run()
