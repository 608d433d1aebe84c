"""Simulated days of a job: the traces of its rate, and the control loop or a fixed parallelism over a trace.

A trace is 24 hours of one job. Each kind of trace goes over the same jobs, one for each seed. Every policy runs in the
same loop with the same limits. Policies without headroom get the same headroom by `utilisation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autotrascale.app.autoscale_section import COST_AWARE_PLANNING, LOOP_KNOBS
from autotrascale.domain.target import Target
from autotrascale.execute.simulator.fluid_job import FluidStep
from autotrascale.execute.simulator.live_job import SimulatedLiveJob
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
from autotrascale.loop import Loop, LoopCollaborators, LoopListener
from autotrascale.plan.control.autoscaling.autoscaling_plan import PlanningSettings
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.loop_state import DecisionEntry, Rules, State
from autotrascale.plan.policies.registry import create
from benchmarks.workloads.case import Case
from benchmarks.workloads.families import draw_case
from benchmarks.workloads.presets import SPARK_STALLED, WORDCOUNT

SIGMA = 0.03  # jitter of the rate, relative, every 10 s
KNOBS = LOOP_KNOBS
COST_AWARE_KNOBS = replace(KNOBS, scale_down_delay_seconds=0.0)
HEADROOM = PlanningSettings().headroom
OTHER_POLICY_KNOBS = replace(KNOBS, utilisation=1 / (1 + HEADROOM), dead_band=0.1)
KINDS = ("steps", "ramps", "diurnal", "spikes")
OTHER_KINDS = ("flat", "swings", "weekly")  # for benchmarks/quality/rescale_price_bench.py


@dataclass(frozen=True)
class DayResult:
    """The result of one policy on one trace.

    Args:
        in_target: share of the time with a mean latency within the target.
        outside: the same without rescale windows, from a request until `running_seconds` after the job runs again.
        instance_hours: sum of instances over time, in hours.
        rescales: number of rescales.
        late_hours: instance-hours during which the target was missed.
    """

    in_target: float
    outside: float
    instance_hours: float
    rescales: int
    late_hours: float = 0.0


def jobs() -> tuple[Case, ...]:
    """Return two presets and one job of each development family. `contention` has its optimum inside the bounds."""
    return (WORDCOUNT, SPARK_STALLED, draw_case("contention", 1), draw_case("micro-batch", 1), draw_case("dominant", 1))


def held_out_jobs() -> tuple[Case, ...]:
    """Return jobs of the families that no default was chosen on."""
    return (draw_case("diamond", 1), draw_case("skewed", 1), draw_case("stateful-micro-batch", 1))


def make_trace(kind: str, seed: int, rate: float) -> RateFunction:
    """Return a random trace of 24 hours, or of a week, that stays below `rate` except for jitter."""
    rng = np.random.default_rng([seed, 7])
    if kind == "flat":
        return Noisy(ConstantRate(float(rng.uniform(0.2, 0.85)) * rate), SIGMA, seed)
    if kind in ("swings", "weekly"):
        low, high = float(rng.uniform(0.1, 0.25)) * rate, 0.85 * rate
        mean, amplitude = (low + high) / 2, (high - low) / 2
        if kind == "swings":
            period = float(rng.uniform(0.75, 1.5)) * 3600
            return Noisy(Sine(mean, amplitude, period, float(rng.uniform(0, period))), SIGMA, seed)
        weekend = float(rng.integers(1, 6)) * DAY  # begins at midnight, when the rate is lowest
        quieter = Spikes(Sine(mean, amplitude), (weekend,), float(rng.uniform(0.3, 0.7)), 2 * DAY)
        return Noisy(quieter, SIGMA, seed)
    if kind == "diurnal":
        low = float(rng.uniform(0.1, 0.25))
        return random_day(seed, low * rate, 0.85 * rate, spikes=0, sigma=SIGMA)
    if kind == "spikes":  # on a flatter day: a burst may reach 1.8 times its base
        low = float(rng.uniform(0.2, 0.3))
        return random_day(seed, low * rate, 0.5 * rate, spikes=4, sigma=SIGMA)
    if kind == "steps":
        times = (0.0, *sorted(rng.uniform(0.05, 0.95, size=4) * DAY))
        return Noisy(SteppedRate(times, tuple(rng.uniform(0.2, 0.85, size=5) * rate)), SIGMA, seed)
    first, last = sorted(rng.uniform(0.2, 0.85, size=2) * rate)[:: 1 if seed % 2 else -1]
    start = float(rng.uniform(0.1, 0.3)) * DAY
    return Noisy(Ramp(first, last, start, start + float(rng.uniform(2, 12)) * 3600), SIGMA, seed)


def trace_seconds(kind: str) -> float:
    return 7 * DAY if kind == "weekly" else DAY


class Witness:
    """The true steps of a simulated job: end, seconds, whether the latency met the target, and Σk."""

    def __init__(self, target: float) -> None:
        self.target = target
        self.steps: list[tuple[float, float, bool, int]] = []

    def __call__(self, step: FluidStep, k: tuple[int, ...]) -> None:
        self.steps.append((step.time, step.seconds, step.latency <= self.target, sum(k)))

    def result(self, windows: Sequence[tuple[float, float]], rescales: int) -> DayResult:
        """Return the result of the day. `windows` are the begins and ends of its rescale windows."""
        outside = [s for s in self.steps if not any(a < s[0] <= b for a, b in windows)]
        late = [s for s in self.steps if not s[2]]
        hours = _instance_hours(self.steps)
        return DayResult(
            _share_in_target(self.steps), _share_in_target(outside), hours, rescales, _instance_hours(late)
        )


def _share_in_target(steps: Sequence[tuple[float, float, bool, int]]) -> float:
    return sum(s[1] for s in steps if s[2]) / sum(s[1] for s in steps)


def _instance_hours(steps: Sequence[tuple[float, float, bool, int]]) -> float:
    return sum(s[1] * s[3] for s in steps) / 3600


def make_rules(case: Case, policy: str, seed: int) -> Rules:
    """Return the rules of a loop: "autotrascale", "constants" (it without rescale prices), or another policy."""
    target = Target(case.latency_target)
    settings = AutoscalingSettings(target, case.alpha, case.over_allocation, noise=max(case.job.noise, 0.03), seed=seed)
    if policy == "autotrascale":
        return Rules(settings, COST_AWARE_KNOBS, COST_AWARE_PLANNING, rescales_per_day=None)
    if policy == "constants":
        return Rules(settings, KNOBS)
    options = {"cap": case.p_max} if policy == "threshold" else {}
    return Rules(settings, OTHER_POLICY_KNOBS, policy=create(policy, target, options))


def run_day(
    case: Case,
    schedule: RateFunction,
    rules: Rules,
    seed: int,
    initial: tuple[int, ...],
    on_step: Callable[[State], None] = lambda _: None,
    witness: Witness | None = None,
    seconds: float = DAY,
) -> DayResult:
    """Run the control loop over a trace.

    Args:
        case: the simulated job.
        schedule: rate over time.
        rules: rules of the loop.
        seed: seed of the simulated job.
        initial: first parallelism.
        on_step: receives the state of the loop after each of its entries.
        witness: receives the true steps of the job.
        seconds: length of the trace.
    """
    witness = witness or Witness(case.latency_target)
    windows: list[tuple[float, float]] = []
    live = SimulatedLiveJob(
        case.job, case.topology, case.source_rates, schedule, p_max=case.p_max, seed=seed, witness=witness
    )
    requested_at = [0.0]

    class Watch(LoopListener):
        def on_entry(self, state: State, entry: DecisionEntry) -> None:
            on_step(state)
            if entry.action == "rescale":
                requested_at[0] = entry.at
            elif entry.action in ("rescaled", "failed"):
                windows.append((requested_at[0], entry.at + KNOBS.running_seconds))

    loop = Loop(live, rules, initial=case.topology.named(initial), around=LoopCollaborators(listener=Watch()))
    state = loop.run(seconds)
    return witness.result(windows, state.totals.rescales)


def run_static_day(case: Case, schedule: RateFunction, k: tuple[int, ...], seconds: float = DAY) -> DayResult:
    """Run a trace with a fixed parallelism."""
    witness = Witness(case.latency_target)
    live = SimulatedLiveJob(case.job, case.topology, case.source_rates, schedule, p_max=case.p_max, witness=witness)
    live.start(case.topology.named(k))
    live.wait(seconds)
    return witness.result((), 0)
