"""The worth of one more instance, predicted and measured. Eight minutes.

    python -m benchmarks.quality.worth_bench

Jobs on real Spark (`planted/worth.py`), each unchanged and with one more instance of each operator in turn. Worth is
the share of a batch's time that the instance saves, for a batch of the same records. Predicted from the batches of the
unchanged job:

    loads          the time of the operator's stage, from `Sizing.stages` for k and for k + 1
    search         the search's own model after one run of the unchanged job (`surrogate.py`)
    participation  `one-more` of critical participation: the time that the longest path loses

Measured: the median over rounds of the difference to the unchanged job in the same round. `off` is the error of a
prediction in shares of a batch, mean over operators. `first` counts the jobs whose best operator was predicted right.

The search assumes batches that follow each other at one rate, b = o/(1 − Σρ), where saved time shortens the next batch
too. A batch of the same records has b'/b = (o'/o · (1 − Σρ) + Σρ'), with o' and ρ' from the search.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

import numpy as np

from autotrascale.analyze import metrics
from autotrascale.analyze.critical.bottleneck_shares import measure_batch_participation
from autotrascale.analyze.facts import BatchFact
from autotrascale.analyze.live.application import FollowedApplication
from autotrascale.domain.critical_path_report import average_reports
from autotrascale.monitor.eventlog.follower import Follower
from autotrascale.plan.search.surrogate import SessionReadings, fit
from autotrascale.plan.sizing.sizing import Sizing, size
from benchmarks.quality.planted.worth import JOBS, ROWS, WARM_UP_BATCHES, Worth, run_worth_jobs

P_MAX = 16
WAYS = ("loads", "search", "participation")
Expected = dict[str, float]  # worth of each operator


def figures(rounds: int = 6, seed: int = 19, kept: Path | None = None) -> dict[str, Any]:
    """Return predictions, measurements and errors. `kept` is a folder with the event logs of an earlier run."""
    with tempfile.TemporaryDirectory(prefix="worth-bench-") as own:
        if kept is None:
            run_worth_jobs(JOBS, rounds, Path(own), seed)
        batches = _batches(kept or Path(own) / "events")
    jobs = {job.name: _of(job, batches) for job in JOBS if all(job.query(way) in batches for way in job.ways)}
    each = [row for job in jobs.values() for row in job["operators"].values()]
    return {
        "jobs": jobs,
        "operators": len(each),
        "off": {way: round(fmean(abs(row[way] - row["measured"]) for row in each), 3) for way in WAYS},
        "first": {way: sum(_first(job["operators"], way) for job in jobs.values()) for way in WAYS},
        "load_average": os.getloadavg()[0],
    }


def _of(job: Worth, batches: Mapping[str, Sequence[BatchFact]]) -> dict[str, Any]:
    rounds = {way: _rounds(job, batches[job.query(way)]) for way in job.ways}
    base = [batch for batch in rounds[""] if batch is not None]
    expected = {"loads": _loads(job, base), "search": _search(job, base), "participation": _participation(job, base)}
    found = {}
    for operator in job.ways[1:]:
        pairs = zip(rounds[operator], rounds[""], strict=True)
        saved = [1 - one.seconds / other.seconds for one, other in pairs if one is not None and other is not None]
        low, _, high = quantiles(saved, n=4)
        found[operator] = {
            "measured": round(median(saved), 3),
            "half_of_rounds": [round(low, 3), round(high, 3)],
            **{way: round(expected[way][operator], 3) for way in WAYS},
        }
    return {"batch_seconds": round(median(batch.seconds for batch in base), 2), "rounds": len(base), "operators": found}


def _rounds(job: Worth, batches: Sequence[BatchFact]) -> list[BatchFact | None]:
    """Return the batches after warm-up, by round.

    A batch is None where Spark saw the file of one source before the file of the other, and made two batches.
    """
    found: list[BatchFact | None] = []
    whole, so_far = ROWS * len(job.sources), 0
    for batch in batches:
        so_far += batch.input_records or 0
        if so_far >= whole:
            found.append(batch if batch.input_records == whole else None)
            so_far = 0
    return found[WARM_UP_BATCHES:]


def _loads(job: Worth, batches: Sequence[BatchFact]) -> Expected:
    sizing = _sized(job, batches)
    now = dict(zip(sizing.operators, sizing.stages(_point(sizing, job)), strict=True))
    return {
        name: now[name] - dict(zip(sizing.operators, sizing.stages(_point(sizing, job, name)), strict=True))[name]
        for name in job.ways[1:]
    }


def _search(job: Worth, batches: Sequence[BatchFact]) -> Expected:
    sizing = _sized(job, batches)
    base = _point(sizing, job)
    seen = fit(SessionReadings(sizing.above(base), (base,), (0.0,), (1.0,), (False,)))
    points = np.array([base, *(_point(sizing, job, name) for name in job.ways[1:])], dtype=float)
    logs, _ = seen.log_ratio(points)
    loads, _ = seen.latency_model.log_loads(points, np.zeros(len(points)), seen.beta)
    busy = (np.exp(loads) / points).sum(axis=1)
    fixed = np.exp(logs - logs[0]) * (1 - busy) / (1 - busy[0])  # o'/o, of b = o / (1 − Σρ)
    left = fixed * (1 - busy[0]) + busy
    return {name: float(1 - each) for name, each in zip(job.ways[1:], left[1:], strict=True)}


def _participation(job: Worth, batches: Sequence[BatchFact]) -> Expected:
    window = average_reports([each for batch in batches if (each := measure_batch_participation(batch)) is not None])
    share = window.path_seconds / window.seconds
    worth = {each.of: share * (1 - each.at_best) for each in window.what_ifs if each.change == "one-more"}
    return {name: worth.get(name, 0.0) for name in job.ways[1:]}


def _sized(job: Worth, batches: Sequence[BatchFact]) -> Sizing:
    """Return the sizing at the rate at which such batches follow each other."""
    seconds = fmean(batch.seconds for batch in batches)
    rates = dict.fromkeys(job.sources, ROWS / seconds)
    found = size(metrics.take_snapshot(job.name, job.topology, P_MAX, rates, batches))
    assert isinstance(found, Sizing), found
    return found


def _point(sizing: Sizing, job: Worth, more: str = "") -> tuple[int, ...]:
    return tuple(job.parallelism[name] + (name == more) for name in sizing.operators)


def _first(operators: Mapping[str, Mapping[str, float]], way: str) -> bool:
    def most(by: str) -> str:
        return max(operators, key=lambda name: operators[name][by])

    return most(way) == most("measured")


def _batches(logs: Path) -> dict[str, list[BatchFact]]:
    """Return the batches of each query, by its name."""
    found = {}
    for folder in sorted(logs.glob("eventlog_v2_*")):
        told = FollowedApplication(Follower(logs, folder.name.removeprefix("eventlog_v2_"), consume=False))
        told.poll()
        found |= {each.name: each.batches for each in told.runs.values()}
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seed", type=int, default=19, help="of the order of the queries")
    parser.add_argument("--keep", type=Path, help="where the event logs shall stay")
    parser.add_argument("--logs", type=Path, help="event logs of a run that was kept")
    asked = parser.parse_args(arguments)
    kept = asked.logs
    if asked.keep is not None:
        run_worth_jobs(JOBS, asked.rounds, asked.keep.absolute(), asked.seed)
        kept = asked.keep / "events"
    print(json.dumps(figures(asked.rounds, asked.seed, kept), indent=2))


if __name__ == "__main__":
    main()
