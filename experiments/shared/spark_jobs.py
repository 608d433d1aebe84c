"""The jobs of the experiments on real Spark, as job files: two of the papers' and the queries of Nexmark.

The papers' clusters have tens of slots for an operator. Here two cores have 12, and operators stall for each record as
a blocking call would: that takes time and no CPU, so that parallelism shows its effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from autotrascale.app.job_file import JobFile
from autotrascale.domain.job import Job
from autotrascale.domain.topology import Topology
from autotrascale.execute.engine import Engine
from autotrascale.validation import validate
from experiments.shared.claim import ROOT
from experiments.shared.record import Sitting

SLOTS = 12
MOST_TRIALS = 8  # of one case
WINDOW = {"window_seconds": 4.0, "min_batches": 5, "max_seconds": 30.0}
WINDOW_OF_QUERIES = {**WINDOW, "window_seconds": 6.0}  # what some of them do depends on windows of 10 s of their own
QUERIES = ("q1", "q2", "q3", "q5", "q8", "q11")


@dataclass(frozen=True)
class Bench:
    """`up` and `down`: what runs when a policy is asked first. They are the starts of AuTraScale's Tables II and III in
    proportion to the slots; its fifth operator of Yahoo is two here."""

    name: str
    job: str
    options: dict[str, float]
    rate: float
    target_seconds: float
    up: dict[str, int]
    down: dict[str, int]

    def content(self) -> dict[str, Any]:
        return {
            "version": 1,
            "job": self.name,
            "source_rates": {"source": self.rate},
            "target": {"latency_seconds": self.target_seconds, "throughput_tolerance": 0.05},
            "spark": {"job": self.job, "options": self.options},
        }


WORDCOUNT = Bench(
    "wordcount",
    "autotrascale.execute.spark.jobs.wordcount:WordCount",
    {"flatmap_stall": 0.002, "count_stall": 0.0005},
    rate=800.0,
    target_seconds=2.5,
    up={"source": 1, "flatmap": 1, "count": 3, "sink": 1},
    down={"source": 11, "flatmap": 10, "count": 7, "sink": 6},
)
YAHOO = Bench(
    "yahoo",
    "examples.jobs.yahoo:Yahoo",
    {"parse_stall": 0.0005, "join_stall": 0.003, "store_stall": 0.002},
    rate=700.0,
    target_seconds=3.0,
    up={"source": 1, "parse": 1, "filter": 1, "project": 1, "join": 1, "store": 1},
    down=dict.fromkeys(("source", "parse", "filter", "project", "join", "store"), SLOTS),
)
BENCHES = {bench.name: bench for bench in (WORDCOUNT, YAHOO)}


def content(name: str, slow: float = 1.0) -> dict[str, Any]:
    """The job file of a bench, or of a query. `slow`: all takes so much longer, and what an operator needs of each
    second of input stays the same."""
    if name in BENCHES:
        found, given = BENCHES[name].content(), WINDOW
    else:
        given = WINDOW_OF_QUERIES
        found = yaml.safe_load((ROOT / "configs" / f"nexmark-{name}.yaml").read_text(encoding="utf-8"))
    window = {key: value * (slow if key.endswith("seconds") else 1) for key, value in given.items()}
    stalls = found["spark"]["options"]
    options = {key: value * slow if key.endswith("_stall") else value for key, value in stalls.items()}
    return {
        **found,
        "p_max": SLOTS,
        "source_rates": {source: rate / slow for source, rate in found["source_rates"].items()},
        "target": {**found["target"], "latency_seconds": found["target"]["latency_seconds"] * slow},
        "tuning": {"total_trials": MOST_TRIALS, "noise": 0.1},
        "spark": {**found["spark"], "options": options, "master": f"local[{SLOTS}]", "window": window},
    }


@contextmanager
def opened(sitting: Sitting) -> Iterator[tuple[Job, Engine]]:
    """The bench's job on a session of its own."""
    file = validate(content(sitting.bench, sitting.slow), JobFile, place=sitting.bench)
    job, engine = file.open_engine("spark", sitting.seed)
    with engine:
        yield job, engine


def all_at(topology: Topology, k: int) -> Mapping[str, int]:
    """So many instances of each operator that is no source."""
    return {name: 1 if name in topology.sources else k for name in topology}
