"""Measure the cost of a day's load with elastic executors: `python -m benchmarks.quality.executors_bench`.

The day is compressed into minutes; its load is between a tenth and all of the peak. The same program
(`executors/program.py`) with the same records runs in three ways on a standalone cluster on this machine:

static peak          as many executors as the peak needs, all day
dynamic allocation   Spark's own, by waiting tasks and idle executors
ours                 `autotrascale run --apply` with short times for its loop (job file in `executors/variants.py`)

Reported for each:

- executor-seconds relative to the static peak; a process counts until it is gone
- ten-second windows of arrivals whose mean latency meets the target
- seconds from a decision to release executors until they are gone
- lost and doubled records

A minute of night before the day does not count.

    python -m benchmarks.quality.executors_bench --minutes 20 --seed 1
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autotrascale.plan.sizing.executor_plan import compute_price
from autotrascale.testing.standalone_cluster import standalone
from benchmarks.quality.executors.day import Day
from benchmarks.quality.executors.variants import VARIANTS, Outcome, Wanted, run, say

PEAK = 4  # least executors that hold the peak
RATE = 80.0  # records per second at the peak
WAIT_MS = 8  # service time of a record, for each executor of the peak
TARGET = 6.0  # seconds: mean latency, from arrival to the batch's end


def figures(
    minutes: float = 20.0, seed: int = 0, only: tuple[str, ...] = (), keep: Path | None = None, peak: int = PEAK
) -> dict[str, Any]:
    day = Day(60 * minutes, low=RATE / 10, high=RATE, wait_ms=WAIT_MS * peak, seed=seed)
    wanted = Wanted(peak, target=TARGET, night=60.0, price=0.12)
    outcomes: list[Outcome] = []
    for variant in VARIANTS:
        if only and variant.name not in only:
            continue
        # A new cluster, without processes of the variant before.
        with tempfile.TemporaryDirectory(prefix="executors-bench-") as work:
            folder = Path(work, "program")
            folder.mkdir()
            with standalone(Path(work, "cluster"), workers=peak, cores=1, memory="1g") as cluster:
                outcome = run(variant, cluster, day, folder, wanted)
            if keep is not None:
                _keep(folder, keep / variant.name.replace(" ", "-"))
        in_target = f"{outcome.in_target} of {outcome.windows} windows in target"
        say(f"{outcome.variant}: {outcome.executor_seconds:.0f} executor-seconds, {in_target}")
        outcomes.append(outcome)
    return {
        "minutes": minutes,
        "seed": seed,
        "target_seconds": TARGET,
        "peak": peak,
        "variants": [described(outcome, wanted) for outcome in outcomes],
    }


def _keep(folder: Path, where: Path) -> None:
    """Keep reports and decisions for inspection."""
    where.mkdir(parents=True, exist_ok=True)
    for name in ("progress.jsonl", "decisions.db", "mlflow.db"):
        if (folder / name).exists():
            shutil.copy(folder / name, where)


def described(outcome: Outcome, wanted: Wanted) -> dict[str, Any]:
    releases, peak = outcome.releases, wanted.most * outcome.seconds
    return {
        **asdict(outcome),
        "releases": len(releases),
        "release_seconds_median": round(statistics.median(releases), 1) if releases else None,
        "release_seconds_max": max(releases, default=None),
        "of_static_peak": round(outcome.executor_seconds / peak, 3),
        "in_target_share": round(outcome.in_target / outcome.windows, 3) if outcome.windows else None,
        "price": round(compute_price(outcome.executor_seconds, 1.0, wanted.price), 4),
        "price_of_static_peak": round(compute_price(peak, 1.0, wanted.price), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0, help="length of the day")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", default=[], choices=[each.name for each in VARIANTS])
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep reports and decisions there")
    parser.add_argument("--executors", type=int, default=PEAK, help="least executors with one core that hold the peak")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # so that all child processes are ended
    found = figures(arguments.minutes, arguments.seed, tuple(arguments.only), arguments.keep, arguments.executors)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
