"""The `autoscale:` section of a job file: how the control loop keeps the job, and the trace of a simulated one."""

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
Kind = Literal["constant", "steps", "ramp", "diurnal", "spikes", "recorded"]

# What the loop uses for knobs that the `manager:` section leaves as they are, which is neutral.
LOOP_KNOBS = Knobs(
    interval_seconds=30.0,
    running_seconds=120.0,
    max_gc_share=0.3,
    catch_up_seconds=300.0,
    backlog_seconds=1.0,
    scale_down_delay_seconds=1800.0,
)
# … and the planning of our own policy, which weighs what a rescale costs against what it saves: no delay, no least
# step, no number of rescales a day.
COST_AWARE_PLANNING = PlanningSettings(late_worth=20.0, band=1.0, worth=0.0, review_seconds=600.0)
RESCALES_PER_DAY = 10
# What each kind of trace is made of.
_NEEDS: Mapping[Kind, tuple[str, ...]] = {
    "constant": (),
    "steps": ("times", "rates"),
    "ramp": ("rates", "times"),
    "diurnal": ("low", "high"),
    "spikes": ("starts", "height", "width"),
    "recorded": ("file",),
}


@dataclass(frozen=True)
class RateTrace:
    """The rate of a simulated job over its time; seconds and records/s. Without one it is the job's `source_rates`."""

    kind: Kind = "constant"
    times: tuple[float, ...] = ()  # steps: from when on; ramp: from when to when
    rates: tuple[float, ...] = ()  # … and how much
    low: float | None = None  # diurnal: at night
    high: float | None = None  # … and at noon
    starts: tuple[float, ...] = ()  # spikes: when
    height: float | None = None  # … times the rate
    width: float | None = None  # … for how long
    file: str = ""  # recorded: lines of seconds,rate
    jitter: float = 0.0  # standard deviation of the rate's logarithm, every 10 s
    seed: int = 0

    def __post_init__(self) -> None:
        for name in _NEEDS[self.kind]:
            if getattr(self, name) in ((), None, ""):
                raise InputError(
                    name,
                    f"is missing, and a trace of kind {self.kind} is made of it",
                    remedy=f"give {' and '.join(_NEEDS[self.kind])}",
                )
        checks.non_negative("jitter", self.jitter)
        if self.kind == "ramp" and (len(self.times), len(self.rates)) != (2, 2):
            raise InputError(
                "times",
                "of a ramp are two, and so are its rates",
                seen=self.times,
                remedy="give when it begins and ends, and the rates then",
            )

    def schedule(self, rate: float, folder: Path) -> rate_functions.RateFunction:
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
                return rate_functions.Spikes(
                    rate_functions.ConstantRate(rate), self.starts, self.height or 0.0, self.width or 0.0
                )
            case "recorded":
                return _recorded(folder / self.file)
            case _:
                return rate_functions.ConstantRate(rate)


@dataclass(frozen=True)
class AutoscaleSection:
    """The planning of the loop; when it may act is for the `manager:` section to say."""

    planning: PlanningSettings = field(default_factory=PlanningSettings)
    confidence: float = 0.75  # that a parallelism meets the target, before it is rescaled to
    rescales_per_day: int | None = None  # None: as usual
    stale_seconds: float = 0.0  # metrics older than this are not decided on; 0: three intervals
    keep_looks_days: float = 7.0  # for so long every look is kept, so that decisions can be made again from them
    shared_quota: int | None = None  # slots of all jobs together whose loops keep their journals in one store
    trace: RateTrace = field(default_factory=RateTrace)

    def __post_init__(self) -> None:
        if self.shared_quota is not None:
            checks.count("shared_quota", self.shared_quota)
        checks.share("confidence", self.confidence)
        if self.rescales_per_day is not None:
            checks.count("rescales_per_day", self.rescales_per_day)
        checks.non_negative("stale_seconds", self.stale_seconds)
        checks.non_negative("keep_looks_days", self.keep_looks_days)

    def weighing(self) -> AutoscaleSection:
        """For our own policy: what is left open of its planning weighs what rescales cost."""
        return replace(self, planning=fill_defaults(self.planning, COST_AWARE_PLANNING))


def fill_loop_knobs(given: Knobs, target: Target, *, micro_batch: bool, weighed: bool = False) -> Knobs:
    """The manager's knobs, those that were left neutral as a loop needs them. Where rescales are weighed, what one
    saves says how long to wait for it, and no delay.

    What arrives while a micro-batch runs waits for the next one: a backlog only when it is more than the target allows.
    """
    loop = replace(LOOP_KNOBS, scale_down_delay_seconds=0.0) if weighed else LOOP_KNOBS
    if micro_batch:
        loop = replace(loop, backlog_seconds=max(LOOP_KNOBS.backlog_seconds, target.latency_seconds))
    return fill_defaults(given, loop)


def build_loop_rules(
    section: AutoscaleSection, settings: AutoscalingSettings, knobs: Knobs, *, advise: bool = False
) -> Rules:
    """What the section leaves open is as usual for a loop that weighs its rescales, or for one that does not."""
    weighed = section.planning.late_worth is not None
    limit = section.rescales_per_day or (None if weighed else RESCALES_PER_DAY)
    return Rules(
        replace(settings, confidence=section.confidence), knobs, section.planning, limit, section.stale_seconds, advise
    )


def fill_defaults(given: _Section, usual: _Section) -> _Section:
    """What was left as it is by itself, as it usually is."""
    neutral: Any = type(given)()
    left = [each.name for each in fields(neutral) if getattr(given, each.name) == getattr(neutral, each.name)]
    changes: dict[str, Any] = {name: getattr(usual, name) for name in left}
    return replace(given, **changes)


def _recorded(path: Path) -> rate_functions.RecordedRates:
    place = "autoscale.trace.file"
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            rows = [(float(time), float(rate)) for time, rate in csv.reader(lines)]
    except OSError as error:
        raise InputError(place, "cannot be read", seen=f"{path}: {error.strerror}", remedy="check the path") from None
    except ValueError as error:
        raise InputError(
            place, "is not lines of seconds,rate", seen=f"{path}: {error}", remedy="two numbers a line, no heading"
        ) from None
    return rate_functions.RecordedRates(tuple(time for time, _ in rows), tuple(rate for _, rate in rows))
