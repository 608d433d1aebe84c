"""DS2 asked after each trial of a query, from too little and from much, until it wants no other; and it and Dhalion on
the word count from ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from autotrascale.app.job_file import JobFile
from autotrascale.domain.job import Job
from autotrascale.execute.engine import Engine
from autotrascale.plan.policies.registry import PolicyChoice
from autotrascale.tuning import TuningSettings, tune
from autotrascale.validation import validate
from experiments.shared.record import Case, Measure, Sitting
from experiments.shared.spark_jobs import QUERIES, all_at, content
from experiments.shared.trials import told

STARTS = (1, 8)  # instances of each operator that is no source
MOST_TRIALS = 6
# Dhalion tells back-pressure from three batches at least, and those of one instance each are long.
LONG_WINDOW = {"window_seconds": 4.0, "min_batches": 5, "max_seconds": 60.0}
DHALIONS_TRIALS = 8


def cases() -> Sequence[Case]:
    grid = [Case(query, f"from {start}", "ds2") for query in QUERIES for start in STARTS]
    return [*grid, *(Case("wordcount", "from 1", policy) for policy in ("ds2", "dhalion"))]


@contextmanager
def measuring(sitting: Sitting) -> Iterator[Measure]:
    made = content(sitting.bench, sitting.slow)
    if sitting.bench == "wordcount":
        window = {key: value * (sitting.slow if key.endswith("seconds") else 1) for key, value in LONG_WINDOW.items()}
        made["spark"]["window"] = window
    job, engine = validate(made, JobFile, place=sitting.bench).open("spark", sitting.seed)
    with engine:
        yield lambda case: measure(case, job, engine, sitting.seed)


def measure(case: Case, job: Job, engine: Engine, seed: int) -> dict[str, Any]:
    start = all_at(job.topology, int(case.kind.removeprefix("from ")))
    settings = TuningSettings(total_trials=MOST_TRIALS, noise=0.1, seed=seed, initial=start)
    if case.bench == "wordcount":
        settings = replace(settings, total_trials=DHALIONS_TRIALS)
    return told(tune(job, engine, settings, policy=PolicyChoice(case.policy)))
