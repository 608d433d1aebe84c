"""AuTraScale's elasticity tests (§V-C, Tables II and III), up and down, on the simulated WordCount and Yahoo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.plan.search.ask_tell import AskTellStudy, SearchSettings
from autotrascale.plan.search.paper_algorithms import bootstrap_set
from autotrascale.tuning import TuningSettings, tune
from benchmarks.workloads.case import Case
from experiments.shared.driving import asked_until, drs, engine, truth, window
from experiments.shared.jobs import job
from experiments.shared.published import published

SEEDS = 30
STARTS = {
    "wordcount": {"up": (1, 3, 12, 2), "down": (36, 32, 24, 20)},
    "yahoo": {"up": (4, 2, 1, 1, 4), "down": (40, 40, 40, 40, 40)},
}
METHODS = (
    "drs-observed",
    "drs-true",
    "drs-observed-corrected",
    "drs-true-corrected",
    "algorithm-1",
    "default",
    "default-from-here",
)
SCORE = published("elasticity/score")  # α = 0.8, w = 1
UNIFORM = {"wordcount": 6, "yahoo": 35}  # M: with a one-hot sample for each operator, the paper's 10 and 40
MOST_RUNS = 60
MOST_NEW = 20  # parallelisms that DRS may ask for


def cases() -> Sequence[Mapping[str, Any]]:
    return [
        {"job": name, "direction": direction, "method": method, "seed": seed}
        for name, starts in STARTS.items()
        for direction in starts
        for method in METHODS
        for seed in range(SEEDS)
    ]


def measure(case: Mapping[str, Any]) -> Mapping[str, Any]:
    there, method, seed = job(case["job"]), case["method"], case["seed"]
    start = STARTS[case["job"]][case["direction"]]
    if method.startswith("default"):
        return _default(there, start if method == "default-from-here" else None, seed)
    if method == "algorithm-1":
        return _algorithm_1(there, start, seed, UNIFORM[case["job"]])
    _, rates, *corrected = method.split("-")
    seen = asked_until(there, engine(there, seed), start, drs(there, rates, bool(corrected)), MOST_NEW)
    return {
        "runs": len(seen),
        "iterations": len(seen) - 1,
        "windows": [each.as_dict() for each in seen[-3:]],
        **truth(there, seen[-1].k),
    }


def _algorithm_1(there: Case, start: tuple[int, ...], seed: int, uniform: int) -> Mapping[str, Any]:
    """From the paper's floor, as its tables have it, Algorithm 1 to the letter. What ran at first is a sample where it
    lies above the floor; as the paper counts, samples of the bootstrap set are no iterations."""
    running = engine(there, seed)
    floor = tuple(published(f"{there.family}/floor"))
    study = AskTellStudy(
        floor,
        there.p_max,
        there.latency_target,
        SCORE["alpha"],
        SCORE["over_allocation"],
        seed,
        faithful=True,
        max_runs=MOST_RUNS + uniform,
        settings=SearchSettings(uniform_samples=uniform),
    )
    first = [start] if start in study.lattice else []
    while not study.finished:
        k = first.pop() if first else study.ask()
        latency = window(running.run(there.topology.named(k), there.source_rates), there).latency
        study.tell(k, latency=latency) if latency is not None else study.tell(k, failed=True)
    samples = len(bootstrap_set(floor, there.p_max, uniform)) + (start in study.lattice)
    return {
        "runs": running.runs,
        "iterations": max(0, len(study.runs) - samples),
        "samples": samples,
        "floor": list(floor),
        "score": study.best.score,
        **truth(there, study.best.parallelism),
    }


def _default(there: Case, start: tuple[int, ...] | None, seed: int) -> Mapping[str, Any]:
    """What `tune` does, floor and all: from ones whatever runs, or from `start`. Every run after those of the floor is
    an iteration, second looks too."""
    about = Job(there.family, there.topology, there.p_max, there.source_rates, Target(there.latency_target))
    initial = {} if start is None else there.topology.named(start)
    settings = TuningSettings(SCORE["alpha"], SCORE["over_allocation"], MOST_RUNS, seed=seed, initial=initial)
    outcome = tune(about, engine(there, seed), settings)
    searched = sum(each.phase != "floor" for each in outcome.evaluations)
    return {
        "runs": len(outcome.evaluations),
        "iterations": searched,
        "floor": list(outcome.floor.values()),
        "score": outcome.best.score,
        "stop": outcome.stop_reason,
        "met": outcome.met_target,
        **truth(there, there.topology.vector(outcome.best.parallelism)),
    }
