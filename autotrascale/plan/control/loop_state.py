"""The values that the control loop steps on: its rules, its state, and the entry that each step leaves in the journal.

All of them are plain and frozen: a state is written down after each step, and read back by the process that goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from autotrascale.domain import checks
from autotrascale.domain.decision import Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.control import manager
from autotrascale.plan.control.autoscaling import Memory, PlanningSettings
from autotrascale.plan.control.knobs import Knobs
from autotrascale.plan.control.prediction import Prediction, Settings, grid_rate
from autotrascale.plan.control.signals import Clock, Services
from autotrascale.plan.policies import Policy
from autotrascale.plan.search.benefit_model import BenefitModel

Parallelism = Mapping[str, int]
Action = Literal["stay", "rescale", "would-rescale", "start", "failed", "rescaled"]
DAY = 86_400.0
JUDGED = 50  # predictions that the accuracy is told from
WIDEST = 16.0  # times the interval
HOUR = 3600.0


@dataclass(frozen=True)
class Rules:
    """What does not change while the loop runs."""

    settings: Settings
    knobs: Knobs
    planning: PlanningSettings = field(default_factory=PlanningSettings)
    rescales_per_day: int = 10
    stale_seconds: float = 0.0  # 0: three intervals
    advise: bool = False
    models: tuple[BenefitModel, ...] = ()  # of other sessions and of tuning runs
    policy: Policy | None = None  # another policy than ours, within the same guards

    def __post_init__(self) -> None:
        checks.count("rescales_per_day", self.rescales_per_day)
        checks.non_negative("stale_seconds", self.stale_seconds)
        checks.positive("interval_seconds", self.knobs.interval_seconds)


@dataclass(frozen=True)
class Judged:
    """What was predicted of a rescale, and what came: latencies in seconds."""

    predicted: float
    sd: float
    observed: float


@dataclass(frozen=True)
class Totals:
    seconds: float = 0.0
    within: float = 0.0  # … of these within the target
    unknown: float = 0.0
    instance_seconds: float = 0.0
    most_instances: int = 0
    rescales: int = 0
    starts: int = 0


@dataclass(frozen=True)
class State:
    manager: manager.State = field(default_factory=manager.State)
    memory: Memory = field(default_factory=Memory)
    clock: Clock = field(default_factory=Clock)
    services: Services = field(default_factory=Services)
    observed: Parallelism | None = None  # what ran at the last look
    requested: Parallelism | None = None  # what was asked of the job and not yet answered
    planned: Parallelism | None = None  # what the last decision wanted
    good: Parallelism | None = None  # the last that was seen to run
    backlog: float = 0.0
    rescales: tuple[tuple[float, int], ...] = ()  # of the last day: when, and by how many instances
    changed_at: float | None = None  # when what runs was last changed, or the job started again
    failed_at: float | None = None
    pace: float = 1.0
    awaiting: Prediction | None = None
    judged: tuple[Judged, ...] = ()
    totals: Totals = field(default_factory=Totals)
    starts: int = 0  # in a row, without the job being seen to run
    number: int = 0  # of the last entry


@dataclass(frozen=True)
class Entry:
    """One decision or non-decision, as it is journalled."""

    number: int
    at: float
    action: Action
    running: Parallelism | None
    wanted: Parallelism | None
    reasons: tuple[Reason, ...]
    rate: float | None = None
    latency_seconds: float | None = None
    backlog_records: float | None = None
    predicted: Prediction | None = None
    judged: Judged | None = None


# --- small steps of a state -------------------------------------------------------------------------------------------


def counted(totals: Totals, seconds: float, met: bool | None, running: Parallelism | None) -> Totals:
    """`met` is None while nobody knows."""
    instances = sum((running or {}).values())
    return replace(
        totals,
        seconds=totals.seconds + seconds,
        within=totals.within + (seconds if met else 0.0),
        unknown=totals.unknown + (seconds if met is None else 0.0),
        instance_seconds=totals.instance_seconds + instances * seconds,
        most_instances=max(totals.most_instances, instances),
    )


def latest(wishes: tuple[tuple[float, Parallelism], ...]) -> tuple[tuple[float, Parallelism], ...]:
    """Each wish once, at its latest time: the largest of a time span stays the same, and a day of it fits a page."""
    newest = {tuple(wish.values()): (at, wish) for at, wish in wishes}
    return tuple(sorted(newest.values(), key=lambda each: each[0]))


def paced(knobs: Knobs, pace: float, missing: bool) -> Knobs:
    """A rate that changes faster than the job can follow is followed less often, but a missed target is not left."""
    if pace <= 1.0:
        return knobs
    interval = knobs.interval_seconds * (1.0 if missing else pace)
    return replace(knobs, interval_seconds=interval, scale_down_delay_seconds=knobs.scale_down_delay_seconds * pace)


def back_off(state: State, knobs: Knobs) -> float:
    """Up and down and up again within what a rescale should last at least: twice as slow from here on."""
    if len(state.rescales) < 3:
        return state.pace
    (first, one), (_, two), (last, three) = state.rescales[-3:]
    span = max(HOUR, 4 * (knobs.running_seconds + knobs.scale_down_delay_seconds * state.pace))
    swings = one * two < 0 and two * three < 0
    return min(WIDEST, 2 * state.pace) if swings and last - first < span else state.pace


def usual_pace(state: State, knobs: Knobs) -> float:
    """Quiet for long: the usual pace again."""
    if state.pace <= 1.0 or not state.rescales:
        return 1.0
    quiet = state.clock.now - state.rescales[-1][0]
    return 1.0 if quiet > max(HOUR, 4 * (knobs.running_seconds + knobs.scale_down_delay_seconds)) * 2 else state.pace


def judged(state: State, target: Target, snapshot: Snapshot, latency: float) -> tuple[State, Judged | None]:
    """Did the last rescale bring what was predicted? At another rate nothing was."""
    awaiting = state.awaiting
    if awaiting is None or awaiting.k != tuple(snapshot.parallelism.values()):
        return state, None
    state = replace(state, awaiting=None)
    if snapshot.target_rate <= 0 or grid_rate(snapshot.target_rate) != awaiting.rate:
        return state, None
    seconds = target.latency_seconds
    came = Judged(awaiting.latency(seconds), awaiting.spread(seconds), latency)
    return replace(state, judged=(*state.judged, came)[-JUDGED:]), came


def failing(state: State, knobs: Knobs) -> Reason | None:
    """A rescale that failed is not asked for again at once."""
    pause = max(knobs.running_seconds, knobs.interval_seconds)
    if state.failed_at is None or state.clock.now - state.failed_at >= pause:
        return None
    return Reason("hold-failed", f"the last rescale failed: left alone for {pause:.0f} s")


def as_entry(entry: Entry) -> dict[str, Any]:
    """For programs: the entry as plain data."""
    return {
        "number": entry.number,
        "at": entry.at,
        "action": entry.action,
        "rate": entry.rate,
        "latency_seconds": entry.latency_seconds,
        "backlog_records": entry.backlog_records,
        "running": None if entry.running is None else dict(entry.running),
        "wanted": None if entry.wanted is None else dict(entry.wanted),
        "reasons": [reason.as_dict() for reason in entry.reasons],
        "predicted": entry.predicted and {"rate": entry.predicted.rate, "log_ratio": entry.predicted.mean,
                                        "sd": entry.predicted.sd},
        "judged": entry.judged and vars(entry.judged),
    }  # fmt: skip
