"""One case on an open engine, as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from autotrascale.domain.job import Job
from autotrascale.plan.policies.registry import PolicyChoice
from autotrascale.tuning import TuningSettings, tune
from experiments.elasticity_spark.cases import FIXED, RISING, SWEEP
from experiments.shared.record import Case, Measure, Sitting
from experiments.shared.spark_jobs import BENCHES, MOST_TRIALS, opened
from experiments.shared.trials import SameStart, told


@contextmanager
def measuring(sitting: Sitting) -> Iterator[Measure]:
    with opened(sitting) as (job, engine):
        started = SameStart(engine)
        yield lambda case: measure(case, job, started, sitting.seed)


def measure(case: Case, job: Job, engine: SameStart, seed: int) -> dict[str, Any]:
    engine.begin()
    return elastic(case, job, engine, seed) if case.policy else {"rate": job.rate, "points": swept(case, job, engine)}


def swept(case: Case, job: Job, engine: SameStart) -> list[dict[str, Any]]:
    """Throughput and latency with so many instances of every operator, or with a few at a rate that rises."""
    at = [(p, 1.0) for p in SWEEP] if case.kind == "sweep" else [(FIXED, share) for share in RISING]
    return [_point(p, share, job, engine) for p, share in at]


def _point(p: int, share: float, job: Job, engine: SameStart) -> dict[str, Any]:
    rates = {name: rate * share for name, rate in job.source_rates.items()}
    trial = engine.run(dict.fromkeys(job.topology, p), rates)
    snapshot = trial.snapshot
    return {
        "p": p,
        "rate": job.rate * share,
        "verdict": trial.verdict.value,
        "throughput": None if snapshot is None else snapshot.throughput,
        "latency": None if snapshot is None else snapshot.latency_seconds.mean,
        "batch_seconds": None if snapshot is None else snapshot.batch_seconds,
        "starved": trial.shortage is not None,
    }


def elastic(case: Case, job: Job, engine: SameStart, seed: int) -> dict[str, Any]:
    """A tuning run by the case's policy, from too little or from too much."""
    bench = BENCHES[case.bench]
    initial = bench.up if case.kind == "up" else bench.down
    settings = TuningSettings(total_trials=MOST_TRIALS, noise=0.1, seed=seed, initial=initial)
    return told(tune(job, engine, settings, policy=PolicyChoice(case.policy)))
