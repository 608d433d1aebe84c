"""The search on hard jobs, from nothing and from models: by family, beside its peers and the paper's algorithms.

    runs to stop   runs until a configuration is accepted, second windows of it included
    regret         best score of the lattice less that of the recommendation, both without noise
    missed         accepted configurations whose true latency is above the target
    informed       knows the fastest frugal point, runs nothing else, and believes readings alone
    bounds         what searches reach that know the answer and still have to read it: no search betters them
    warm           at another rate, from the model of the first study; paired with a cold start and the same noise
    library        at each rate again, from the models of tuning runs at all others, and at this one too

Everything is simulated (`benchmarks/workloads/problems.py`); the family `recorded` is of simulated jobs
fitted to recorded trials of a Spark job. Without `--apart` the jobs are those seen in development; with it they are
drawn from those kept apart, by that seed. Each row goes to out/transfer.jsonl when it is measured, the figures to
out/transfer.json, and as tables to out/transfer.md.

    python -m benchmarks.quality.transfer_bench [--families total,near] [--jobs 2] [--seeds 1] [--apart SEED]
                                        [--methods autotrascale,paper,…] [--parts cold,warm,library,wrong,law,bounds]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from benchmarks.quality.transfer.figures import compute_figures
from benchmarks.quality.transfer.record import read_rows, write_rows
from benchmarks.quality.transfer.tables import format_markdown
from benchmarks.speed import search_bench
from benchmarks.workloads.transfer_jobs import FAMILIES, JobId, choose_jobs
from benchmarks.workloads.transfer_measures import METHODS, OURS, PARTS, Row, measure_job

PUBLISHED = 20_261_604  # the seed of the jobs kept apart that documents quote; take any other to check
JOBS, PROCESSES = 8, 2
ROWS = Path("out/transfer.jsonl")  # beside it .json and .md


def figures(apart: int | None = PUBLISHED, jobs: int = JOBS) -> dict[str, Any]:
    rows = _rows(choose_jobs(FAMILIES, jobs, apart), 1, METHODS, PARTS, PROCESSES)
    return _told({"apart": apart}, list(write_rows(ROWS, {"apart": apart}, rows)), speed=True)


def _rows(
    jobs: Sequence[JobId], seeds: int, methods: Sequence[str], parts: Sequence[str], processes: int
) -> Iterator[Row]:
    tasks = [(job, seed) for job in jobs for seed in range(seeds)]
    found = Parallel(processes, return_as="generator")(
        delayed(measure_job)(job, seed, methods, parts) for job, seed in tasks
    )
    for done, these in enumerate(found, start=1):
        if sys.stderr.isatty():
            print(f"\r{done} of {len(tasks)} jobs", end="\n" * (done == len(tasks)), file=sys.stderr, flush=True)
        yield from these


def _told(about: dict[str, Any], rows: Sequence[Row], speed: bool) -> dict[str, Any]:
    """The figures, which are written beside the rows."""
    found = {"simulated": True, **about, **compute_figures(rows)}
    if speed:
        found["tell_ask_seconds"] = search_bench.time_tell_and_ask()
    ROWS.with_suffix(".json").write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    ROWS.with_suffix(".md").write_text(format_markdown(found), encoding="utf-8")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(FAMILIES), help="with commas; all of them")
    parser.add_argument("--jobs", type=int, default=2, help="of each family")
    parser.add_argument("--seeds", type=int, default=1, help="of noise and search, for each job")
    parser.add_argument("--apart", type=int, metavar="SEED", help="jobs kept apart, drawn by this seed")
    parser.add_argument("--methods", default=OURS, help=f"of {','.join(METHODS)}")
    parser.add_argument("--parts", default="cold,warm", help=f"of {','.join(PARTS)}")
    parser.add_argument("--speed", action="store_true", help="time tell and ask too, beside scikit-optimize")
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--read", type=Path, metavar="ROWS", help="measure nothing: the tables of rows written before")
    arguments = parser.parse_args()
    families, methods, parts = (
        _some(parser, name, getattr(arguments, name), known)
        for name, known in (("families", FAMILIES), ("methods", METHODS), ("parts", PARTS))
    )
    if arguments.read:
        about, rows = read_rows(arguments.read)
        print(format_markdown(about | compute_figures(rows)))
        return
    began, jobs = time.perf_counter(), choose_jobs(families, arguments.jobs, arguments.apart)
    about = {"apart": arguments.apart, "jobs": len(jobs), "seeds": arguments.seeds}
    found = _rows(jobs, arguments.seeds, methods, parts, arguments.processes)
    print(format_markdown(_told(about, list(write_rows(ROWS, about, found)), arguments.speed)))
    print(f"{len(jobs)} jobs, {time.perf_counter() - began:.0f} s", file=sys.stderr)


def _some(parser: argparse.ArgumentParser, name: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    given = tuple(text.split(","))
    if unknown := sorted(set(given) - set(known)):
        parser.error(f"--{name}: no such as {', '.join(unknown)}; there are {', '.join(known)}")
    return given


if __name__ == "__main__":
    # By its own name, for the worker processes to find what they are sent.
    from benchmarks.quality.transfer_bench import main as run

    run()
