"""The effect of rescale prices: simulated days of jobs whose rescales stop them for 0.2, 1, 3 and 10 seconds.

All results are simulated. Each day runs twice, with constant delays ("constants") and with prices ("autotrascale"). A
rescale of a second or less overlaps: the job runs twice for ten seconds before it, and these instance-seconds count.
Days, jobs and columns are those of `loop_bench.py`. Three kinds of days are used only here: `flat` (nothing but
jitter), `swings` (up and down about once an hour) and `weekly` (seven days, two of them quieter).

    all in all   total cost: instance-hours, plus each second out of target as `planning.late_worth` seconds of the
                 running instances, over the instance-hours of the static peak. Prices minimise this

`--why` splits the instance-hours of one class, as shares of the static peak. Each row names what it adds:

    clairvoyant      lower bound: knows the job and the day
    … needed         least Σk for the rate that the loop must carry at each moment: its headroom, and jitter
    … sized for      least Σk for the rate that the job was sized for: looking ahead, waiting until a change pays, the
                     grid of rates, the pause after a rescale
    … ran            the running Σk: the job is not known exactly
    … twice          instances that ran twice during an overlap

    python -m benchmarks.quality.rescale_price_bench --seeds 10
    python -m benchmarks.quality.rescale_price_bench --seeds 3 --kind swings --classes 0.2 3
    python -m benchmarks.quality.rescale_price_bench --seeds 10 --classes 0.2 --why
"""

from __future__ import annotations

import argparse
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
from benchmarks.workloads.case import Case
from benchmarks.workloads.day_bounds import FEW_CHANGES, clairvoyant_shares, count_least_instances, find_static_peak
from benchmarks.workloads.simulated_days import (
    HEADROOM,
    KINDS,
    OTHER_KINDS,
    DayResult,
    held_out_jobs,
    jobs,
    make_rules,
    make_trace,
    run_day,
    run_static_day,
    trace_seconds,
)

OVERLAP_SECONDS = 10.0  # an overlapped job runs twice; more than a state of a million keys needs
CLASSES: Mapping[float, SimulatedRescaleCosts] = {
    0.2: SimulatedRescaleCosts(0.2, both_seconds=OVERLAP_SECONDS),
    1.0: SimulatedRescaleCosts(1.0, both_seconds=OVERLAP_SECONDS),
    3.0: SimulatedRescaleCosts(3.0),
    10.0: SimulatedRescaleCosts(10.0),
}
POLICIES = ("constants", "autotrascale")
PROCESSES = 2
PARTS = ("clairvoyant", "needed", "sized for", "ran", "twice")


@dataclass(frozen=True)
class Day:
    """One trace of one job, with its static peak."""

    case: Case
    schedule: RateFunction
    seed: int
    seconds: float
    peak: tuple[int, ...]
    static: DayResult

    @classmethod
    def draw(cls, kind: str, seed: int, cases: Sequence[Case]) -> Day:
        case, seconds = cases[seed % len(cases)], trace_seconds(kind)
        schedule = make_trace(kind, seed, case.rate)
        peak = find_static_peak(case, schedule, seconds)
        return cls(case, schedule, seed, seconds, peak, run_static_day(case, schedule, peak, seconds))

    @property
    def clairvoyant(self) -> tuple[float, float]:
        """The lower bounds without a limit of changes and with ten a day, over the static peak."""
        changes = round(FEW_CHANGES * self.seconds / DAY)
        return clairvoyant_shares(self.case, self.schedule, self.static, changes, self.seconds)

    def with_rescales(self, rescale: SimulatedRescaleCosts) -> Case:
        return replace(self.case, job=replace(self.case.job, rescale=rescale))

    def run(self, standstill: float, policy: str, on_step: Callable[[State], None] = lambda _: None) -> DayResult:
        case = self.with_rescales(CLASSES[standstill])
        rules = make_rules(self.case, policy, self.seed)
        return run_day(case, self.schedule, rules, self.seed, self.peak, on_step, seconds=self.seconds)


class Row(NamedTuple):
    """The result of one policy on one day, relative to the static peak. `a_day` counts rescales."""

    result: DayResult
    of_peak: float
    all_in_all: float
    a_day: float

    @classmethod
    def of_day(cls, day: Day, result: DayResult) -> Row:
        static, late_worth = day.static.instance_hours, COST_AWARE_PLANNING.late_worth or 0.0
        all_in_all = (result.instance_hours + late_worth * result.late_hours) / static
        return cls(result, result.instance_hours / static, all_in_all, result.rescales * DAY / day.seconds)


Rows = Mapping[tuple[float, str], Row]


def _measure_seed(
    kind: str, seed: int, classes: Sequence[float], policies: Sequence[str], held_out: bool
) -> tuple[tuple[float, float], Rows]:
    rows = {}
    with threadpool_limits(1):
        day = Day.draw(kind, seed, held_out_jobs() if held_out else jobs())
        for each in classes:
            for name in policies:
                row = rows[each, name] = Row.of_day(day, day.run(each, name))
                text = f"{row.result.in_target:.2%}, {row.result.outside:.2%} outside, {row.of_peak:.1%} of peak"
                text += f", {row.all_in_all:.1%} all in all, {row.a_day:.1f} rescales"
                print(f"{kind} {seed} {day.case.family} {each} s {name}: {text}", file=sys.stderr, flush=True)
        return day.clairvoyant, rows


def compare(
    kind: str,
    seeds: Sequence[int],
    classes: Sequence[float],
    policies: Sequence[str],
    *,
    held_out: bool,
    processes: int,
) -> None:
    """Print the table of one kind of days: a row for each class of rescales and policy."""
    found = Parallel(processes)(delayed(_measure_seed)(kind, seed, classes, policies, held_out) for seed in seeds)
    bounds, days = zip(*found, strict=True)
    free, few = (_mean(each) for each in zip(*bounds, strict=True))
    print(f"\n{kind} (simulated), {len(seeds)} jobs; clairvoyant {free:.1%}, with ten changes a day {few:.1%}")
    heads = ("in target", "outside", "worst", "of peak", "all in all", "a day", "most")
    print(f"{'standstill':>10}  {'policy':<14}" + "".join(f"{head:>11}" for head in heads))
    for each in classes:
        for name in policies:
            _print_row(each, name, [day[each, name] for day in days])
    for name in policies:
        more = sum(
            day[expensive, name].result.rescales > day[cheap, name].result.rescales
            for cheap, expensive in pairwise(classes)
            for day in days
        )
        pairs = len(seeds) * (len(classes) - 1)
        print(f"{name}: {more} of {pairs} pairs with more rescales although they cost more")
    if set(policies) == set(POLICIES):
        better = sum(
            day[each, "autotrascale"].all_in_all < day[each, "constants"].all_in_all for each in classes for day in days
        )
        print(f"all in all less than with constants: {better} of {len(seeds) * len(classes)}")


def _print_row(standstill: float, name: str, rows: Sequence[Row]) -> None:
    results = [row.result for row in rows]
    print(
        f"{standstill:>8} s  {name:<14}{_mean(t.in_target for t in results):>11.3%}"
        f"{_mean(t.outside for t in results):>11.3%}{min(t.outside for t in results):>11.3%}"
        f"{_mean(row.of_peak for row in rows):>11.1%}{_mean(row.all_in_all for row in rows):>11.1%}"
        f"{_mean(row.a_day for row in rows):>11.1f}{max(row.a_day for row in rows):>11.1f}"
    )


def print_parts(kind: str, seeds: Sequence[int], standstill: float, policy: str, *, held_out: bool) -> None:
    """Print the parts of the instance-hours of one class, as shares of the static peak."""
    cases = held_out_jobs() if held_out else jobs()
    rows = [_split_day(Day.draw(kind, seed, cases), standstill, policy) for seed in seeds]
    for seed, row in zip(seeds, rows, strict=True):
        family = cases[seed % len(cases)].family
        print(f"{kind} {seed} {family}: " + ", ".join(f"{name} {row[name]:.1%}" for name in PARTS), flush=True)
    print(f"\n{kind} (simulated), {standstill} s, {policy}, of the static peak")
    total = 0.0
    for name in PARTS:
        mean = _mean(row[name] for row in rows)
        print(f"{name:<14}{mean:>8.1%}{mean - total:>+8.1%}")
        total = mean


def _split_day(day: Day, standstill: float, policy: str) -> dict[str, float]:
    instances = count_least_instances(day.with_rescales(CLASSES[standstill]))
    seconds = dict.fromkeys(PARTS, 0.0)  # instance-seconds
    before: list[State] = []

    def add_step(state: State) -> None:
        if before:
            _add_span(seconds, before.pop(), state.clock.now, instances)
        before.append(state)

    result = day.run(standstill, policy, add_step)
    shares = {name: value / (sum(day.peak) * day.seconds) for name, value in seconds.items()}
    ran_and_twice = result.instance_hours / day.static.instance_hours
    return shares | {"clairvoyant": day.clairvoyant[0], "twice": ran_and_twice}


def _add_span(seconds: dict[str, float], state: State, until: float, instances: Callable[[float], int]) -> None:
    """Add the span from `state` to the next step to the parts."""
    passed, running = until - state.clock.now, sum((state.observed or {}).values())
    need = state.memory.rates.need(state.clock.now, HEADROOM)
    seconds["needed"] += passed * (instances(need) if need else running)
    seconds["sized for"] += passed * (instances(state.memory.sized_for) if state.memory.sized_for else running)
    seconds["ran"] += passed * running


def figures() -> dict[str, object]:
    """Return one day, to show that the benchmark runs. The tables take half an hour."""
    day = Day.draw("diurnal", 0, jobs())
    shares = {name: round(Row.of_day(day, day.run(0.2, name)).of_peak, 4) for name in POLICIES}
    return {"simulated": True, "days": 1, "of_static_peak": shares}


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--kind", default="diurnal", choices=(*KINDS, *OTHER_KINDS))
    parser.add_argument("--classes", type=float, nargs="*", default=tuple(CLASSES), choices=tuple(CLASSES))
    parser.add_argument("--who", nargs="*", default=POLICIES, choices=POLICIES, help="policies")
    parser.add_argument("--apart", action="store_true", help="use the held-out families instead")
    parser.add_argument("-j", "--processes", type=int, default=PROCESSES)
    parser.add_argument("--why", action="store_true", help="split the instance-hours above the clairvoyant's")
    arguments = parser.parse_args()
    seeds, held_out = range(arguments.first_seed, arguments.first_seed + arguments.seeds), arguments.apart
    if not arguments.why:
        classes, processes = sorted(arguments.classes), arguments.processes
        compare(arguments.kind, seeds, classes, arguments.who, held_out=held_out, processes=processes)
        return
    for standstill in arguments.classes:
        for name in arguments.who:
            print_parts(arguments.kind, seeds, standstill, name, held_out=held_out)


if __name__ == "__main__":
    main()
