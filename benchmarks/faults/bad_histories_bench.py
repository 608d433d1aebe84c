"""The behaviour of the control loop under bad measurements: wrong scalings, lasting failures and exceptions, counted.

`benchmarks/workloads/bad_histories.py` defines a wrong scaling, against the truth of a scripted job. In the middle of a
history, a third of the observations are bad in dozens of ways: missing, stale, repeated, from the future,
contradictory, impossible.

    python -m benchmarks.faults.bad_histories_bench
    python -m benchmarks.faults.bad_histories_bench --histories 200 --show
    python -m benchmarks.faults.bad_histories_bench --first-seed 10000 --show
"""

from __future__ import annotations

import argparse
import json
import traceback
from collections.abc import Mapping
from dataclasses import replace

from autotrascale.app.autoscale_section import COST_AWARE_PLANNING
from autotrascale.domain.target import Target
from autotrascale.loop import Loop
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.loop_state import Rules
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.policies.registry import create
from benchmarks.workloads.bad_histories import FULLEST, INTERVAL, SECONDS, TARGET, choose_start, draw_history

HISTORIES = 2000
SETTINGS = AutoscalingSettings(Target(TARGET))
PLAIN = Knobs(interval_seconds=INTERVAL, running_seconds=60.0, catch_up_seconds=300.0, backlog_seconds=1.0)
SLOW = replace(PLAIN, scale_down_delay_seconds=300.0)
CAREFUL = replace(SLOW, target_rate_ratio=0.8, rollback_loss=0.2, min_effectiveness=0.1, restart_seconds=20.0)
VARIANTS: Mapping[str, Rules] = {
    "autoscale": Rules(SETTINGS, SLOW),
    "autoscale, no delay": Rules(SETTINGS, PLAIN),
    "autoscale, all lessons": Rules(SETTINGS, CAREFUL),
    "autoscale, weighed": Rules(SETTINGS, PLAIN, COST_AWARE_PLANNING, rescales_per_day=None),
    "ds2": Rules(SETTINGS, replace(SLOW, utilisation=FULLEST), policy=create("ds2")),
    "ds2, no delay, all lessons": Rules(
        SETTINGS, replace(CAREFUL, scale_down_delay_seconds=0.0, utilisation=FULLEST), policy=create("ds2")
    ),
}


def run_history(seed: int, rules: Rules) -> tuple[list[str], str | None, str | None, int]:
    """Return wrong scalings, lasting failures, exceptions and held observations of one history."""
    job = draw_history(seed)
    loop = Loop(job, rules, initial=choose_start(job))
    try:
        loop.run(SECONDS)
        while job.now < SECONDS:  # a jump of the clock may end it early
            loop.run(INTERVAL)
    except Exception:  # every exception counts
        return job.wrong, None, traceback.format_exc(), 0
    return job.wrong, job.find_lasting_failure(), None, sum(loop.state.totals.held.values())


def count(histories: int, first_seed: int = 0, *, show: bool = False) -> dict[str, dict[str, float]]:
    table = {}
    for name, rules in VARIANTS.items():
        wrong = failed = raised = held = 0
        for seed in range(first_seed, first_seed + histories // len(VARIANTS)):
            scalings, failure, error, holds = run_history(seed, rules)
            wrong, failed, raised, held = (
                wrong + bool(scalings),
                failed + bool(failure),
                raised + bool(error),
                held + holds,
            )
            for line in [*scalings, failure, error] if show else ():
                if line:
                    print(f"{name}, {seed}: {line}")
        n = histories // len(VARIANTS)
        table[name] = {
            "histories": n,
            "with_wrong_scalings": wrong,
            "with_lasting_failures": failed,
            "with_exceptions": raised,
            "holds_each": round(held / n, 1),
        }
    return table


def figures(histories: int = HISTORIES) -> dict[str, object]:
    return {"simulated": True, "table": count(histories)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=HISTORIES)
    parser.add_argument("--first-seed", type=int, default=0, help="histories that nothing was chosen on: 10000")
    parser.add_argument("--show", action="store_true", help="every one that went wrong")
    arguments = parser.parse_args()
    print(json.dumps(count(arguments.histories, arguments.first_seed, show=arguments.show), indent=2))


if __name__ == "__main__":
    main()
