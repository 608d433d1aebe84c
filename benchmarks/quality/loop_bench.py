"""The control loop over simulated days, beside other policies in the same loop, and beside a peak allocation.

Everything but the last figure is **simulated**. A trace is 24 hours of one job; each kind of trace goes over the same
jobs, one for each seed. Every policy runs within the same loop and manager, with the same knobs; those that know no
headroom of their own are given the same by `utilisation`, and a dead band in place of ours. `--who constants` is our
policy as it was before it weighed what a rescale costs, and as it is for jobs whose rules are from then.

    in target       share of the time in which the mean latency of the records that arrived was within the target
    … outside       the same without rescale windows: from the request of a rescale until `running_seconds` after the
                    job runs again, in which nobody decides anything
    instance-hours  over those of the static peak: the least Σk that holds the highest rate of the trace within the
                    target, found on the true simulated job, kept all day
    rescales        a day
    clairvoyant     knows the job and the day: the least for the highest rate of each ten minutes, which takes dozens of
                    rescales; and the cheapest there is with ten. Nobody who keeps the target can be below

    python -m benchmarks.quality.loop_bench
    python -m benchmarks.quality.loop_bench --seeds 1 --kinds diurnal
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from autotrascale.app.autoscale_section import COST_AWARE_PLANNING, LOOP_KNOBS
from autotrascale.domain.target import Target
from autotrascale.execute.simulator.fluid_job import FluidStep
from autotrascale.execute.simulator.live_job import STEP_SECONDS, SimulatedLiveJob
from autotrascale.execute.simulator.rate_functions import (
    DAY,
    ConstantRate,
    Noisy,
    Ramp,
    RateFunction,
    Sine,
    Spikes,
    SteppedRate,
    random_day,
)
from autotrascale.execute.simulator.steady_state import compile_job
from autotrascale.knowledge.decision_journal.journal import DecisionJournal, SessionHeader
from autotrascale.loop import Event, Loop, step
from autotrascale.plan.control.autoscaling.autoscaling_plan import PlanningSettings
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.loop_state import DecisionEntry, Rules, State
from autotrascale.plan.policies import Policy, create
from benchmarks.workloads.case import Case
from benchmarks.workloads.families import draw
from benchmarks.workloads.presets import SPARK_STALLED, WORDCOUNT

SEEDS = 5
CHANGES = 10  # rescales a day that are thought to be few
SIGMA = 0.03  # jitter of the rate, every 10 s
KNOBS = LOOP_KNOBS
WEIGHED_KNOBS = replace(KNOBS, scale_down_delay_seconds=0.0)
HEADROOM = PlanningSettings().headroom
RIVAL_KNOBS = replace(KNOBS, utilisation=1 / (1 + HEADROOM), dead_band=0.1)
CONTENDERS = ("autotrascale", "ds2", "queueing", "threshold")


@dataclass(frozen=True)
class Trial:
    """What one policy did on one trace."""

    in_target: float
    outside: float
    instance_hours: float
    rescales: int
    late_hours: float = 0.0  # instance-hours that ran while the target was missed


# --- jobs and traces --------------------------------------------------------------------------------------------------


def jobs() -> tuple[Case, ...]:
    """Two presets and one of each development family; `contention` has its optimum well inside the bounds."""
    return (WORDCOUNT, SPARK_STALLED, draw("contention", 1), draw("micro-batch", 1), draw("dominant", 1))


def jobs_apart() -> tuple[Case, ...]:
    """The families that nothing was chosen on."""
    return (draw("diamond", 1), draw("skewed", 1), draw("stateful-micro-batch", 1))


def trace(kind: str, seed: int, rate: float) -> RateFunction:
    """24 hours, or a week, that stay below `rate`, but for jitter."""
    rng = np.random.default_rng([seed, 7])
    if kind == "flat":
        return Noisy(ConstantRate(float(rng.uniform(0.2, 0.85)) * rate), SIGMA, seed)
    if kind in ("swings", "weekly"):
        low, high = float(rng.uniform(0.1, 0.25)) * rate, 0.85 * rate
        mean, amplitude = (low + high) / 2, (high - low) / 2
        if kind == "swings":
            period = float(rng.uniform(0.75, 1.5)) * 3600
            return Noisy(Sine(mean, amplitude, period, float(rng.uniform(0, period))), SIGMA, seed)
        free = float(rng.integers(1, 6)) * DAY  # two days of less, that begin at midnight, when there is least
        quieter = Spikes(Sine(mean, amplitude), (free,), float(rng.uniform(0.3, 0.7)), 2 * DAY)
        return Noisy(quieter, SIGMA, seed)
    if kind == "diurnal":
        low = float(rng.uniform(0.1, 0.25))
        return random_day(seed, low * rate, 0.85 * rate, spikes=0, sigma=SIGMA)
    if kind == "spikes":  # on top of a flatter day: a burst may reach 1.8 times its base
        low = float(rng.uniform(0.2, 0.3))
        return random_day(seed, low * rate, 0.5 * rate, spikes=4, sigma=SIGMA)
    if kind == "steps":
        times = (0.0, *sorted(rng.uniform(0.05, 0.95, size=4) * DAY))
        return Noisy(SteppedRate(times, tuple(rng.uniform(0.2, 0.85, size=5) * rate)), SIGMA, seed)
    first, last = sorted(rng.uniform(0.2, 0.85, size=2) * rate)[:: 1 if seed % 2 else -1]
    start = float(rng.uniform(0.1, 0.3)) * DAY
    return Noisy(Ramp(first, last, start, start + float(rng.uniform(2, 12)) * 3600), SIGMA, seed)


KINDS = ("steps", "ramps", "diurnal", "spikes")
OTHER_KINDS = ("flat", "swings", "weekly")  # of `rescale_price_bench.py`


def length(kind: str) -> float:
    return 7 * DAY if kind == "weekly" else DAY


# --- one day ----------------------------------------------------------------------------------------------------------


class Witness:
    """The truth, step by step."""

    def __init__(self, target: float) -> None:
        self.target = target
        self.steps: list[tuple[float, float, bool, int]] = []

    def __call__(self, step: FluidStep, k: tuple[int, ...]) -> None:
        self.steps.append((step.time, step.seconds, step.latency <= self.target, sum(k)))

    def trial(self, windows: Sequence[tuple[float, float]], rescales: int) -> Trial:
        outside = [s for s in self.steps if not any(a < s[0] <= b for a, b in windows)]
        late = [s for s in self.steps if not s[2]]
        return Trial(_met(self.steps), _met(outside), _instance_hours(self.steps), rescales, _instance_hours(late))


def _met(steps: Sequence[tuple[float, float, bool, int]]) -> float:
    return sum(s[1] for s in steps if s[2]) / sum(s[1] for s in steps)


def _instance_hours(steps: Sequence[tuple[float, float, bool, int]]) -> float:
    return sum(s[1] * s[3] for s in steps) / 3600


def rules_of(case: Case, who: str, seed: int) -> Rules:
    target = Target(case.latency_target)
    settings = AutoscalingSettings(target, case.alpha, case.over_allocation, noise=max(case.job.noise, 0.03), seed=seed)
    if who == "autotrascale":
        return Rules(settings, WEIGHED_KNOBS, COST_AWARE_PLANNING, rescales_per_day=None)
    if who == "constants":
        return Rules(settings, KNOBS)
    return Rules(settings, RIVAL_KNOBS, policy=_rival(who, target, case.p_max))


def one_day(
    case: Case,
    schedule: RateFunction,
    rules: Rules,
    seed: int,
    begin: tuple[int, ...],
    seen: Callable[[State], None] = lambda _: None,
    witness: Witness | None = None,
    seconds: float = DAY,
) -> Trial:
    """`seen` is told how the loop stands after each step."""
    witness = witness or Witness(case.latency_target)
    windows: list[tuple[float, float]] = []
    live = SimulatedLiveJob(
        case.job, case.topology, case.source_rates, schedule, p_max=case.p_max, seed=seed, witness=witness
    )
    asked = [0.0]

    def report(state: State, entry: DecisionEntry) -> None:
        seen(state)
        if entry.action == "rescale":
            asked[0] = entry.at
        elif entry.action in ("rescaled", "failed"):
            windows.append((asked[0], entry.at + KNOBS.running_seconds))

    loop = Loop(live, rules, initial=case.topology.named(begin), report=report)
    state = loop.run(seconds)
    return witness.trial(windows, state.totals.rescales)


def _rival(who: str, target: Target, p_max: int) -> Policy:
    return create(who, target, {"cap": p_max} if who == "threshold" else {})


def static_day(case: Case, schedule: RateFunction, k: tuple[int, ...], seconds: float = DAY) -> Trial:
    witness = Witness(case.latency_target)
    live = SimulatedLiveJob(case.job, case.topology, case.source_rates, schedule, p_max=case.p_max, witness=witness)
    live.start(case.topology.named(k))
    live.wait(seconds)
    return witness.trial((), 0)


def static_peak(case: Case, schedule: RateFunction, seconds: float = DAY) -> tuple[int, ...]:
    """For the highest rate of the day."""
    return least(case, max(schedule(i * STEP_SECONDS) for i in range(int(seconds / STEP_SECONDS))))


def least(case: Case, peak: float) -> tuple[int, ...]:
    """Greedy up from ones: the instance that lowers the latency most (or, saturated, the load) until the rate is held;
    then down again by single instances and exchanges, while it stays so."""
    rates = {name: rate * peak / case.rate for name, rate in case.source_rates.items()}
    compiled = compile_job(case.job, case.topology, rates)

    def ranked(ks: np.ndarray) -> np.ndarray:
        state = compiled.steady(ks)
        return np.where(np.isfinite(state.latency), state.latency, 1e6 / state.capacity)

    k, eye = np.ones(len(case.topology), dtype=np.int64), np.eye(len(case.topology), dtype=np.int64)
    while ranked(k[None])[0] > case.latency_target and (k < case.p_max).any():
        near = np.array([k + step for step in eye if (k + step <= case.p_max).all()])
        k = near[np.argmin(ranked(near))]
    return _trimmed(k, lambda ks: ranked(ks) <= case.latency_target, case.p_max)


def clairvoyant_shares(
    case: Case, schedule: RateFunction, static: Trial, changes: int, seconds: float = DAY
) -> tuple[float, float]:
    """Instance-hours over the static peak's of one who knows the job and the day: who takes the least for the highest
    rate of each ten minutes, and who does so with so many changes of parallelism at most."""
    span, known = 600.0, {}

    def instances(peak: float) -> int:
        rate = 1.02 ** math.ceil(math.log(peak) / math.log(1.02))
        if rate not in known:
            known[rate] = sum(least(case, rate))
        return known[rate]

    needs = [
        instances(max(schedule(start + i * STEP_SECONDS) for i in range(int(span / STEP_SECONDS))))
        for start in range(0, int(seconds), int(span))
    ]
    hours = static.instance_hours * 3600 / span
    return sum(needs) / hours, cheapest(needs, changes) / hours


def cheapest(needs: Sequence[int], changes: int) -> float:
    """The least sum over time of a level that is never below `needs` and changes so often at most."""
    n = len(needs)
    stretch = np.full((n + 1, n + 1), np.inf)  # what the slots from i to j take at one level
    for i in range(n + 1):
        stretch[i, i:] = [0.0, *(np.maximum.accumulate(needs[i:]) * np.arange(1, n - i + 1))] if i < n else 0.0
    cost = stretch[0]  # of the first j slots, without a change
    for _ in range(changes):
        cost = (cost[:, None] + stretch).min(axis=0)
    return float(cost[n])


def _trimmed(k: np.ndarray, holds: Callable[[np.ndarray], np.ndarray], p_max: int) -> tuple[int, ...]:
    """Two instances less for one more elsewhere, or one less, while that holds."""
    n = len(k)
    moves = [-np.eye(n, dtype=np.int64)[i] for i in range(n)]
    for i in range(n):
        for j in range(n):
            for fewer in range(2, 5):
                if i != j:
                    moves.append(np.eye(n, dtype=np.int64)[i] * (fewer - 1) - np.eye(n, dtype=np.int64)[j] * fewer)
    while True:
        near = np.array([k + move for move in moves if ((k + move >= 1) & (k + move <= p_max)).all()])
        good = near[holds(near)] if len(near) else near
        if len(good) == 0:
            return tuple(int(x) for x in k)
        k = good[np.argmin(good.sum(axis=1))]


# --- many jobs in one controller -----------------------------------------------------------------------------------


def many_jobs(jobs_kept: int = 1000, interval: float = 10.0, looks: int = 8) -> dict[str, object]:
    """CPU of the pure loop and its journal alone: no simulator, no metrics. One job is simulated for a day first; then
    each of the jobs goes through a stretch of that day of its own, so that all hours and all rescales have their share.
    """
    recorded = _recorded_day(interval)
    starts = [round(i * (len(recorded) - looks - 1) / (jobs_kept - 1)) for i in range(jobs_kept)]
    rules = recorded[0][0]
    opening = SessionHeader("job", "simulator", True, "", 1.0, "mean")
    with tempfile.TemporaryDirectory() as folder:
        decisions = DecisionJournal(Path(folder) / "decisions.db")
        sessions = [decisions.open_session(replace(opening, job=f"job-{i}")) for i in range(jobs_kept)]
        states = [recorded[start][1] for start in starts]
        for session in sessions:
            session.begin(rules)
        began, wall, steps = time.process_time(), time.perf_counter(), 0
        for look in range(looks):
            for i, start in enumerate(starts):
                _, _, event, now = recorded[start + look]
                states[i], instructions = step(rules, states[i], event, now)
                for entry in instructions:
                    if isinstance(entry, DecisionEntry):
                        sessions[i].record(states[i], entry, event)
                steps += 1
        cpu, wall = time.process_time() - began, time.perf_counter() - wall
        decisions.close()
    return {
        "jobs": jobs_kept,
        "interval_seconds": interval,
        "steps": steps,
        "cpu_ms_per_step": round(1000 * cpu / steps, 3),
        "wall_ms_per_step": round(1000 * wall / steps, 3),
        "share_of_a_core": round(cpu / steps * jobs_kept / interval, 3),
    }


def _recorded_day(interval: float) -> list[tuple[Rules, State, Event, float]]:
    """Every step of one simulated day: the state before it, and what happened."""
    case = SPARK_STALLED
    live = SimulatedLiveJob(
        case.job, case.topology, case.source_rates, trace("diurnal", 1, case.rate), p_max=case.p_max
    )
    settings = AutoscalingSettings(Target(case.latency_target), noise=case.job.noise)
    rules = Rules(settings, replace(KNOBS, interval_seconds=interval))
    seen: list[tuple[Rules, State, Event, float]] = []

    class Recorded(Loop):
        def happened(self, event: Event) -> None:
            seen.append((self.rules, self.state, event, event.at))
            super().happened(event)

    Recorded(live, rules, initial=case.topology.named(case.floor)).run(DAY)
    return seen


# --- the figures ------------------------------------------------------------------------------------------------------


def compare(
    kinds: Sequence[str], seeds: Sequence[int], who: Sequence[str] = CONTENDERS, cases: Sequence[Case] = ()
) -> dict[str, object]:
    tables: dict[str, object] = {}
    cases = cases or jobs()
    for kind in kinds:
        trials: dict[str, list[tuple[Trial, Trial]]] = {name: [] for name in (*who, "static-peak")}
        bounds: list[tuple[float, float]] = []
        for seed in seeds:
            case = cases[seed % len(cases)]
            schedule = trace(kind, seed, case.rate)
            peak = static_peak(case, schedule)
            static = static_day(case, schedule, peak)
            trials["static-peak"].append((static, static))
            bounds.append(clairvoyant_shares(case, schedule, static, CHANGES))
            for name in who:
                trials[name].append((one_day(case, schedule, rules_of(case, name, seed), seed, peak), static))
                print(f"{kind} {seed} {case.family} {name}: {_line(*trials[name][-1])}", file=sys.stderr, flush=True)
        tables[kind] = {name: _means(each) for name, each in trials.items()} | {
            "clairvoyant": {"of_static_peak": round(statistics.fmean(free for free, _ in bounds), 4)},
            f"… with {CHANGES}": {"of_static_peak": round(statistics.fmean(few for _, few in bounds), 4)},
        }
    return tables


def _line(trial: Trial, static: Trial) -> str:
    share = trial.instance_hours / static.instance_hours
    return (
        f"{trial.in_target:.2%} in target, {trial.outside:.2%} outside, {share:.0%} of peak, {trial.rescales} rescales"
    )


def _means(pairs: Sequence[tuple[Trial, Trial]]) -> dict[str, float]:
    return {
        "in_target": round(statistics.fmean(t.in_target for t, _ in pairs), 5),
        "in_target_outside_rescales": round(statistics.fmean(t.outside for t, _ in pairs), 5),
        "worst_outside": round(min(t.outside for t, _ in pairs), 5),
        "of_static_peak": round(statistics.fmean(t.instance_hours / s.instance_hours for t, s in pairs), 4),
        "rescales_a_day": round(statistics.fmean(t.rescales for t, _ in pairs), 2),
        "most_rescales": max(t.rescales for t, _ in pairs),
    }


def figures(seeds: int = SEEDS, kinds: Sequence[str] = KINDS) -> dict[str, object]:
    return {
        "simulated": True,
        "seeds_of_each_kind": seeds,
        "knobs": {
            "interval_seconds": KNOBS.interval_seconds,
            "running_seconds": KNOBS.running_seconds,
            "scale_down_delay_seconds": KNOBS.scale_down_delay_seconds,
            "headroom": HEADROOM,
        },
        "traces": compare(kinds, range(seeds)),
        "one_controller": many_jobs(),
    }


def show(tables: dict[str, dict[str, dict[str, float]]]) -> None:
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
    parser.add_argument("--who", nargs="*", default=CONTENDERS, choices=(*CONTENDERS, "constants"))
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--apart", action="store_true", help="the families held apart instead")
    parser.add_argument("--many", action="store_true", help="only the CPU of one controller with 1,000 jobs")
    arguments = parser.parse_args()
    if arguments.many:
        print(json.dumps(many_jobs(), indent=2))
        return
    began = time.process_time()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    tables = compare(arguments.kinds, seeds, arguments.who, jobs_apart() if arguments.apart else ())
    show(tables)  # type: ignore[arg-type]
    print(f"\n{time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main()
