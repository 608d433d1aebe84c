"""Starting from a stored model against starting cold, through the command line, store and library included.

    python -m experiments.warm_start.run                     # the simulated word count
    python -m experiments.warm_start.run --engine spark      # the real one on this machine, once: a quarter of an hour

Each job is tuned cold at its first rate and leaves a model. Then, at each of the other rates, it is tuned from that
model (`--warm-start auto`) and cold. Every tuning run is a process of its own with a store of its own to look into:
the warm ones find the first rate's model there and no other. Prints one JSON object for each run, then the sums.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
JOBS = {
    "simulator": ("wordcount-simulated.yaml", 350_000.0, (455_000.0, 280_000.0, 245_000.0)),
    "spark": ("wordcount.yaml", 1000.0, (1300.0, 700.0)),
}
NO_TARGET = 3  # exit code: done, but the target is not met


def runs_of(engine: str, seed: int, folder: Path) -> Iterator[dict[str, Any]]:
    file, first, others = JOBS[engine]
    job, learned = ROOT / "configs" / file, folder / "first"
    yield {"start": "cold, first", **tuned(job, first, seed, learned)}
    for rate in others:
        warm = folder / f"warm-{rate:g}"
        shutil.copytree(learned, warm)
        yield {"start": "warm", **tuned(job, rate, seed, warm)}
        yield {"start": "cold", **tuned(job, rate, seed, folder / f"cold-{rate:g}", "none")}


def tuned(job: Path, rate: float, seed: int, store: Path, warm_start: str = "auto") -> dict[str, Any]:
    """One tuning run as a user has it. The store is a folder with relative artefacts, so that it can be copied."""
    command = [
        sys.executable, "-m", "autotrascale.service.cli", "tune", str(job), "--rate", str(rate), "--seed", str(seed),
        "--store", f"sqlite:///{store}/mlflow.db", "--warm-start", warm_start, "--format", "json",
    ]  # fmt: skip
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
    for rate, start in dict.fromkeys((run["rate"], run["start"]) for run in runs):
        these = [run for run in runs if (run["rate"], run["start"]) == (rate, start)]
        yield {
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
    parser.add_argument("--engine", choices=list(JOBS), default="simulator")
    parser.add_argument("--seeds", type=int, help="how many; two on the simulator, one on Spark")
    arguments = parser.parse_args()
    runs: list[dict[str, Any]] = []
    print(json.dumps({"machine": {"cores": os.cpu_count(), "load": os.getloadavg()[0]}}), flush=True)
    for seed in range(arguments.seeds or (2 if arguments.engine == "simulator" else 1)):
        with tempfile.TemporaryDirectory() as name:
            for run in runs_of(arguments.engine, seed, Path(name)):
                runs.append(run)
                print(json.dumps(run), flush=True)
    for line in sums(runs):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
