"""The time without output during rescales, in place and blue-green.

A job counts the records of many keys. In one session it is rescaled in place and blue-green in turn. Each write to its
sink is recorded with the arrival times of its records.

gap       longest time between two writes, from the begin of the rescale to some seconds after it, minus the median time
          between two writes before
latency   99th percentile over records, from the arrival of their file to the end of their write; during a rescale and
          in the seconds before
kills     blue-green rescales of four jobs with fenced sinks, in which the driver, its JVM or the controller is killed
          in one of the phases; then the results are compared with the input. Three jobs write by `foreachBatch`, one
          with Spark's file sink; one job has a watermark

    python -m benchmarks.speed.handover_bench --keys 10000 100000 --times 3 --kills 20 --seed 0

With `--windowed` the job counts by window of time behind a watermark, so the second query repeats the batches of the
first. `--jobs` selects the jobs for kills:

    python -m benchmarks.speed.handover_bench --windowed --keys 100000 --times 2
    python -m benchmarks.speed.handover_bench --keys --kills 20 --seed 0 --jobs windowed

The costs in `plan/migration/rescale_mode.py` are fitted to the output of several runs:

    python -m benchmarks.speed.handover_bench --keys 1000000 --times 2 > million.json
    python -m benchmarks.speed.handover_bench --fit few.json many.json million.json
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.common.spark_settings import SparkSettings, SparkTimeouts
from autotrascale.execute.spark.controller.live_own_job import LiveOwnJob
from autotrascale.execute.spark.jobs.flow import Flow, Query
from autotrascale.plan.migration.rescale_costs import fit_line
from benchmarks.faults.kills.archive import quick_java
from benchmarks.faults.kills.run import OVERLAP_PHASES, Feeder, Fire, Kill, Outcome

JOBS = ("appended", "two-states", "stateful", "windowed")
VICTIMS = ("driver", "JVM", "controller")
_PARALLELISM = ({"source": 2, "count": 2}, {"source": 2, "count": 3})
BEFORE, AFTER = 12.0, 5.0  # measured seconds before and after a rescale
_NO_PROGRESS_SECONDS = 60.0
_KILLS_PER_HOME = 8
_SHARES = [each / 20 for each in range(21)]


@dataclass(frozen=True)
class Timed:
    """A job that counts keys, with a line in `folder`/writes for each write.

    With `windowed` it counts in a window that is longer than any run, behind a watermark.
    """

    folder: str
    keys: int = 100_000
    windowed: bool = False

    name: ClassVar[str] = "timed"
    topology: ClassVar[Topology] = Topology({"source": Operator(), "count": Operator(("source",), stateful=True)})

    def build(self, flow: Flow) -> Query:
        read = flow.spark.readStream.schema("n bigint").option("maxFilesPerTrigger", 20).json(f"{self.folder}/in")
        came = read.select("n", fn.col("_metadata.file_modification_time").alias("at"))
        keyed = flow.source("source", came, arrival="at").select((fn.col("n") % self.keys).alias("key"), "at")
        each = (fn.count("*").alias("count"), fn.max("at").alias("at"))
        if self.windowed:
            by = [fn.col("key"), fn.window("at", "36500 days")]
            keyed = keyed.withWatermark("at", "1 second")
        else:
            by = [fn.col("key")]
        counts = flow.operator("count", keyed, do=lambda df: df.groupBy(*by).agg(*each), by=["key"])
        folder = self.folder

        def write(batch: DataFrame, number: int) -> None:
            batch.persist()
            batch.select("key", "count").write.mode("overwrite").json(f"{folder}/out/{number}")
            millis = fn.unix_millis("at")
            found = batch.agg(fn.count("*"), fn.percentile_approx(millis, _SHARES, 1000)).first()
            batch.unpersist()
            with Path(folder, "writes").open("a") as notes:
                notes.write(json.dumps([time.time(), number, *(found or [])]) + "\n")

        writer = counts.writeStream.foreachBatch(write).outputMode("update")
        return writer.trigger(processingTime="200 milliseconds")

    def count_wrong_keys(self, records: int) -> int:
        """Return the number of keys with a wrong count."""
        counts: dict[int, int] = {}
        for file in Path(self.folder, "out").glob("*/*.json"):
            for text in file.read_text().splitlines():
                found = json.loads(text)
                counts[found["key"]] = max(counts.get(found["key"], 0), found["count"])
        whole, rest = divmod(records, self.keys)
        expected = {key: whole + (key < rest) for key in range(self.keys) if whole or key < rest}
        return sum(counts.get(key) != expected.get(key) for key in {*counts, *expected})

    def count_wrong_keys_at_rest(self, records: int) -> int:
        """Return the number of wrong keys once it stops falling: a busy machine catches up first."""
        wrong, until = self.count_wrong_keys(records), time.monotonic() + _NO_PROGRESS_SECONDS
        while wrong and time.monotonic() < until:
            time.sleep(2.0)
            before, wrong = wrong, self.count_wrong_keys(records)
            if wrong < before:
                until = time.monotonic() + _NO_PROGRESS_SECONDS
        return wrong


def measure(keys: int, times: int, folder: Path, java: str, *, windowed: bool = False) -> dict[str, Any]:
    """Rescale one job in place and blue-green in turn, and return the measurements."""
    for part in ("in", "work"):
        (folder / part).mkdir(parents=True)
    job = Timed(str(folder), keys, windowed)
    settings = SparkSettings(
        job="benchmarks.speed.handover_bench:Timed",
        options={"folder": str(folder), "keys": keys, "windowed": windowed},
        python_path=(str(Path(__file__).parents[2]),),
        master="local[6]",
        conf={"spark.driver.extraJavaOptions": java},
        driver_memory="1500m",
        prime_batches=2,
        patience=SparkTimeouts(start=150.0, command=120.0, first_batch=180.0),
        work_dir=str(folder / "work"),
    )
    feeder, found = Feeder(folder / "in", keys), dict[str, list[dict[str, float]]]()
    try:
        with LiveOwnJob(settings, {"source": 1.0}, folder / "home") as live:
            look = live.start(_PARALLELISM[0])
            if look.running is None:
                raise SystemExit(f"the job did not start: {look.detail}")
            live.wait(2 * BEFORE)
            for number in range(2 * times + 2):
                how = ("in-place", "overlap")[number % 2]
                live.settings = replace(live.settings, rescale=how)
                live.wait(BEFORE)
                seen = rescale_once(live, _PARALLELISM[(number + 1) % 2], folder)
                say(f"{keys} keys, {how}: {json.dumps(seen)}")
                if number >= 2 and "failed" not in seen:  # the first rescale of each kind warms up
                    found.setdefault(how, []).append(seen)
            records = feeder.pause()
            wrong = job.count_wrong_keys_at_rest(records)
            feeder.go_on()
    finally:
        feeder.end()
    return {
        "keys": keys,
        "records": records,
        "keys_wrong": wrong,
        **{how: summarize(all_) for how, all_ in found.items()},
    }


def rescale_once(live: LiveOwnJob, k: dict[str, int], folder: Path) -> dict[str, Any]:
    began = time.time()
    done = live.rescale(k)
    ended = time.time()
    if not done.done or done.how.startswith("overlap: ") != (live.settings.rescale == "overlap"):
        return {"failed": f"{done.detail}{done.how}"}
    live.wait(AFTER)
    return {**measure_around(folder, began, ended), **round_all(done.phases or {})}


def measure_around(folder: Path, began: float, ended: float) -> dict[str, float]:
    """Return the measurements of a rescale between these Unix times, `AFTER` seconds after its end."""
    writes = [json.loads(text) for text in (folder / "writes").read_text().splitlines()]
    before = [each for each in writes if began - BEFORE <= each[0] < began]
    around = [*before[-1:], *(each for each in writes if began <= each[0] <= ended + AFTER)]
    own = statistics.median(gaps(before))
    return {
        "seconds": round_seconds(ended - began),
        "own_gap": round_seconds(own),
        "gap_beyond": round_seconds(max(gaps(around)) - own),
        "p99_before": round_seconds(percentile(before, 0.99)),
        "p99_during": round_seconds(percentile([each for each in around if each[0] > began], 0.99)),
    }


def gaps(writes: list[list[Any]]) -> list[float]:
    return [after[0] - before[0] for before, after in pairwise(writes)] or [float("nan")]


def percentile(writes: list[list[Any]], share: float) -> float:
    """Return a percentile of the latency over records, from the arrival times in each write."""
    weighed = sorted((at - came / 1000, count) for at, _, count, times in writes for came in times or ())
    whole = sum(count for _, count in weighed)
    reached = 0.0
    for latency, count in weighed:
        reached += count
        if reached >= share * whole:
            return float(latency)
    return float("nan")


def summarize(seen: list[dict[str, float]]) -> dict[str, Any]:
    return {
        "rescales": len(seen),
        "gap_beyond": {"median": median_of(seen, "gap_beyond"), "most": max(each["gap_beyond"] for each in seen)},
        "p99_before": median_of(seen, "p99_before"),
        "p99_during": median_of(seen, "p99_during"),
        "own_gap": median_of(seen, "own_gap"),
        "phases": {name: median_of(seen, name) for name in seen[-1] if name not in _FIGURES},
    }


_COUNTS = ("lost", "doubled", "down", "left", "missed")
_FIGURES = {"own_gap", "gap_beyond", "p99_before", "p99_during"}


def median_of(seen: list[dict[str, float]], name: str) -> float:
    return round_seconds(statistics.median(each[name] for each in seen if name in each))


def format_costs(sizes: list[dict[str, Any]]) -> str:
    """Return the code of `MEASURED` in `plan/migration/rescale_mode.py`: straight lines through the medians."""

    def fit(read: Callable[[dict[str, Any]], float]) -> str:
        through = fit_line([(size["keys"], read(size)) for size in sizes if {"in-place", "overlap"} <= size.keys()])
        return f"LinearCost({through.seconds:.2f}, {through.per_key:.2g})"

    in_place = fit(lambda size: size["in-place"]["gap_beyond"]["median"])
    hand_over = fit(lambda size: size["overlap"]["gap_beyond"]["median"])
    preparing = fit(lambda size: size["overlap"]["phases"]["seconds"])
    return f"MEASURED = RescaleCosts(in_place={in_place}, hand_over={hand_over}, preparing={preparing})"


def fit_costs(files: Sequence[str]) -> str:
    """Return the costs fitted to the output of earlier runs."""
    return format_costs([size for file in files for size in json.loads(Path(file).read_text())["sizes"]])


# -- kills -----------------------------------------------------------------------------------------------------------


def draw_kills(count: int, seed: int, jobs: Sequence[str] = JOBS) -> list[Kill]:
    """Return `count` kills, evenly distributed over jobs, phases and victims."""
    chance, kills = random.Random(seed), list[Kill]()
    every = [Kill(job, phase, victim) for job in jobs for phase in OVERLAP_PHASES for victim in VICTIMS]
    while len(kills) < count:
        kills += chance.sample(every, len(every))
    return sorted(kills[:count], key=lambda kill: kill.job)


def run_kills(count: int, folder: Path, seed: int, java: str, jobs: Sequence[str]) -> Iterator[Outcome]:
    chance, kills = random.Random(seed), draw_kills(count, seed, jobs)
    while kills:
        job = kills[0].job
        home, kills = [kill for kill in kills[:_KILLS_PER_HOME] if kill.job == job], kills
        kills = kills[len(home) :]
        at = Fire(job, folder / f"{job}-{len(kills)}", chance, java=java, fenced=True)
        try:
            at.up()
            for kill in home:
                yield (outcome := at.rescale_under_fire(kill))
                if outcome.down or outcome.lost or outcome.doubled:
                    break
        finally:
            at.close()


def series(count: int, folder: Path, seed: int, java: str, jobs: Sequence[str]) -> dict[str, Any]:
    outcomes: list[Outcome] = []
    for outcome in run_kills(count, folder, seed, java, jobs):
        outcomes.append(outcome)
        kill = outcome.kill
        what = f"lost {outcome.lost}, doubled {outcome.doubled}, down {outcome.down}, left {outcome.left}"
        where = f"{len(outcomes)} {kill.job}, {kill.victim}, {kill.phase}: {outcome.kills} kills"
        say(f"{where}, {outcome.records} records, {what}, {outcome.seconds:.0f} s {outcome.detail}")
    met = [outcome for outcome in outcomes if outcome.kills]
    return {
        "rescales": len(outcomes),
        "kills": len(met),
        **{name: sum(getattr(each, name) for each in outcomes) for name in _COUNTS},
        "by_phase": {phase: sum(each.kill.phase == phase for each in met) for phase in OVERLAP_PHASES},
    }


# --------------------------------------------------------------------------------------------------------------------


def figures(
    keys: Sequence[int] = (10_000, 100_000),
    times: int = 3,
    kills: int = 100,
    seed: int = 0,
    jobs: Sequence[str] = JOBS,
    *,
    windowed: bool = False,
) -> dict[str, Any]:
    """Return the results as JSON data."""
    found: dict[str, Any] = {"seed": seed, "cores": os.cpu_count(), "load_before": os.getloadavg()}
    with (
        tempfile.TemporaryDirectory(prefix="handover-bench-", ignore_cleanup_errors=True) as folder,
        quick_java(Path(folder, "java")) as java,
    ):
        found["sizes"] = [measure(each, times, Path(folder, str(each)), java, windowed=windowed) for each in keys]
        if keys:
            found["costs"] = format_costs(found["sizes"])
        if kills:
            found["kills"] = series(kills, Path(folder, "kills"), seed, java, jobs)
    return {**found, "load_after": os.getloadavg()}


def round_seconds(seconds: float) -> float:
    return round(seconds, 2)


def round_all(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: round_seconds(each) for name, each in seconds.items()}


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--times", type=int, default=3, help="rescales of each kind, for each number of keys")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=JOBS, help="jobs for kills")
    parser.add_argument("--windowed", action="store_true", help="measure a job with a watermark")
    parser.add_argument(
        "--fit", nargs="+", metavar="FILE", help="fit the costs to the output of earlier runs and measure nothing"
    )
    arguments = parser.parse_args()
    if arguments.fit:
        print(fit_costs(arguments.fit))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # also ends all child processes
    asked = (arguments.keys, arguments.times, arguments.kills, arguments.seed, arguments.jobs)
    print(json.dumps(figures(*asked, windowed=arguments.windowed), indent=2))


if __name__ == "__main__":
    main()
