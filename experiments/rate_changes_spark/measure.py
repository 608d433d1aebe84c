"""A change of the rate on real Spark: AuTraScale from a model of the rate before, and DS2 from what it had there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from autotrascale.domain.job import Job
from autotrascale.execute.engine import Engine
from autotrascale.plan.policies.registry import PolicyChoice
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.tuning import Outcome, TuningSettings, tune
from experiments.shared.published import published
from experiments.shared.record import Case, Measure, Sitting
from experiments.shared.spark_jobs import MOST_TRIALS, opened
from experiments.shared.trials import told

CHANGED = ("q5", "q11")
METHODS = ("autrascale", "ds2")


def cases() -> Sequence[Case]:
    """`autrascale` measures the rate before, from the model of that the rate after, and that without any model too."""
    return [Case(query, "change", method) for query in CHANGED for method in METHODS]


@contextmanager
def measuring(sitting: Sitting) -> Iterator[Measure]:
    with opened(sitting) as (job, engine):
        yield lambda case: measure(case, job, engine, sitting.seed)


def measure(case: Case, job: Job, engine: Engine, seed: int) -> dict[str, Any]:
    """The job file's rate is the one after; the one before lies as far below as in the paper."""
    change = published(f"{case.bench}/change")
    before = job.at_rate(job.rate * change["from"] / change["to"])
    return _searched(before, job, engine, seed) if case.policy == "autrascale" else _ds2(before, job, engine, seed)


def _searched(before: Job, after: Job, engine: Engine, seed: int) -> dict[str, Any]:
    settings = TuningSettings(total_trials=MOST_TRIALS, noise=0.1, seed=seed)

    def tuned(job: Job, sources: Sequence[BenefitModel] = ()) -> Outcome:
        return tune(job, engine, settings, sources=sources)

    first = tuned(before)
    sources = [] if first.model is None else [first.model]
    return _both(told(first), told(tuned(after, sources)), told(tuned(after)))


def _ds2(before: Job, after: Job, engine: Engine, seed: int) -> dict[str, Any]:
    """Each from what it has: at first that is ones."""
    choice = PolicyChoice("ds2")
    first = tune(before, engine, TuningSettings(total_trials=MOST_TRIALS, noise=0.1, seed=seed), policy=choice)
    settings = TuningSettings(total_trials=MOST_TRIALS, noise=0.1, seed=seed, initial=first.best.parallelism)
    return _both(told(first), told(tune(after, engine, settings, policy=choice)), None)


def _both(before: dict[str, Any], after: dict[str, Any], cold: dict[str, Any] | None) -> dict[str, Any]:
    """`trials` are all of them, for the count of those that were short of cores."""
    runs = [each for part in (before, after, cold) if part for each in part["trials"]]
    return {"before": before, "after": after, "cold": cold, "trials": runs}
