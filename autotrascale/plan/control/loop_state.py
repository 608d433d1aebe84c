"""The values that the control loop steps on: its rules, its state, and the entry that each step leaves in the journal.

All of them are plain and frozen: a state is written down after each step, and read back by the process that goes on.

    observed    what was last seen to run                          `State.observed`
    requested   what was asked of the job, and is not seen yet     `State.requested`, which is the manager's
    planned     what the last decision wanted                      `State.planned`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from autotrascale.domain import checks
from autotrascale.domain.decision import Reason
from autotrascale.domain.observation import RescaleTime
from autotrascale.domain.topology import Topology
from autotrascale.plan.control.autoscaling.autoscaling_memory import CONFIRMING_OBSERVATIONS, AutoscalingMemory
from autotrascale.plan.control.autoscaling.autoscaling_plan import PlanningSettings
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings, LatencyPrediction
from autotrascale.plan.control.clock import Clock
from autotrascale.plan.control.commands import CommandsInForce
from autotrascale.plan.control.manager import scaling_manager
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.control.observations.observation_history import ObservationHistory
from autotrascale.plan.control.observations.slow_services import ServiceLatencyHistory
from autotrascale.plan.policies import Policy
from autotrascale.plan.search.benefit_model import BenefitModel

Parallelism = Mapping[str, int]
LoopAction = Literal["stay", "rescale", "would-rescale", "start", "failed", "rescaled"]
MAX_CHECKED_PREDICTIONS = 50  # predictions that the accuracy is told from


@dataclass(frozen=True)
class Rules:
    """What does not change while the loop runs."""

    settings: AutoscalingSettings
    knobs: Knobs
    planning: PlanningSettings = field(default_factory=PlanningSettings)
    rescales_per_day: int | None = 10  # None: what they cost is the only limit
    stale_seconds: float = 0.0  # 0: three intervals
    advise: bool = False
    models: tuple[BenefitModel, ...] = ()  # of other sessions and of tuning runs
    policy: Policy | None = None  # another policy than ours, within the same guards
    policy_options: Mapping[str, bool | int | float | str] = field(default_factory=dict)  # what it was made with
    topology: Topology | None = None  # the job's own, which measurements are held against
    p_max: int | None = None  # … and the most instances that any of its operators can have

    def __post_init__(self) -> None:
        if self.rescales_per_day is not None:
            checks.count("rescales_per_day", self.rescales_per_day)
        checks.non_negative("stale_seconds", self.stale_seconds)
        checks.positive("interval_seconds", self.knobs.interval_seconds)

    @property
    def oldest(self) -> float:
        """Metrics older than so many seconds are not decided on."""
        return self.stale_seconds or 3 * self.knobs.interval_seconds


@dataclass(frozen=True)
class CheckedPrediction:
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
    looks: int = 0
    held: Mapping[str, int] = field(default_factory=dict)  # looks that held, by the first reason's code and why
    held_in_a_row: int = 0  # up to now
    holds_for: str = ""  # the code and why of the last of them

    def counted(self, seconds: float, met: bool | None, running: Parallelism | None) -> Totals:
        """`met` is None while nobody knows."""
        instances = sum((running or {}).values())
        return replace(
            self,
            seconds=self.seconds + seconds,
            within=self.within + (seconds if met else 0.0),
            unknown=self.unknown + (seconds if met is None else 0.0),
            instance_seconds=self.instance_seconds + instances * seconds,
            most_instances=max(self.most_instances, instances),
        )

    def holding(self, reason: Reason) -> Totals:
        why = reason.numbers.get("why")
        name = f"{reason.code}: {why}" if why else reason.code
        held = {**self.held, name: self.held.get(name, 0) + 1}
        return replace(self, held=held, held_in_a_row=self.held_in_a_row + 1, holds_for=name)

    def not_holding(self) -> Totals:
        return replace(self, held_in_a_row=0)


@dataclass(frozen=True)
class PastRescale:
    """`at` is whole time (`Clock.passed`)."""

    at: float
    growth: int  # instances more than before


@dataclass(frozen=True)
class PolicyMemory:
    """What another policy than ours remembers, as it gave it."""

    policy: str = ""
    memory: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    manager: scaling_manager.ManagerState = field(default_factory=scaling_manager.ManagerState)
    memory: AutoscalingMemory = field(default_factory=AutoscalingMemory)
    clock: Clock = field(default_factory=Clock)
    services: ServiceLatencyHistory = field(default_factory=ServiceLatencyHistory)
    observed: Parallelism | None = None  # what was last seen to run
    down: bool = False  # … and does not any more
    planned: Parallelism | None = None  # what the last decision wanted
    beliefs: ObservationHistory = field(default_factory=ObservationHistory)  # what the next look is compared with
    rescales: tuple[PastRescale, ...] = ()  # of the last day
    changed_at: float | None = None  # when what runs was last changed, or the job started again
    failed_at: float | None = None
    pace: float = 1.0  # times the interval, while the rate swings faster than the job can follow
    predicted: LatencyPrediction | None = None  # of the last rescale, not compared with what came yet
    checked: tuple[CheckedPrediction, ...] = ()
    totals: Totals = field(default_factory=Totals)
    starts: int = 0  # in a row, without the job being seen to run
    number: int = 0  # of the last entry
    slots: int = 0  # that the job takes, or has asked for
    fixed: Mapping[str, int] = field(default_factory=dict)  # operators that ran otherwise than asked, and on how many
    orders: CommandsInForce = field(default_factory=CommandsInForce)  # of people, in force
    measured_at: float | None = None  # when the newest metrics that were believed were made; whole time
    decided_at: float | None = None  # … and when a look was last decided on
    policy: PolicyMemory = field(default_factory=PolicyMemory)
    taken: tuple[RescaleTime, ...] = ()  # by the last rescales

    @property
    def requested(self) -> Parallelism | None:
        """What was asked of the job and was not seen to run yet."""
        return self.manager.requested

    @property
    def meets_target(self) -> bool | None:
        """By more than one look, since the last change; right after it nobody knows."""
        return (
            False
            if self.memory.missed >= CONFIRMING_OBSERVATIONS
            else True
            if self.memory.good >= CONFIRMING_OBSERVATIONS
            else None
        )

    def acts(self, rules: Rules) -> bool:
        """Whether what it decides is carried out."""
        return not (rules.advise or self.orders.paused) or self.orders.applying is not None


@dataclass(frozen=True)
class DecisionEntry:
    """One decision or non-decision, as it is journalled."""

    number: int
    at: float
    action: LoopAction
    running: Parallelism | None
    wanted: Parallelism | None
    reasons: tuple[Reason, ...]
    hold: bool = False
    rate: float | None = None
    latency_seconds: float | None = None
    backlog_records: float | None = None
    predicted: LatencyPrediction | None = None
    checked: CheckedPrediction | None = None


def entry_to_dict(entry: DecisionEntry) -> dict[str, Any]:
    """For programs: the entry as plain data."""
    predicted = entry.predicted
    return {
        "number": entry.number,
        "at": entry.at,
        "action": entry.action,
        "hold": entry.hold,
        "rate": entry.rate,
        "latency_seconds": entry.latency_seconds,
        "backlog_records": entry.backlog_records,
        "running": None if entry.running is None else dict(entry.running),
        "wanted": None if entry.wanted is None else dict(entry.wanted),
        "reasons": [reason.as_dict() for reason in entry.reasons],
        "predicted": predicted and {"rate": predicted.rate, "log_ratio": predicted.mean, "sd": predicted.sd},
        "checked": entry.checked and vars(entry.checked),
    }
