"""How few runs the search needs, and how good what it finds is, beside its peers, on simulated jobs of known optimum.

    runs to stop   runs until the stop rule is met (and, for us, trusted); bootstrap included; one window a run
    regret         score of the best lattice point, by enumeration, less the noise-free score of the recommendation
    missed         accepted configurations whose true latency is above the target

Everything here is simulated, with 5 % noise on every reading. Families `dev` were developed against; `apart` were kept
for judging. `autrascale` knows what a tuning run knows: the floor and the measured loads of each operator's hottest
instance, which carry 5 % noise too. `autrascale-floor-only` is told the floor alone; `paper` is Algorithm 1 to the
letter.

    python -m benchmarks.search_bench [--seeds 10] [--first-seed 0] [--jobs 2]
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from autotrascale.execute.simulator import DEVELOPMENT, HELD_APART, Case, draw
from autotrascale.execute.simulator.steady import hottest
from autotrascale.plan.search.study import Study
from autotrascale.plan.sizing.sizing import Sizing
from benchmarks.peers import Maker, Skopt, peers

NOISE = 0.05
COLD_RUNS, WARM_RUNS, PEER_RUNS = 10, 3, 20
FACTORS = (0.5, 0.8, 1.2, 1.5)
MARGIN = 0.10  # at a changed rate too, some frugal point beats the target by this much


@dataclass(frozen=True)
class Trace:
    """One method on one job."""

    stop: float  # runs; inf when the stop rule was not met within the budget
    missed: bool
    regret: tuple[float, ...]  # after each run


def figures(seeds: int = 10, jobs: int = 2, first_seed: int = 0) -> dict[str, Any]:
    drawn = range(first_seed, first_seed + seeds)
    cold = {
        group: _cold([(family, seed) for family in families for seed in drawn], jobs)
        for group, families in (("dev", DEVELOPMENT), ("apart", HELD_APART))
    }
    warm = {
        group: _warm([(family, seed) for family in families for seed in drawn], jobs)
        for group, families in (("dev", DEVELOPMENT), ("apart", HELD_APART))
    }
    return {"simulated": True, "noise": NOISE, "cold": cold, "warm": warm, "tell_ask_seconds": speed()}


# --- cold ------------------------------------------------------------------------------------------------------------


def _cold(cases: Sequence[tuple[str, int]], jobs: int) -> dict[str, Any]:
    rows: dict[str, list[Trace]] = {}
    traced = Parallel(jobs)(delayed(_all_methods)(family, seed) for family, seed in cases)
    for each in traced:
        for name, trace in each.items():
            rows.setdefault(name, []).append(trace)
    return {"jobs": len(cases)} | {name: _summary(traces, (10, 20)) for name, traces in rows.items()}


def _all_methods(family: str, seed: int) -> dict[str, Trace]:
    warnings.simplefilter("ignore")
    case = draw(family, seed)
    with threadpool_limits(1):
        ours = {
            "autrascale": _ours(case, seed, COLD_RUNS, **_known(case, seed)),
            "autrascale-floor-only": _ours(case, seed, COLD_RUNS),
            "paper": _ours(case, seed, PEER_RUNS, faithful=True),
        }
        return ours | {name: _peer(case, seed, make) for name, make in peers().items()}


def _known(case: Case, seed: int) -> dict[str, Any]:
    """What the floor phase of a tuning run leaves behind."""
    rng = np.random.default_rng([seed, 1])
    floor = np.array([case.floor], dtype=float)
    loads = (case.compiled.steady(floor).load * hottest(case.compiled, floor))[0]  # of the hottest instance
    loads = loads * np.exp(NOISE * rng.standard_normal(len(loads)))
    upper = [case.p_max] * len(case.floor)
    return {"sizing": Sizing.of_loads(case.floor, upper, loads.tolist(), rate=case.rate, execution=case.job.execution)}


def _ours(case: Case, seed: int, runs: int, **options: Any) -> Trace:
    rng = np.random.default_rng([seed, 2])
    study = Study(case.floor, case.p_max, case.latency_target, case.alpha, case.over_allocation, seed, **options)
    stop, missed, regret = math.inf, False, []
    for run in range(1, runs + 1):
        k = study.ask()
        _tell(study, k, case.measure(k, rng))
        best = study.best.parallelism
        if math.isinf(stop) and study.stop_reason == "target-met":
            stop, missed = run, _misses(case, best)
        regret.append(_regret(case, best))
    return Trace(stop, missed, tuple(regret))


def _peer(case: Case, seed: int, make: Maker) -> Trace:
    """A peer accepts as Algorithm 1 does, on one reading, and recommends the run of the highest measured score."""
    rng = np.random.default_rng([seed, 2])
    peer = make(case.floor, (case.p_max,) * len(case.floor), seed)
    stop, missed, regret, best, top = math.inf, False, [], case.floor, -1.0
    for run in range(1, PEER_RUNS + 1):
        k = peer.ask()
        latency = case.measure(k, rng)
        score = float(case.benefit.score(k, latency))
        peer.tell(k, score)
        if score > top:
            best, top = k, score
        if math.isinf(stop) and case.benefit.satisfied(k, latency):
            stop, missed = run, _misses(case, k)
        regret.append(_regret(case, best))
    return Trace(stop, missed, tuple(regret))


# --- warm ------------------------------------------------------------------------------------------------------------


def _warm(cases: Sequence[tuple[str, int]], jobs: int) -> dict[str, Any]:
    traced = Parallel(jobs)(delayed(_changed_rates)(family, seed) for family, seed in cases)
    rows: dict[str, list[Trace]] = {}
    for each in traced:
        for name, traces in each.items():
            rows.setdefault(name, []).extend(traces)
    return {"jobs": len(rows["autrascale"])} | {name: _summary(traces, (1, 3)) for name, traces in rows.items()}


def _changed_rates(family: str, seed: int) -> dict[str, list[Trace]]:
    """A study at one rate gives the model; then the rate changes. A misleading model is one of a shuffled study."""
    warnings.simplefilter("ignore")
    case = draw(family, seed)
    changed = [other for factor in FACTORS if (other := case.at_rate(factor, MARGIN)) is not None]
    with threadpool_limits(1):
        model, shuffled = _model(case, seed, shuffle=False), _model(case, seed, shuffle=True)
        options = [_known(other, seed) for other in changed]
        return {
            "autrascale": [_ours(c, seed, WARM_RUNS, source=model, **o) for c, o in zip(changed, options, strict=True)],
            "cold": [_ours(c, seed, WARM_RUNS, **o) for c, o in zip(changed, options, strict=True)],
            "misled": [_ours(c, seed, WARM_RUNS, source=shuffled, **o) for c, o in zip(changed, options, strict=True)],
        }


def _model(case: Case, seed: int, *, shuffle: bool) -> Any:
    rng = np.random.default_rng([seed, 3])
    study = Study(case.floor, case.p_max, case.latency_target, seed=seed, **_known(case, seed))
    for _ in range(COLD_RUNS):
        k = study.ask()
        _tell(study, k, case.measure(k, rng))
    if not shuffle:
        return study.model(case.rate)
    wrong = Study(case.floor, case.p_max, case.latency_target, seed=seed, **_known(case, seed))
    latencies = rng.permutation([run.latency or 10 * case.latency_target for run in study.runs])
    for run, latency in zip(study.runs, latencies, strict=True):
        wrong.tell(run.parallelism, latency=float(latency))
    return wrong.model(case.rate)


# --- speed -----------------------------------------------------------------------------------------------------------


def speed(operators: int = 10, samples: int = 60, repeats: int = 5) -> dict[str, float]:
    """One tell and the ask after it, one thread, ours and skopt's turn by turn."""
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
    study = Study(floor, 40, 0.08, seed=seed, max_runs=10_000)
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


# --- shared ----------------------------------------------------------------------------------------------------------


def _tell(study: Study, k: tuple[int, ...], latency: float) -> None:
    if math.isfinite(latency):
        study.tell(k, latency=latency)
    else:
        study.tell(k, failed=True)


@cache
def _optimum(case_id: tuple[Any, ...]) -> float:
    return _CASES[case_id].optimum().best.score


_CASES: dict[tuple[Any, ...], Case] = {}


def _regret(case: Case, k: tuple[int, ...]) -> float:
    case_id = (case.family, case.seed, case.rate)
    _CASES.setdefault(case_id, case)
    return _optimum(case_id) - float(case.score([k])[0])


def _misses(case: Case, k: tuple[int, ...]) -> bool:
    return bool(case.latency([k])[0] > case.latency_target)


def _summary(traces: Sequence[Trace], after: Sequence[int]) -> Mapping[str, float | str | int]:
    stops = [trace.stop for trace in traces]
    accepted = [trace for trace in traces if math.isfinite(trace.stop)]
    median = float(np.median(stops))
    row: dict[str, float | str | int] = {
        "runs_to_stop_median": median if math.isfinite(median) else f"> {len(traces[0].regret)}",
        "stopped_share": round(len(accepted) / len(traces), 3),
        "stopped_at_first_run_share": round(sum(stop == 1 for stop in stops) / len(traces), 3),
        "accepted": len(accepted),
        "missed": sum(trace.missed for trace in accepted),
        "missed_share": round(sum(trace.missed for trace in accepted) / max(len(accepted), 1), 4),
    }
    for runs in after:
        if len(traces[0].regret) >= runs:
            row[f"regret_after_{runs}_mean"] = round(float(np.mean([t.regret[runs - 1] for t in traces])), 4)
            row[f"regret_after_{runs}_median"] = round(float(np.median([t.regret[runs - 1] for t in traces])), 4)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="jobs of each of the six families")
    parser.add_argument("--first-seed", type=int, default=0, help="jobs that nothing was chosen on: 1000")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    arguments = parser.parse_args()
    print(json.dumps(figures(arguments.seeds, arguments.jobs, arguments.first_seed), indent=2))


if __name__ == "__main__":
    # By its own name, for the worker processes to find what they are sent.
    from benchmarks.search_bench import main as run

    run()
