"""One case on an open engine, as plain data."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from autotrascale.domain.job import Job
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.engine import Engine
from autotrascale.plan.policies import PolicyChoice
from autotrascale.tuning import Evaluation, Outcome, Tuning, tune
from experiments.elasticity_spark.cases import BENCHES, FIXED, MOST_TRIALS, RISING, SWEEP, Case


class SameStart:
    """All policies begin at the same parallelism, and are told the same reading of it: measured once."""

    simulated = False

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._first: dict[tuple[int, ...], Trial] = {}
        self._begun = False

    def begin(self) -> None:
        """Of a case: its next trial is its first."""
        self._begun = False

    def run(self, parallelism: Mapping[str, int], source_rates: Mapping[str, float]) -> Trial:
        first, self._begun = not self._begun, True
        k = tuple(parallelism.values())
        if first and k in self._first:
            return self._first[k]
        trial = self._engine.run(parallelism, source_rates)
        if first and trial.verdict is not Verdict.FAILED:
            self._first[k] = trial
        return trial

    def close(self) -> None:
        """The engine is the caller's."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def measure(case: Case, job: Job, engine: SameStart, seed: int) -> dict[str, Any]:
    began = time.monotonic()
    engine.begin()
    found = elastic(case, job, engine, seed) if case.policy else {"rate": job.rate, "points": swept(case, job, engine)}
    return {**found, "seconds": round(time.monotonic() - began, 1)}


def swept(case: Case, job: Job, engine: SameStart) -> list[dict[str, Any]]:
    """Throughput and latency with so many instances of every operator, or with a few at a rate that rises."""
    at = [(p, 1.0) for p in SWEEP] if case.kind == "sweep" else [(FIXED, share) for share in RISING]
    return [_point(p, share, job, engine) for p, share in at]


def _point(p: int, share: float, job: Job, engine: SameStart) -> dict[str, Any]:
    rates = {name: rate * share for name, rate in job.source_rates.items()}
    trial = engine.run(dict.fromkeys(job.topology, p), rates)
    snapshot = trial.snapshot
    return {
        "p": p, "rate": job.rate * share, "verdict": trial.verdict.value,
        "throughput": None if snapshot is None else snapshot.throughput,
        "latency": None if snapshot is None else snapshot.latency_seconds.mean,
        "batch_seconds": None if snapshot is None else snapshot.batch_seconds,
        "starved": trial.shortage is not None,
    }  # fmt: skip


def elastic(case: Case, job: Job, engine: SameStart, seed: int) -> dict[str, Any]:
    """A tuning run by the case's policy, from too little or from too much."""
    bench = BENCHES[case.bench]
    initial = bench.up if case.kind == "up" else bench.down
    settings = Tuning(total_trials=MOST_TRIALS, noise=0.1, seed=seed, initial=initial)
    outcome = tune(job, engine, settings, policy=PolicyChoice(case.policy))
    return {"rate": job.rate, "target": job.target.latency_seconds, **_told(outcome)}


def _told(outcome: Outcome) -> dict[str, Any]:
    best = outcome.best
    k = list(best.parallelism.values())
    return {
        "operators": list(best.parallelism), "k": k, "tasks": sum(k), "slots": max(k),
        "latency": best.latency_seconds, "throughput": best.throughput, "qos": _holds(outcome),
        "stop_reason": outcome.stop_reason, "trials": [_trial(each) for each in outcome.evaluations],
    }  # fmt: skip


def _holds(outcome: Outcome) -> bool:
    """As measured where it ended, the same for all: rate carried, latency within the target."""
    best = outcome.best
    return best.latency_seconds is not None and best.latency_seconds <= outcome.job.target.latency_seconds


def _trial(each: Evaluation) -> dict[str, Any]:
    return {
        "k": list(each.parallelism.values()), "phase": each.phase, "verdict": each.verdict.value,
        "latency": each.latency_seconds, "throughput": each.throughput, "seconds": round(each.seconds, 1),
        "starved": each.shortage is not None,
    }  # fmt: skip
