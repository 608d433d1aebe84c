"""The stability of executor sizes under a daily load on a real cluster.

    python -m benchmarks.quality.sized_days --days 3 --minutes 7

Programs whose memory follows the load (`planted/daily.py`) run side by side. Each has its own cluster and store, and
runs under `autotrascale run --apply --sizes`. A day is compressed into minutes. Evidence covers a day, and a window of
five seconds is a proportional part of the day. An executor above its memory limit is killed, as YARN does.

oscillations   a size that is raised after it was given back, or given back to a size found too small
ends           executors that ran out of memory at a size that was given back
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from autotrascale.domain.executor_window import ExecutorSizes, ExecutorWindow
from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.plan.executor_size.size_evidence import has_memory_death
from autotrascale.views.executor_size_text import format_size_change
from benchmarks.quality.executors.day import Feeder
from benchmarks.quality.planted.daily import DAILY, LOADS, Days
from benchmarks.quality.planted.keeping import ProgramRun, ShortSettings, run_with_sizing
from benchmarks.quality.sizes_bench import count_oscillations, is_given_back

BEGUN = {
    "orders": ExecutorSizes(1800, 700, 1, 1),
    "prices": ExecutorSizes(700, 1400, 1, 1),
    "clicks": ExecutorSizes(1400, 1000, 2, 1),
}
MOST_A_DAY = 6


@dataclass(frozen=True)
class Outcome:
    job: str
    hours: float  # of the simulated days
    begun: ExecutorSizes
    ended: ExecutorSizes
    actions: list[str]
    taken_back: list[str]  # actions and their reasons
    oscillations: int
    given_back: int  # number of actions
    ends_after_giving_back: int
    ends: int  # executors that ran out of memory
    records_a_second_at_last: float | None
    ended_by_itself: int | None


def run_days(name: str, days: int, minutes: float, seed: int) -> Outcome:
    job = next(job for job in DAILY if job.application == name)
    low, high = LOADS[name]
    seconds = 60 * minutes
    with tempfile.TemporaryDirectory(prefix=f"days-{name}-") as work:
        folder = Path(work) / "job"
        feeder = Feeder(folder / "in", Days(seconds, low, high, 0, seed))
        feeder.start()
        feeder.begin_day()
        try:
            short = ShortSettings(evidence=seconds, a_day=MOST_A_DAY * days)
            lived = run_with_sizing(job, BEGUN[name], folder, days * seconds, short)
        finally:
            feeder.end()
        return _outcome(name, 24.0 * days, lived)


def _outcome(name: str, hours: float, lived: ProgramRun) -> Outcome:
    asked = [action for action in lived.actions if action.what == "asked"]
    ends = [window for window in lived.windows if has_memory_death(window)]
    return Outcome(
        name,
        hours,
        BEGUN[name],
        lived.windows[-1].sizes,
        [f"{action.policy} {format_size_change(action)}" for action in asked],
        [action.reason.text for action in lived.actions if action.what == "taken-back"],
        count_oscillations(lived.actions, math.inf),
        sum(not action.up for action in asked),
        sum(_missed(lived.actions, window) for window in ends),
        len(ends),
        lived.windows[-1].rate,
        lived.ended,
    )


def _missed(actions: Sequence[SizeChange], window: ExecutorWindow) -> bool:
    return is_given_back([action for action in actions if action.at < window.began + window.seconds], window.sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=7.0, help="that a day lasts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=list(LOADS))
    parser.add_argument("--one", choices=list(LOADS), help="one, in this process")
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(asdict(run_days(given.one, given.days, given.minutes, given.seed))))
        return
    words = [
        sys.executable,
        "-m",
        "benchmarks.quality.sized_days",
        "--days",
        str(given.days),
        "--minutes",
        str(given.minutes),
    ]
    started = [
        subprocess.Popen([*words, "--seed", str(given.seed), "--one", each], stdout=subprocess.PIPE, text=True)
        for each in given.only
    ]
    for process in started:
        print(process.communicate()[0].strip(), flush=True)
    print(json.dumps({"load": round(os.getloadavg()[0], 1), "times": round(24 * 60 / given.minutes)}))


if __name__ == "__main__":
    main()
