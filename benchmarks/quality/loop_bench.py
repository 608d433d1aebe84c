"""The control loop over simulated days, compared with other policies in the same loop and with a static peak.

All columns are simulated. Every policy runs with the same limits; policies without headroom of their own get the same
headroom and a dead band. `--who constants` is our policy without rescale prices.

    in target       share of the time with a mean latency within the target
    … outside       the same without rescale windows: from a request until `running_seconds` after the job runs again,
                    in which no decision is made
    instance-hours  over those of the static peak, the least Σk that holds the highest rate of the trace all day
    rescales        in a day
    clairvoyant     lower bound: knows the job and the day. One row without a limit of rescales, one with ten

    python -m benchmarks.quality.loop_bench
    python -m benchmarks.quality.loop_bench --seeds 1 --kinds diurnal
    python -m benchmarks.quality.loop_bench --many                      CPU of one process with 1,000 loops
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence

from benchmarks.speed.many_loops import measure_many_loops
from benchmarks.workloads.case import Case
from benchmarks.workloads.day_bounds import FEW_CHANGES, clairvoyant_shares, find_static_peak
from benchmarks.workloads.simulated_days import (
    HEADROOM,
    KINDS,
    KNOBS,
    DayResult,
    held_out_jobs,
    jobs,
    make_rules,
    make_trace,
    run_day,
    run_static_day,
)

SEEDS = 5
POLICIES = ("autotrascale", "ds2", "queueing", "threshold")


def compare_policies(
    kinds: Sequence[str], seeds: Sequence[int], policies: Sequence[str] = POLICIES, cases: Sequence[Case] = ()
) -> dict[str, object]:
    """Return a table for each kind of trace: means over the seeds for each policy and bound."""
    tables: dict[str, object] = {}
    cases = cases or jobs()
    for kind in kinds:
        results: dict[str, list[tuple[DayResult, DayResult]]] = {name: [] for name in (*policies, "static-peak")}
        bounds: list[tuple[float, float]] = []
        for seed in seeds:
            case = cases[seed % len(cases)]
            schedule = make_trace(kind, seed, case.rate)
            peak = find_static_peak(case, schedule)
            static = run_static_day(case, schedule, peak)
            results["static-peak"].append((static, static))
            bounds.append(clairvoyant_shares(case, schedule, static, FEW_CHANGES))
            for name in policies:
                result = run_day(case, schedule, make_rules(case, name, seed), seed, peak)
                results[name].append((result, static))
                print(f"{kind} {seed} {case.family} {name}: {_line(result, static)}", file=sys.stderr, flush=True)
        tables[kind] = {name: _means(each) for name, each in results.items()} | {
            "clairvoyant": {"of_static_peak": round(statistics.fmean(free for free, _ in bounds), 4)},
            f"… with {FEW_CHANGES}": {"of_static_peak": round(statistics.fmean(few for _, few in bounds), 4)},
        }
    return tables


def _line(result: DayResult, static: DayResult) -> str:
    share = result.instance_hours / static.instance_hours
    in_target = f"{result.in_target:.2%} in target, {result.outside:.2%} outside"
    return f"{in_target}, {share:.0%} of peak, {result.rescales} rescales"


def _means(pairs: Sequence[tuple[DayResult, DayResult]]) -> dict[str, float]:
    return {
        "in_target": round(statistics.fmean(t.in_target for t, _ in pairs), 5),
        "in_target_outside_rescales": round(statistics.fmean(t.outside for t, _ in pairs), 5),
        "worst_outside": round(min(t.outside for t, _ in pairs), 5),
        "of_static_peak": round(statistics.fmean(t.instance_hours / s.instance_hours for t, s in pairs), 4),
        "rescales_a_day": round(statistics.fmean(t.rescales for t, _ in pairs), 2),
        "most_rescales": max(t.rescales for t, _ in pairs),
    }


def figures(seeds: int = SEEDS, kinds: Sequence[str] = KINDS) -> dict[str, object]:
    """Return the tables of all kinds of traces, and the CPU time of many loops."""
    return {
        "simulated": True,
        "seeds_of_each_kind": seeds,
        "knobs": {
            "interval_seconds": KNOBS.interval_seconds,
            "running_seconds": KNOBS.running_seconds,
            "scale_down_delay_seconds": KNOBS.scale_down_delay_seconds,
            "headroom": HEADROOM,
        },
        "traces": compare_policies(kinds, range(seeds)),
        "one_controller": measure_many_loops(),
    }


def print_tables(tables: dict[str, dict[str, dict[str, float]]]) -> None:
    for kind, table in tables.items():
        print(f"\n{kind} (simulated)\n{'policy':<14}{'in target':>11}{'outside':>10}{'worst':>10}", end="")
        print(f"{'of peak':>9}{'a day':>7}{'most':>6}")
        for name, row in table.items():
            if len(row) == 1:
                print(f"{name:<14}{row['of_static_peak']:>40.0%}")
                continue
            print(
                f"{name:<14}{row['in_target']:>11.2%}{row['in_target_outside_rescales']:>10.2%}"
                f"{row['worst_outside']:>10.2%}{row['of_static_peak']:>9.0%}{row['rescales_a_day']:>7.1f}"
                f"{row['most_rescales']:>6}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="traces of each kind")
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--who", nargs="*", default=POLICIES, choices=(*POLICIES, "constants"), help="policies")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--apart", action="store_true", help="use the held-out families instead")
    parser.add_argument("--many", action="store_true", help="measure only the CPU of one process with 1,000 loops")
    arguments = parser.parse_args()
    if arguments.many:
        print(json.dumps(measure_many_loops(), indent=2))
        return
    began = time.process_time()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    cases = held_out_jobs() if arguments.apart else ()
    print_tables(compare_policies(arguments.kinds, seeds, arguments.who, cases))  # type: ignore[arg-type]
    print(f"\n{time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main()
