"""The throughput floor of four workloads from one instance each (AuTraScale §V-B, Fig. 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.shared.driving import engine, find_floor
from experiments.shared.jobs import job, offered

RATES = {"wordcount": 350e3, "yahoo": 60e3, "q5": 30e3, "q11": 100e3}
SEEDS = 30
CORRECTIONS = 2  # as a tuning run has them


def cases() -> Sequence[Mapping[str, Any]]:
    """Without noise once, and with that of the job for each seed: as the paper stops, and as we do."""
    exact = [{"job": name, "rate": rate, "noise": False, "seed": 0, "corrections": 0} for name, rate in RATES.items()]
    noisy = [
        {"job": name, "rate": rate, "noise": True, "seed": seed, "corrections": corrections}
        for name, rate in RATES.items()
        for corrections in (0, CORRECTIONS)
        for seed in range(SEEDS)
    ]
    return [*exact, *noisy]


def measure(case: Mapping[str, Any]) -> Mapping[str, Any]:
    there = offered(job(case["job"]), case["rate"])
    running = engine(there, case["seed"], None if case["noise"] else 0.0)
    found = find_floor(there, running, corrections=case["corrections"]).result
    steps = [{"k": list(step.parallelism.values()), "throughput": step.throughput} for step in found.steps]
    return {"steps": steps, "floor": list(found.parallelism.values()), "met": found.met, "stop": str(found.stop_reason)}
