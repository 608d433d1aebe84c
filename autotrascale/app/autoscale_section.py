"""Section `autoscale:` of a job file: the planning of the control loop, and the input rate of a simulated job."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.domain.target import Target
from autotrascale.execute.simulator import rate_functions
from autotrascale.plan.control.autoscaling.autoscaling_plan import PlanningSettings
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.loop_state import Rules
from autotrascale.plan.control.manager.knobs import Knobs

_Section = TypeVar("_Section", Knobs, PlanningSettings, "AutoscaleSection")
TraceKind = Literal["constant", "steps", "ramp", "diurnal", "spikes", "recorded"]

# Defaults of a control loop for keys of `manager:`. The section's own defaults switch every guard off.
LOOP_KNOBS = Knobs(
    interval_seconds=30.0,
    running_seconds=120.0,
    max_gc_share=0.3,
    catch_up_seconds=300.0,
    backlog_seconds=1.0,
    scale_down_delay_seconds=1800.0,
)
# Defaults of the `autrascale` policy. It weighs the cost of a rescale against its saving, so that it needs no delay,
# no smallest step and no daily budget.
COST_AWARE_PLANNING = PlanningSettings(late_worth=20.0, band=1.0, worth=0.0, review_seconds=600.0)
RESCALES_PER_DAY = 10
# Required keys of each kind of trace.
_REQUIRED_KEYS: Mapping[TraceKind, tuple[str, ...]] = {
    "constant": (),
    "steps": ("times", "rates"),
    "ramp": ("rates", "times"),
    "diurnal": ("low", "high"),
    "spikes": ("starts", "height", "width"),
    "recorded": ("file",),
}


@dataclass(frozen=True)
class RateTrace:
    """Input rate of a simulated job over time. The default is the constant rate of `source_rates`."""

    kind: TraceKind = "constant"  # Shape of the rate over time.
    times: tuple[float, ...] = ()  # Seconds. steps: start of each step; ramp: start and end.
    rates: tuple[float, ...] = ()  # Records/s. steps: rate of each step; ramp: rates at start and end.
    low: float | None = None  # diurnal: lowest rate of the day, records/s.
    high: float | None = None  # diurnal: highest rate of the day, records/s.
    starts: tuple[float, ...] = ()  # spikes: start of each spike, seconds.
    height: float | None = None  # spikes: multiple of the constant rate.
    width: float | None = None  # spikes: duration, seconds.
    file: str = ""  # recorded: CSV file of `seconds,rate`, relative to the job file.
    jitter: float = 0.0  # Standard deviation of the rate's logarithm, drawn every 10 s.
    seed: int = 0  # Seed of the jitter.

    def __post_init__(self) -> None:
        for name in _REQUIRED_KEYS[self.kind]:
            if getattr(self, name) in ((), None, ""):
                raise InputError(
                    name,
                    f"is missing, but a trace of kind {self.kind} requires it",
                    remedy=f"give {' and '.join(_REQUIRED_KEYS[self.kind])}",
                )
        checks.non_negative("jitter", self.jitter)
        if self.kind == "ramp" and (len(self.times), len(self.rates)) != (2, 2):
            raise InputError(
                "times",
                "and rates of a ramp need two values each",
                seen=self.times,
                remedy="give start and end, and the rates at start and end",
            )

    def rate_function(self, rate: float, folder: Path) -> rate_functions.RateFunction:
        """Return the rate over time.

        Args:
            rate: constant rate of the job in records/s, which `constant` and `spikes` build on.
            folder: folder of the job file, which `file` is relative to.

        Raises:
            InputError: the recorded trace cannot be read.
        """
        base = self._base(rate, folder)
        return rate_functions.Noisy(base, self.jitter, self.seed) if self.jitter else base

    def _base(self, rate: float, folder: Path) -> rate_functions.RateFunction:
        match self.kind:
            case "steps":
                return rate_functions.SteppedRate(self.times, self.rates)
            case "ramp":
                return rate_functions.Ramp(*self.rates, *self.times)
            case "diurnal":
                low, high = self.low or 0.0, self.high or 0.0
                return rate_functions.Sine((low + high) / 2, (high - low) / 2)
            case "spikes":
                constant = rate_functions.ConstantRate(rate)
                return rate_functions.Spikes(constant, self.starts, self.height or 0.0, self.width or 0.0)
            case "recorded":
                return _read_trace(folder / self.file)
            case _:
                return rate_functions.ConstantRate(rate)


@dataclass(frozen=True)
class AutoscaleSection:
    """Section `autoscale:` of a job file. The section `manager:` limits when and how far the loop may act."""

    planning: PlanningSettings = field(default_factory=PlanningSettings)  # Settings of planning.
    confidence: float = 0.75  # Required probability that a parallelism meets the target before a rescale to it.
    rescales_per_day: int | None = None  # Upper limit for rescales in 24 hours.
    stale_seconds: float = 0.0  # Age in seconds from which metrics are ignored; 0: three intervals.
    keep_looks_days: float = 7.0  # Days for which observations are kept, so that decisions can be replayed.
    shared_quota: int | None = None  # Slots of all jobs together whose loops share one store.
    trace: RateTrace = field(default_factory=RateTrace)  # Input rate of a simulated job.

    def __post_init__(self) -> None:
        if self.shared_quota is not None:
            checks.count("shared_quota", self.shared_quota)
        checks.share("confidence", self.confidence)
        if self.rescales_per_day is not None:
            checks.count("rescales_per_day", self.rescales_per_day)
        checks.non_negative("stale_seconds", self.stale_seconds)
        checks.non_negative("keep_looks_days", self.keep_looks_days)

    def with_cost_aware_planning(self) -> AutoscaleSection:
        """Return the section with the planning defaults of the `autrascale` policy."""
        return replace(self, planning=fill_defaults(self.planning, COST_AWARE_PLANNING))


def fill_loop_knobs(knobs: Knobs, target: Target, *, is_micro_batch: bool, is_cost_aware: bool = False) -> Knobs:
    """Return the knobs of a control loop: `knobs` with the defaults of a loop.

    In micro-batch execution, records that arrive during a batch wait for the next batch. They count as backlog only
    beyond the latency target.

    Args:
        knobs: the section `manager:`.
        target: the latency target.
        is_micro_batch: whether the job runs in micro-batches.
        is_cost_aware: whether planning weighs the cost of rescales, which replaces the scale-down delay.
    """
    defaults = replace(LOOP_KNOBS, scale_down_delay_seconds=0.0) if is_cost_aware else LOOP_KNOBS
    if is_micro_batch:
        defaults = replace(defaults, backlog_seconds=max(LOOP_KNOBS.backlog_seconds, target.latency_seconds))
    return fill_defaults(knobs, defaults)


def build_loop_rules(
    section: AutoscaleSection, settings: AutoscalingSettings, knobs: Knobs, *, advise: bool = False
) -> Rules:
    """Return the rules of a control loop. A daily budget applies by default unless planning weighs rescale costs."""
    is_cost_aware = section.planning.late_worth is not None
    limit = section.rescales_per_day or (None if is_cost_aware else RESCALES_PER_DAY)
    return Rules(
        replace(settings, confidence=section.confidence), knobs, section.planning, limit, section.stale_seconds, advise
    )


def fill_defaults(section: _Section, defaults: _Section) -> _Section:
    """Return `section` with the values of `defaults` for keys that still have the default of their class."""
    neutral: Any = type(section)()
    unset = [each.name for each in fields(neutral) if getattr(section, each.name) == getattr(neutral, each.name)]
    changes: dict[str, Any] = {name: getattr(defaults, name) for name in unset}
    return replace(section, **changes)


def _read_trace(path: Path) -> rate_functions.RecordedRates:
    place = "autoscale.trace.file"
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            rows = [(float(time), float(rate)) for time, rate in csv.reader(lines)]
    except OSError as error:
        raise InputError(place, "cannot be read", seen=f"{path}: {error.strerror}", remedy="check the path") from None
    except ValueError as error:
        raise InputError(
            place,
            "is not a CSV file of seconds,rate",
            seen=f"{path}: {error}",
            remedy="write two numbers a line, and no heading",
        ) from None
    return rate_functions.RecordedRates(tuple(time for time, _ in rows), tuple(rate for _, rate in rows))
