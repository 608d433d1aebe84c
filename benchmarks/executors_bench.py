"""What it costs to hold a day's load with executors that come and go: `python -m benchmarks.executors_bench`.

A day between a tenth and the whole of a peak, compressed into minutes, on a real standalone cluster on this machine, in
three ways, one after the other, each with the same records:

static peak          as many executors as the peak needs, all day
dynamic allocation   Spark's own, which goes by tasks that wait and executors that have none
ours                 a simple controller: the executors that the rate needs, by `plan/sizing/executors.py`

Of each: executor-seconds (those that leave count until they are gone) against the static peak, windows of ten seconds
whose mean latency is in the target, seconds from the decision to release an executor until it was gone, and whether
every record was counted once.

    python -m benchmarks.executors_bench --minutes 20 --seed 1
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autotrascale.testing.standalone import standalone
from benchmarks.executors.day import Day
from benchmarks.executors.variants import VARIANTS, Outcome, run

PEAK = 4  # executors
TARGET = 6.0  # seconds, from a record's arrival to the end of its batch, in the mean


def figures(minutes: float = 20.0, seed: int = 0, only: tuple[str, ...] = ()) -> dict[str, Any]:
    day = Day(60 * minutes, seed=seed)
    outcomes: list[Outcome] = []
    for variant in VARIANTS:
        if only and variant.name not in only:
            continue
        # A cluster of its own: nothing of the variant before is still there.
        with tempfile.TemporaryDirectory(prefix="executors-bench-") as work:
            folder = Path(work, "driver")
            folder.mkdir()
            with standalone(Path(work, "cluster"), workers=PEAK, cores=1, memory="1g") as cluster:
                outcome = run(variant, cluster.url, day, folder, PEAK, TARGET)
        say(f"{outcome.variant}: {outcome.executor_seconds:.0f} executor-seconds, {outcome.in_target} of {outcome.windows} windows in target")  # fmt: skip # noqa: E501
        outcomes.append(outcome)
    return {
        "minutes": minutes,
        "seed": seed,
        "target_seconds": TARGET,
        "variants": [described(outcome, outcomes[0]) for outcome in outcomes],
    }


def described(outcome: Outcome, static: Outcome) -> dict[str, Any]:
    releases = outcome.releases
    return {
        **asdict(outcome),
        "releases": len(releases),
        "release_seconds_median": round(statistics.median(releases), 1) if releases else None,
        "release_seconds_max": max(releases, default=None),
        "of_static_peak": round(outcome.executor_seconds / static.executor_seconds, 3),
        "in_target_share": round(outcome.in_target / outcome.windows, 3) if outcome.windows else None,
    }


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0, help="how long the day is, for each of the three")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", default=[], choices=[each.name for each in VARIANTS])
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # and takes all that it started along
    print(json.dumps(figures(arguments.minutes, arguments.seed, tuple(arguments.only)), indent=2))


if __name__ == "__main__":
    main()
