"""What it is worth that the loop weighs the price of a rescale: simulated days of jobs whose rescales stop them for
0.2, 1, 3 and 10 seconds, by the constants of before and weighed, in one run. Everything is **simulated**.

A rescale that stops a job for a second or less is an overlap: the job runs twice for ten seconds before it, and those
instance-seconds are counted. The days and the jobs, and what the columns mean, are those of `loop_bench.py`; three
kinds of days are of here alone: `flat` (nothing but jitter), `swings` (up and down about once an hour) and `weekly`
(seven days, two of which are quieter).

    all in all   instance-hours, and each second out of target as `planning.late_worth` seconds of what ran, over the
                 instance-hours of the static peak: what the weighing is meant to make small

`--why` takes the days of one class apart, each row with what it adds, all of the static peak's instance-hours:

    clairvoyant      the least for the highest rate of each ten minutes, by who knows the job and the day
    … needed         the least, on the true job, for what the loop says must be carried now: its headroom, and the noise
    … sized for      the least, on the true job, for what it was sized for: looking ahead where the rate rises, waiting
                     until a change pays where it falls, the grid of rates, the time that a rescale is left alone
    … ran            what ran: beyond the least because the job is not known, or not surely
    … twice          what ran beside it while one took over from another

    python -m benchmarks.quality.rescale_price_bench --seeds 10
    python -m benchmarks.quality.rescale_price_bench --seeds 3 --kind swings --classes 0.2 3
    python -m benchmarks.quality.rescale_price_bench --seeds 10 --classes 0.2 --why
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from autotrascale.app.autoscale_section import COST_AWARE_PLANNING
from autotrascale.execute.simulator.rate_functions import DAY, RateFunction
from autotrascale.execute.simulator.simulated_job import SimulatedRescaleCosts
from autotrascale.plan.control.loop_state import State
from benchmarks.quality.loop_bench import (
    HEADROOM,
    KINDS,
    OTHER_KINDS,
    Trial,
    clairvoyant_shares,
    jobs,
    jobs_apart,
    least,
    length,
    one_day,
    rules_of,
    static_day,
    static_peak,
    trace,
)
from benchmarks.workloads.case import Case

BOTH = 10.0  # seconds in which an overlapped job runs twice: more than docs/rescaling.md has for a million keys
CLASSES: Mapping[float, SimulatedRescaleCosts] = {
    0.2: SimulatedRescaleCosts(0.2, both_seconds=BOTH),
    1.0: SimulatedRescaleCosts(1.0, both_seconds=BOTH),
    3.0: SimulatedRescaleCosts(3.0),
    10.0: SimulatedRescaleCosts(10.0),
}
WHO = ("constants", "autotrascale")
PROCESSES = 2
PARTS = ("clairvoyant", "needed", "sized for", "ran", "twice")


@dataclass(frozen=True)
class Day:
    """One job on one day, or in one week."""

    case: Case
    schedule: RateFunction
    seed: int
    seconds: float
    peak: tuple[int, ...]
    static: Trial

    @classmethod
    def of(cls, kind: str, seed: int, cases: Sequence[Case]) -> Day:
        case, seconds = cases[seed % len(cases)], length(kind)
        schedule = trace(kind, seed, case.rate)
        peak = static_peak(case, schedule, seconds)
        return cls(case, schedule, seed, seconds, peak, static_day(case, schedule, peak, seconds))

    @property
    def clairvoyant(self) -> tuple[float, float]:
        """… and with ten changes a day at most."""
        changes = round(10 * self.seconds / DAY)
        return clairvoyant_shares(self.case, self.schedule, self.static, changes, self.seconds)

    def with_rescales(self, rescale: SimulatedRescaleCosts) -> Case:
        return replace(self.case, job=replace(self.case.job, rescale=rescale))

    def kept(self, standstill: float, who: str, seen: Callable[[State], None] = lambda _: None) -> Trial:
        case = self.with_rescales(CLASSES[standstill])
        rules = rules_of(self.case, who, self.seed)
        return one_day(case, self.schedule, rules, self.seed, self.peak, seen, seconds=self.seconds)


class Kept(NamedTuple):
    """What one policy did on one day, beside its static peak."""

    trial: Trial
    of_peak: float
    all_in_all: float
    a_day: float  # rescales

    @classmethod
    def of(cls, day: Day, trial: Trial) -> Kept:
        static, late_worth = day.static.instance_hours, COST_AWARE_PLANNING.late_worth or 0.0
        all_in_all = (trial.instance_hours + late_worth * trial.late_hours) / static
        return cls(trial, trial.instance_hours / static, all_in_all, trial.rescales * DAY / day.seconds)


Trials = Mapping[tuple[float, str], Kept]


def _of_a_seed(
    kind: str, seed: int, classes: Sequence[float], who: Sequence[str], apart: bool
) -> tuple[tuple[float, float], Trials]:
    trials = {}
    with threadpool_limits(1):
        day = Day.of(kind, seed, jobs_apart() if apart else jobs())
        for each in classes:
            for name in who:
                kept = trials[each, name] = Kept.of(day, day.kept(each, name))
                text = f"{kept.trial.in_target:.2%}, {kept.trial.outside:.2%} outside, {kept.of_peak:.1%} of peak"
                text += f", {kept.all_in_all:.1%} all in all, {kept.a_day:.1f} rescales"
                print(f"{kind} {seed} {day.case.family} {each} s {name}: {text}", file=sys.stderr, flush=True)
        return day.clairvoyant, trials


def compare(
    kind: str, seeds: Sequence[int], classes: Sequence[float], who: Sequence[str], *, apart: bool, processes: int
) -> None:
    found = Parallel(processes)(delayed(_of_a_seed)(kind, seed, classes, who, apart) for seed in seeds)
    bounds, days = zip(*found, strict=True)
    free, few = (_mean(each) for each in zip(*bounds, strict=True))
    print(f"\n{kind} (simulated), {len(seeds)} jobs; clairvoyant {free:.1%}, with ten changes a day {few:.1%}")
    heads = ("in target", "outside", "worst", "of peak", "all in all", "a day", "most")
    print(f"{'standstill':>10}  {'policy':<14}" + "".join(f"{head:>11}" for head in heads))
    for each in classes:
        for name in who:
            _show(each, name, [day[each, name] for day in days])
    for name in who:
        more = sum(
            day[dear, name].trial.rescales > day[cheap, name].trial.rescales
            for cheap, dear in pairwise(classes)
            for day in days
        )
        print(f"{name}: {more} of {len(seeds) * (len(classes) - 1)} pairs in which the dearer rescales were more")
    if set(who) == set(WHO):
        better = sum(
            day[each, "autotrascale"].all_in_all < day[each, "constants"].all_in_all for each in classes for day in days
        )
        print(f"all in all less than by the constants: {better} of {len(seeds) * len(classes)}")


def _show(standstill: float, name: str, rows: Sequence[Kept]) -> None:
    trials = [row.trial for row in rows]
    print(
        f"{standstill:>8} s  {name:<14}{_mean(t.in_target for t in trials):>11.3%}"
        f"{_mean(t.outside for t in trials):>11.3%}{min(t.outside for t in trials):>11.3%}"
        f"{_mean(row.of_peak for row in rows):>11.1%}{_mean(row.all_in_all for row in rows):>11.1%}"
        f"{_mean(row.a_day for row in rows):>11.1f}{max(row.a_day for row in rows):>11.1f}"
    )


def take_apart(kind: str, seeds: Sequence[int], standstill: float, who: str, *, apart: bool) -> None:
    cases = jobs_apart() if apart else jobs()
    rows: list[dict[str, float]] = []
    for seed in seeds:
        day = Day.of(kind, seed, cases)
        case, whole = day.with_rescales(CLASSES[standstill]), sum(day.peak) * day.seconds
        instances, sums = _least_for(case), dict.fromkeys(PARTS, 0.0)
        before: list[State] = []

        def seen(
            state: State,
            sums: dict[str, float] = sums,
            before: list[State] = before,
            instances: Callable[[float], int] = instances,
        ) -> None:
            if before:
                _add(sums, before.pop(), state.clock.now, instances)
            before.append(state)

        trial = day.kept(standstill, who, seen)
        row = {name: value / whole for name, value in sums.items()}
        share = trial.instance_hours / day.static.instance_hours
        row |= {"clairvoyant": day.clairvoyant[0], "twice": share}
        rows.append(row)
        print(f"{kind} {seed} {case.family}: " + ", ".join(f"{name} {row[name]:.1%}" for name in PARTS), flush=True)
    print(f"\n{kind} (simulated), {standstill} s, {who}, of the static peak")
    total = 0.0
    for name in PARTS:
        mean = _mean(row[name] for row in rows)
        print(f"{name:<14}{mean:>8.1%}{mean - total:>+8.1%}")
        total = mean


def _add(sums: dict[str, float], state: State, until: float, instances: Callable[[float], int]) -> None:
    """What the time from one step to the next took, and would have taken."""
    passed, running = until - state.clock.now, sum((state.observed or {}).values())
    need = state.memory.rates.need(state.clock.now, HEADROOM)
    sums["needed"] += passed * (instances(need) if need else running)
    sums["sized for"] += passed * (instances(state.memory.sized_for) if state.memory.sized_for else running)
    sums["ran"] += passed * running


def _least_for(case: Case) -> Callable[[float], int]:
    known: dict[float, int] = {}

    def instances(rate: float) -> int:
        rounded = 1.02 ** math.ceil(math.log(rate) / math.log(1.02))
        if rounded not in known:
            known[rounded] = sum(least(case, rounded))
        return known[rounded]

    return instances


def figures() -> dict[str, object]:
    """Only that it runs: the tables take half an hour."""
    day = Day.of("diurnal", 0, jobs())
    shares = {}
    for name in WHO:
        shares[name] = round(Kept.of(day, day.kept(0.2, name)).of_peak, 4)
    return {"simulated": True, "days": 1, "of_static_peak": shares}


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--kind", default="diurnal", choices=(*KINDS, *OTHER_KINDS))
    parser.add_argument("--classes", type=float, nargs="*", default=tuple(CLASSES), choices=tuple(CLASSES))
    parser.add_argument("--who", nargs="*", default=WHO, choices=WHO)
    parser.add_argument("--apart", action="store_true", help="families that nothing was chosen on")
    parser.add_argument("-j", "--processes", type=int, default=PROCESSES)
    parser.add_argument("--why", action="store_true", help="take apart what is left to the clairvoyant")
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    if not arguments.why:
        compare(
            arguments.kind,
            seeds,
            sorted(arguments.classes),
            arguments.who,
            apart=arguments.apart,
            processes=arguments.processes,
        )
        return
    for standstill in arguments.classes:
        for name in arguments.who:
            take_apart(arguments.kind, seeds, standstill, name, apart=arguments.apart)


if __name__ == "__main__":
    main()
