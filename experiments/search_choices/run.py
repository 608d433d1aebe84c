"""Effect of each choice of the default search: the same jobs again with one choice undone.

    python -m experiments.search_choices.run [--jobs 2] [--only VARIANT …] [--processes 2]

The development jobs of all families of `benchmarks/quality/transfer_bench.py`, simulated. Held-out jobs are not used.
Cold starts, starts from the job's own model at 0.7 and 1.4 times the rate, and from another job's model. One JSON
object for each variant, `kept` first.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
from joblib import Parallel, delayed

from autotrascale.plan.search import latency_model, measured_loads, search, surrogate
from autotrascale.plan.search.acquisition import improvement_of_benefit
from autotrascale.plan.search.ask_tell import SearchSettings
from autotrascale.plan.search.latency_model import LatencyModel
from autotrascale.plan.search.paper_algorithms import bootstrap_set
from autotrascale.plan.search.search import Search
from autotrascale.plan.search.study_runs import WindowMeasurement
from autotrascale.plan.sizing.sizing import Sizing
from benchmarks.workloads import transfer_measures
from benchmarks.workloads.transfer_jobs import FAMILIES, JobId, choose_jobs

RATES = (0.7, 1.4)
BUDGET = 20

_SURER = SearchSettings(confidence=0.985)
_LATENCY, _PRIORS, _PROPOSE = LatencyModel.latency, LatencyModel.priors, Search.propose


def _flat(self: LatencyModel, ks: Any, log_q: Any, beta: Any, beyond: Any = 0.0) -> Any:
    """A level, and nothing that follows from k."""
    value, slope, by_load = _LATENCY(self, ks, log_q, beta, beyond)
    at = self.places["level"]
    level = np.zeros_like(slope)
    level[:, at] = 1.0
    return np.full(len(value), float(beta[at][0])), level, np.zeros_like(by_load)


def _flat_value(self: LatencyModel, ks: Any, log_q: Any, beta: Any, beyond: Any = 0.0) -> Any:
    return _flat(self, ks, log_q, beta, beyond)[0]


def _without(numbers: Mapping[str, latency_model.Prior]) -> Any:
    """Priors that leave nothing to learn of these numbers."""

    def priors(self: LatencyModel) -> dict[str, latency_model.Prior]:
        kept: dict[str, latency_model.Prior] = _PRIORS.func(self)
        return {name: numbers.get(name, prior) for name, prior in kept.items()}

    return mock.patch.object(LatencyModel, "priors", property(priors))


def _bootstrap_first(self: Search, runs: Any, rng: Any) -> Any:
    told = {run.parallelism for run in runs}
    waiting = [k for k in bootstrap_set(self.lattice.lower, self.lattice.upper) if k not in told]
    return waiting[0] if waiting else _PROPOSE(self, runs, rng)


def _plain_gain(self: Search, runs: Any) -> Any:
    posterior, best = self._posterior(runs), self._scores(runs)[self.rank(runs)[0].parallelism]

    def value(ks: Any) -> Any:
        mean, std = posterior.log_ratio(ks)
        return improvement_of_benefit(mean, std, self.benefit.resources(ks), best, self.benefit.alpha)

    return value


def _set(module: Any, name: str, value: Any) -> Any:
    return mock.patch.object(module, name, value)


_NOTHING = {"contention": (-9.0, 0.01), "crowding": (-9.0, 0.01), "tasks": (-9.0, 0.01), "pairs": (-9.0, 0.01)}

VARIANTS: dict[str, list[Any]] = {
    "kept": [],
    "no physics, a process with an amplitude of 0.4": [
        _set(LatencyModel, "latency", _flat),
        _set(LatencyModel, "value", _flat_value),
        _set(surrogate, "AMPLITUDE", 0.4),
        _set(surrogate, "AMPLITUDE_OF_TIMED", 0.4),
    ],
    "nothing grows with more instances": [_without(_NOTHING)],
    "nothing grows with the total": [_without({"crowding": (-9.0, 0.01)})],
    "tasks cost nothing by themselves": [_without({"tasks": (-9.0, 0.01)})],
    "channels cost nothing": [_without({"pairs": (-9.0, 0.01)})],
    "one queue for all instances of an operator": [_without({"apart": (-9.0, 0.01)})],
    "the rate shifts nothing": [_without({"rate": (0.0, 0.001)})],
    "waiting as it is in theory": [_without({"waiting": (0.0, 0.01), "apart": (-0.8, 0.01)})],
    "no process beside the physics": [_set(surrogate, "AMPLITUDE", 0.01), _set(surrogate, "AMPLITUDE_OF_TIMED", 0.01)],
    "a process of twice the amplitude": [_set(surrogate, "AMPLITUDE", 0.4), _set(surrogate, "AMPLITUDE_OF_TIMED", 0.2)],
    "effects fade twice as fast": [_set(surrogate, "LENGTH", 0.75)],
    "runs tell latencies alone": [_set(WindowMeasurement, "of", lambda _: None)],
    "loads as the physics has them": [_set(measured_loads, "SPREAD", 1e-9)],
    "an operator adds to the latency as to the work": [_set(Sizing, "service", ())],
    "noise is what it was said to be": [_set(surrogate, "MOST_OFF", 1.0)],
    "two windows of a configuration at most": [_set(search, "WINDOWS", 2)],
    "nothing new once one is accepted": [_set(search, "WORTH_TRYING", 2.0)],
    "a source always counts": [_set(surrogate, "DOUBTS", ((0.0, 0.0),))],
    "a warm run as frugal as a cold one": [_set(search, "EPSILON_WARM", search.EPSILON)],
    "acceptance is worth half as much": [_set(search, "EPSILON", search.EPSILON / 2)],
    "acceptance is worth twice as much": [_set(search, "EPSILON", search.EPSILON * 2)],
    "a warm run asks for more": [_set(search, "EPSILON_WARM", search.EPSILON_WARM * 5)],
    "accepted with 98.5 % confidence": [
        _set(transfer_measures, "study_of", partial(transfer_measures.make_study, settings=_SURER))
    ],
    "the paper's bootstrap set first": [_set(Search, "propose", _bootstrap_first)],
    "gain without √P": [_set(Search, "_gain", _plain_gain)],
}


def one(name: str, job: JobId) -> list[transfer_measures.Row]:
    warnings.simplefilter("ignore")
    with ExitStack() as stack:
        for patch in [*VARIANTS[name], _set(transfer_measures, "FACTORS", RATES)]:
            stack.enter_context(patch)
        return transfer_measures.measure_job(job, 0, (transfer_measures.OURS,), ("cold", "warm", "wrong"))


def table(jobs: int, processes: int, names: Iterable[str] = VARIANTS) -> Iterator[dict[str, Any]]:
    drawn = choose_jobs(FAMILIES, jobs, None)
    for name in names:
        found = Parallel(processes)(delayed(one)(name, job) for job in drawn)
        yield {"variant": name, "jobs": len(drawn)} | _figures([row for rows in found for row in rows])


def _figures(rows: list[transfer_measures.Row]) -> dict[str, Any]:
    cold = [row for row in rows if row["part"] == "cold"]
    started = {
        start: [row for row in rows if row.get("start") == start] for start in ("cold", "warm", "other", "shuffled")
    }
    wrong = list(zip(started["other"] + started["shuffled"], 2 * started["cold"], strict=True))
    accepted = [row for row in rows if math.isfinite(row["stop"])]
    return {
        "cold_runs_mean": round(float(np.mean([min(row["stop"], BUDGET) for row in cold])), 2),
        "cold_regret_at_stop_mean": round(float(np.mean([row["regret_at_stop"] for row in cold])), 4),
        # What only counts once a run is accepted shows here and nowhere else.
        "cold_regret_after_10_mean": round(float(np.mean([row["regret_later"] for row in cold])), 4),
        "warm_runs_mean": round(float(np.mean([min(row["stop"], BUDGET) for row in started["warm"]])), 2),
        "warm_at_first_run": round(float(np.mean([row["stop"] == 1 for row in started["warm"]])), 3),
        "wrong_within_cold_and_one": round(float(np.mean([w["stop"] <= c["stop"] + 1 for w, c in wrong])), 3),
        "missed_share": round(sum(row["missed"] for row in accepted) / max(len(accepted), 1), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="of each family")
    parser.add_argument("--only", nargs="+", default=[*VARIANTS], choices=[*VARIANTS], metavar="VARIANT")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    for row in table(arguments.jobs, arguments.processes, arguments.only):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    # By its own name, for the worker processes to find what they are sent.
    from experiments.search_choices.run import main as run

    run()
