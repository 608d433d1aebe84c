"""The word count as a job that runs on, on real Spark, while its input rises and falls again: each policy in the same
loop, with the same manager's knobs.

Times in seconds since the loop began. Where nothing was measured, since the job stood still or no batch ended, a look
says nothing and counts neither way.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from experiments.shared.live import autoscaled
from experiments.shared.record import Case, Measure, Sitting
from experiments.shared.spark_jobs import SLOTS

# `queueing` has no counterpart in batches and would hold throughout; `queueing-path` looks at the batch's latency.
POLICIES = ("threshold", "queueing-path", "ds2", "autrascale")
SECONDS = 130.0
TARGET_SECONDS = 4.0
# Since when, and how many records for each second.
PHASES = ((0.0, 500.0), (40.0, 1200.0), (90.0, 500.0))
START = {"source": 1, "flatmap": 4, "count": 3, "sink": 1}
# The paper's 50 and 150 records are for queues in front of each function. Here what comes during a batch waits for the
# next: as many seconds of input as a batch takes.
OPTIONS: Mapping[str, Mapping[str, float]] = {"threshold": {"scale_in": 1000.0, "scale_out": 3000.0}}


def cases() -> Sequence[Case]:
    return [Case("wordcount", "live", policy) for policy in POLICIES]


@contextmanager
def measuring(sitting: Sitting) -> Iterator[Measure]:
    """Each loop starts a session of its own."""
    yield lambda case: measure(case, sitting.slow)


def measure(case: Case, slow: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="live-policies-") as folder:
        entries, sentence = autoscaled(content(case.policy, slow), SECONDS * slow, Path(folder))
    return {**judged(entries, slow), "sentence": sentence, "looks": [_look(each) for each in entries]}


def content(policy: str, slow: float) -> dict[str, Any]:
    shape = [[0.0, PHASES[0][1] / 1000]]
    for (_, before), (at, after) in pairwise(PHASES):
        shape += [[at * slow, before / 1000], [at * slow, after / 1000]]
    seconds = {
        "interval_seconds": 5,
        "running_seconds": 10,
        "backlog_seconds": 6,
        "catch_up_seconds": 30,
        "scale_down_delay_seconds": 15,
    }
    planning = {"horizon_seconds": 15, "recall_seconds": 15, "review_seconds": 40}
    return {
        "version": 1,
        "job": f"live-{policy}",
        "p_max": SLOTS,
        "source_rates": {"source": 1000 / slow},
        "target": {"latency_seconds": TARGET_SECONDS * slow, "throughput_tolerance": 0.05},
        "tuning": {"noise": 0.1, "initial": START},
        "policy": policy,
        "policy_options": dict(OPTIONS.get(policy, {})),
        "manager": {name: value * slow for name, value in seconds.items()},
        "autoscale": {"rescales_per_day": 1000, "planning": {name: each * slow for name, each in planning.items()}},
        "spark": {
            "job": "autotrascale.execute.spark.jobs.wordcount:WordCount",
            "master": f"local[{SLOTS}]",
            "load_shape": shape,
            "options": {"flatmap_stall": 0.002 * slow, "count_stall": 0.0005 * slow},
        },
    }


def _look(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "at": round(entry["at"], 1),
        "rate": entry["rate"],
        "latency": entry["latency_seconds"],
        "k": list(entry["running"].values()),
        "action": entry["action"],
        "codes": [reason["code"] for reason in entry["reasons"]],
    }


def judged(entries: Sequence[Mapping[str, Any]], slow: float) -> dict[str, Any]:
    """`settled`: of each phase, how long after its beginning the target was met for good; None: not within it."""
    seen = [
        (entry["at"] / slow, entry["latency_seconds"] <= TARGET_SECONDS * slow)
        for entry in entries
        if entry["latency_seconds"] is not None
    ]
    ends = [*(at for at, _ in PHASES[1:]), SECONDS]
    settled = [_settled(seen, began, end) for (began, _), end in zip(PHASES, ends, strict=True)]
    held = [
        (min(later["at"], SECONDS * slow) - entry["at"], sum(entry["running"].values()))
        for entry, later in pairwise([*entries, {"at": SECONDS * slow}])
    ]
    return {
        "measured": len(seen),
        "within": sum(good for _, good in seen),
        "settled": settled,
        "rescales": sum(entry["action"] == "rescaled" for entry in entries),
        "instances": round(sum(seconds * k for seconds, k in held) / sum(seconds for seconds, _ in held), 2),
    }


def _settled(seen: Sequence[tuple[float, bool]], began: float, end: float) -> float | None:
    within = [(at, good) for at, good in seen if began < at <= end]
    missed = [i for i, (_, good) in enumerate(within) if not good]
    first = missed[-1] + 1 if missed else 0
    return round(within[first][0] - began, 1) if first < len(within) else None
