"""What it is worth that the loop weighs the price of a rescale: simulated days of jobs whose rescales stop them for
0.2, 1, 3 and 10 seconds, by the constants of before and weighed, in one run. Everything is **simulated**.

A rescale that stops a job for a second or less is an overlap: the job runs twice for ten seconds before it, and those
instance-seconds are counted. The days and the jobs, and what the columns mean, are those of `loop_bench.py`.

`--why` takes the days of one class apart, each row with what it adds, all of the static peak's instance-hours:

    clairvoyant      the least for the highest rate of each ten minutes, by who knows the job and the day
    … needed         the least, on the true job, for what the loop says must be carried now: its headroom, and the noise
    … sized for      the least, on the true job, for what it was sized for: looking ahead where the rate rises, waiting
                     until a change pays where it falls, the grid of rates, the time that a rescale is left alone
    … ran            what ran: beyond the least because the job is not known, or not surely
    … twice          what ran beside it while one took over from another

    python -m benchmarks.rescale_price_bench --seeds 10
    python -m benchmarks.rescale_price_bench --seeds 10 --classes 0.2 --why
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from autotrascale.execute.simulator.case import Case
from autotrascale.execute.simulator.job import Rescale
from autotrascale.execute.simulator.schedules import DAY, Schedule
from autotrascale.plan.control.loop_state import State
from benchmarks.loop_bench import (
    HEADROOM,
    KINDS,
    Trial,
    clairvoyant_shares,
    jobs,
    jobs_apart,
    least,
    one_day,
    rules_of,
    static_day,
    static_peak,
    trace,
)

BOTH = 10.0  # seconds in which an overlapped job runs twice: more than docs/rescaling.md has for a million keys
CLASSES: Mapping[float, Rescale] = {
    0.2: Rescale(0.2, both_seconds=BOTH),
    1.0: Rescale(1.0, both_seconds=BOTH),
    3.0: Rescale(3.0),
    10.0: Rescale(10.0),
}
WHO = ("constants", "autotrascale")
PARTS = ("clairvoyant", "needed", "sized for", "ran", "twice")


@dataclass(frozen=True)
class Day:
    """One job on one day."""

    case: Case
    schedule: Schedule
    peak: tuple[int, ...]
    static: Trial
    clairvoyant: float
    few: float  # … with ten changes at most

    @classmethod
    def of(cls, kind: str, seed: int, cases: Sequence[Case]) -> Day:
        case = cases[seed % len(cases)]
        schedule = trace(kind, seed, case.rate)
        peak = static_peak(case, schedule)
        static = static_day(case, schedule, peak)
        return cls(case, schedule, peak, static, *clairvoyant_shares(case, schedule, static, 10))

    def with_rescales(self, rescale: Rescale) -> Case:
        return replace(self.case, job=replace(self.case.job, rescale=rescale))


def compare(kind: str, seeds: Sequence[int], classes: Sequence[float], who: Sequence[str], *, apart: bool) -> None:
    cases = jobs_apart() if apart else jobs()
    trials: dict[tuple[float, str], list[tuple[Trial, float]]] = {(each, name): [] for each in classes for name in who}
    bounds: list[tuple[float, float]] = []
    for seed in seeds:
        day = Day.of(kind, seed, cases)
        bounds.append((day.clairvoyant, day.few))
        for each, name in trials:
            trial = one_day(
                day.with_rescales(CLASSES[each]), day.schedule, rules_of(day.case, name, seed), seed, day.peak
            )
            share = trial.instance_hours / day.static.instance_hours
            trials[each, name].append((trial, share))
            text = f"{trial.in_target:.2%}, {trial.outside:.2%} outside, {share:.1%} of peak, {trial.rescales} rescales"
            print(f"{kind} {seed} {day.case.family} {each} s {name}: {text}", file=sys.stderr, flush=True)
    free, few = (_mean(each) for each in zip(*bounds, strict=True))
    print(f"\n{kind} (simulated), {len(seeds)} days; clairvoyant {free:.1%}, with ten changes {few:.1%}")
    heads = ("in target", "outside", "worst", "of peak", "a day", "most")
    print(f"{'standstill':>10}  {'policy':<14}" + "".join(f"{head:>10}" for head in heads))
    for (each, name), rows in trials.items():
        worst = min(t.outside for t, _ in rows)
        print(
            f"{each:>8} s  {name:<14}{_mean(t.in_target for t, _ in rows):>10.3%}"
            f"{_mean(t.outside for t, _ in rows):>10.3%}{worst:>10.3%}{_mean(share for _, share in rows):>10.1%}"
            f"{_mean(t.rescales for t, _ in rows):>10.1f}{max(t.rescales for t, _ in rows):>10}"
        )
    for name in who:
        more = sum(trials[dear, name][i][0].rescales > trials[cheap, name][i][0].rescales
                   for cheap, dear in pairwise(classes) for i in range(len(seeds)))  # fmt: skip
        print(f"{name}: {more} of {len(seeds) * (len(classes) - 1)} pairs in which the dearer rescales were more")


def take_apart(kind: str, seeds: Sequence[int], standstill: float, who: str, *, apart: bool) -> None:
    cases = jobs_apart() if apart else jobs()
    rows: list[dict[str, float]] = []
    for seed in seeds:
        day = Day.of(kind, seed, cases)
        case, whole = day.with_rescales(CLASSES[standstill]), sum(day.peak) * DAY
        instances, sums = _least_for(case), dict.fromkeys(PARTS, 0.0)
        before: list[State] = []

        def seen(state: State, sums: dict[str, float] = sums, before: list[State] = before,
                 instances: Callable[[float], int] = instances) -> None:  # fmt: skip
            if before:
                _add(sums, before.pop(), state.clock.now, instances)
            before.append(state)

        trial = one_day(case, day.schedule, rules_of(case, who, seed), seed, day.peak, seen)
        row = {name: value / whole for name, value in sums.items()}
        share = trial.instance_hours / day.static.instance_hours
        row |= {"clairvoyant": day.clairvoyant, "twice": share}
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
        trial = one_day(day.with_rescales(CLASSES[0.2]), day.schedule, rules_of(day.case, name, 0), 0, day.peak)
        shares[name] = round(trial.instance_hours / day.static.instance_hours, 4)
    return {"simulated": True, "days": 1, "of_static_peak": shares}


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--kind", default="diurnal", choices=KINDS)
    parser.add_argument("--classes", type=float, nargs="*", default=tuple(CLASSES), choices=tuple(CLASSES))
    parser.add_argument("--who", nargs="*", default=WHO, choices=WHO)
    parser.add_argument("--apart", action="store_true", help="families that nothing was chosen on")
    parser.add_argument("--why", action="store_true", help="take apart what is left to the clairvoyant")
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    if not arguments.why:
        compare(arguments.kind, seeds, sorted(arguments.classes), arguments.who, apart=arguments.apart)
        return
    for standstill in arguments.classes:
        for name in arguments.who:
            take_apart(arguments.kind, seeds, standstill, name, apart=arguments.apart)


if __name__ == "__main__":
    main()
