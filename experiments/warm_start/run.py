"""Starting from a stored model against starting cold, through the command line, store and library included.

    python -m experiments.warm_start.run                     # the simulated word count
    python -m experiments.warm_start.run --engine spark      # three real jobs on this machine: an hour and more
    python -m experiments.warm_start.run --engine spark --job wordcount

A sequence: each job is tuned cold at its first rate, and then at three others, one after the other, from what the runs
before it left in the store (`--warm-start auto`), and beside it cold, with an empty store. Every run is a process
of its own. Prints one JSON object for each run, then the sums.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SEQUENCES: dict[str, dict[str, tuple[float, ...]]] = {
    "simulator": {"wordcount-simulated": (350_000.0, 455_000.0, 280_000.0, 245_000.0)},
    "spark": {
        "wordcount": (1000.0, 1300.0, 700.0, 850.0),
        "nexmark-q2": (1500.0, 2000.0, 1000.0, 1250.0),
        "nexmark-q5": (800.0, 1000.0, 600.0, 700.0),
    },
}
NO_TARGET = 3  # exit code: done, but the target is not met


def runs_of(name: str, rates: Sequence[float], seed: int, folder: Path) -> Iterator[dict[str, Any]]:
    job, learned = ROOT / "configs" / f"{name}.yaml", folder / "learned"
    first, *others = rates
    yield {"job": name, "start": "cold, first", **tuned(job, first, seed, learned)}
    for rate in others:
        yield {"job": name, "start": "cold", **tuned(job, rate, seed, folder / f"cold-{rate:g}", "none")}
        yield {"job": name, "start": "warm", **tuned(job, rate, seed, learned)}


def tuned(job: Path, rate: float, seed: int, store: Path, warm_start: str = "auto") -> dict[str, Any]:
    """One tuning run as a user has it."""
    command = [
        sys.executable,
        "-m",
        "autotrascale.cli.main",
        "tune",
        str(job),
        "--rate",
        str(rate),
        "--seed",
        str(seed),
        "--store",
        f"sqlite:///{store}/mlflow.db",
        "--warm-start",
        warm_start,
        "--format",
        "json",
    ]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode not in (0, NO_TARGET):
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    answer = json.loads(done.stdout)
    best = answer["best"]
    return {
        "rate": rate,
        "seed": seed,
        "trials": answer["evaluations"],
        "met": answer["met_target"],
        "parallelism": list(best["parallelism"].values()),
        "instances": sum(best["parallelism"].values()),
        "latency_seconds": best["latency_seconds"],
        "stop": answer["stop_reason"],
        "seconds": round(time.perf_counter() - began, 1),
        "product_says": answer["cold_run"],
        "started_from": answer["warm_start"][0],
    }


def sums(runs: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for name, rate, start in dict.fromkeys((run["job"], run["rate"], run["start"]) for run in runs):
        these = [run for run in runs if (run["job"], run["rate"], run["start"]) == (name, rate, start)]
        yield {
            "job": name,
            "rate": rate,
            "start": start,
            "runs": len(these),
            "trials_mean": round(statistics.mean(run["trials"] for run in these), 2),
            "trials_worst": max(run["trials"] for run in these),
            "target_met": sum(run["met"] for run in these),
            "instances_mean": round(statistics.mean(run["instances"] for run in these), 1),
            "seconds_mean": round(statistics.mean(run["seconds"] for run in these), 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=list(SEQUENCES), default="simulator")
    parser.add_argument("--job", help="one of the engine's sequences; all of them")
    parser.add_argument("--seeds", type=int, help="how many; two on the simulator, one on Spark")
    arguments = parser.parse_args()
    runs: list[dict[str, Any]] = []
    print(json.dumps({"machine": {"cores": os.cpu_count(), "load": os.getloadavg()[0]}}), flush=True)
    sequences = SEQUENCES[arguments.engine]
    if arguments.job not in (None, *sequences):
        parser.error(f"--job: no such as {arguments.job}; there are {', '.join(sequences)}")
    for seed in range(arguments.seeds or (2 if arguments.engine == "simulator" else 1)):
        for name in [arguments.job] if arguments.job else sequences:
            with tempfile.TemporaryDirectory() as folder:
                for run in runs_of(name, sequences[name], seed, Path(folder)):
                    runs.append(run)
                    print(json.dumps(run), flush=True)
    for line in sums(runs):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
