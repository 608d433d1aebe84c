"""Trials to calibrate on: a job file's Spark job at random parallelism and rates, in one warm session.

    python -m experiments.calibration.measure [configs/wordcount.yaml] [--points 24] [--seed 0] [--minutes 25]

Every trial is what a tuning run's journal would hold of it. Points are drawn log-uniformly; one in five or so cannot
keep up, and says something too. The machine is shared: a trial during which other programs took more than a tenth of a
core for each core there is counts as disturbed, and its point is measured again later while there is time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from autotrascale.app.job_file import JobFile
from autotrascale.execute.spark.common.processes import session_members
from autotrascale.execute.spark.controller.trial_engine import SparkEngine
from autotrascale.validation import read_file
from benchmarks.workloads.recorded_trials import TRIALS

RATES = (0.4, 1.3)  # times the job file's own
DISTURBED = 0.1  # of each core, taken by others

Point = tuple[tuple[int, ...], float]


def points(operators: int, p_max: int, count: int, seed: int) -> Iterator[Point]:
    """(k, factor of the rate): half of p_max everywhere, all of it, and then at random."""
    rng = np.random.default_rng(seed)
    yield tuple([max(2, p_max // 2)] * operators), 1.0
    yield tuple([p_max] * operators), RATES[0]
    for _ in range(count - 2):
        k = np.exp(rng.uniform(np.log(2), np.log(p_max + 0.99), operators)).astype(int)
        yield tuple(int(x) for x in k), float(np.exp(rng.uniform(*np.log(RATES))))


class Others:
    """CPU time that other programs took, as a share of all cores."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._since, self._before = time.monotonic(), self._spent()

    def share(self) -> float:
        seconds = time.monotonic() - self._since
        return max(0.0, self._spent() - self._before) / seconds / (os.cpu_count() or 1)

    def _spent(self) -> float:
        times = psutil.cpu_times()
        own = 0.0
        for process in session_members(self._leader):
            try:
                own += sum(process.cpu_times()[:4])  # its own and its ended children's
            except psutil.Error:
                continue
        return float(times.user + times.nice + times.system + times.softirq - own)


def await_quiet(leader: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        others = Others(leader)
        time.sleep(3.0)
        if others.share() < DISTURBED:
            return


def measure(path: Path, count: int, seed: int, minutes: float, patience: float) -> Iterator[list[dict[str, Any]]]:
    """After each trial, the least disturbed trial of each point so far."""
    file = read_file(path, JobFile)
    assert file.spark is not None
    best: dict[Point, dict[str, Any]] = {}
    until = time.monotonic() + 60 * minutes
    with SparkEngine(replace(file.spark, p_max=file.p_max)) as engine:
        names = list(engine.topology)
        todo = deque(points(len(names), file.p_max, count, seed))
        todo.appendleft(todo[0])  # the first trial warms the session
        warm = False
        while todo and time.monotonic() < until:
            point = todo.popleft()
            leader = engine._connect().process.pid
            await_quiet(leader, patience)
            others = Others(leader)
            rates = {source: round(rate * point[1], 1) for source, rate in file.source_rates.items()}
            trial = engine.run(dict(zip(names, point[0], strict=True)), rates)
            share = others.share()
            seen = trial.snapshot.batch_seconds if trial.snapshot else None
            print(
                f"{len(todo):3} left: {point[0]} ×{point[1]:.2f} {trial.verdict}, b = {seen} s, others {share:.0%}, "
                f"{trial.detail}",
                file=sys.stderr,
                flush=True,
            )
            if not warm:
                warm = True
                continue
            if point not in best or share < best[point]["others"]:
                best[point] = {"others": round(share, 3), "trial": asdict(trial)}
            if share >= DISTURBED:
                todo.append(point)
            yield list(best.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", nargs="?", type=Path, default=Path("configs/wordcount.yaml"))
    parser.add_argument("--points", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=25.0)
    parser.add_argument("--patience", type=float, default=60.0, help="seconds to wait for quiet before each trial")
    parser.add_argument("--out", type=Path, default=TRIALS)
    arguments = parser.parse_args()
    head = {
        "job": str(arguments.job),
        "command": f"python -m experiments.calibration.measure --points {arguments.points} --seed {arguments.seed}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()},
    }
    minutes, patience = arguments.minutes, arguments.patience
    for trials in measure(arguments.job, arguments.points, arguments.seed, minutes, patience):
        arguments.out.write_text(json.dumps(head | {"trials": trials}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
