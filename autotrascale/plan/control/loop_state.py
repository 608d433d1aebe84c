"""The values of the control loop: its rules, its state, and the journal entry of each step.

All values are frozen and plain. The state is stored after each step, and another process can continue from it.

Three parallelisms are kept apart:

    observed    seen to run last                              `State.observed`
    requested   asked of the job, and not seen to run yet     `State.requested`, owned by the scaling manager
    planned     wanted by the last decision                   `State.planned`
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
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.control.manager.manager_state import ManagerState
from autotrascale.plan.control.observations.observation_history import ObservationHistory
from autotrascale.plan.control.observations.slow_services import ServiceLatencyHistory
from autotrascale.plan.policies.base import Policy
from autotrascale.plan.search.benefit_model import BenefitModel

Parallelism = Mapping[str, int]
LoopAction = Literal["stay", "rescale", "would-rescale", "start", "failed", "rescaled"]
MAX_CHECKED_PREDICTIONS = 50  # the newest; accuracy is computed from them


@dataclass(frozen=True)
class Rules:
    """The settings of a control loop. They do not change while it runs."""

    settings: AutoscalingSettings
    knobs: Knobs
    planning: PlanningSettings = field(default_factory=PlanningSettings)
    rescales_per_day: int | None = 10  # None: only the price of a rescale limits their number
    stale_seconds: float = 0.0  # maximum age of metrics; 0: three policy intervals
    advise: bool = False  # recommend, and change nothing
    models: tuple[BenefitModel, ...] = ()  # of other sessions and of tuning runs
    policy: Policy | None = None  # None: AuTraScale's own
    policy_options: Mapping[str, bool | int | float | str] = field(default_factory=dict)  # that `policy` was made with
    topology: Topology | None = None  # the job's own; measurements are checked against it
    p_max: int | None = None  # the maximum of instances of any operator

    def __post_init__(self) -> None:
        if self.rescales_per_day is not None:
            checks.count("rescales_per_day", self.rescales_per_day)
        checks.non_negative("stale_seconds", self.stale_seconds)
        checks.positive("interval_seconds", self.knobs.interval_seconds)

    @property
    def max_age_seconds(self) -> float:
        """The maximum age of metrics that a decision may use."""
        return self.stale_seconds or 3 * self.knobs.interval_seconds

    def sort_operators(self, parallelism: Parallelism) -> dict[str, int]:
        """Return `parallelism` in the topology's order, which vectors rely on."""
        return {name: parallelism[name] for name in self.topology or parallelism if name in parallelism}


@dataclass(frozen=True)
class CheckedPrediction:
    """A predicted latency beside the observed latency, in seconds."""

    predicted: float
    sd: float
    observed: float


@dataclass(frozen=True)
class Totals:
    """The sums of a session. Durations are seconds on the job's clock."""

    seconds: float = 0.0
    within: float = 0.0  # part of `seconds` within the target
    unknown: float = 0.0  # part of `seconds` without a measured latency
    instance_seconds: float = 0.0
    most_instances: int = 0
    rescales: int = 0
    starts: int = 0
    observations: int = 0
    held: Mapping[str, int] = field(default_factory=dict)  # held observations by the code and cause of the hold
    held_in_a_row: int = 0  # up to now
    holds_for: str = ""  # code and cause of the newest hold

    def add_time(self, seconds: float, is_within: bool | None, running: Parallelism | None) -> Totals:
        """Add `seconds` in which the job ran at `running`. `is_within`: the target was met; None: unknown."""
        instances = sum((running or {}).values())
        return replace(
            self,
            seconds=self.seconds + seconds,
            within=self.within + (seconds if is_within else 0.0),
            unknown=self.unknown + (seconds if is_within is None else 0.0),
            instance_seconds=self.instance_seconds + instances * seconds,
            most_instances=max(self.most_instances, instances),
        )

    def add_hold(self, reason: Reason) -> Totals:
        """Count an observation that was held for `reason`."""
        why = reason.numbers.get("why")
        name = f"{reason.code}: {why}" if why else reason.code
        held = {**self.held, name: self.held.get(name, 0) + 1}
        return replace(self, held=held, held_in_a_row=self.held_in_a_row + 1, holds_for=name)

    def end_hold(self) -> Totals:
        return replace(self, held_in_a_row=0)


@dataclass(frozen=True)
class PastRescale:
    """A rescale of the last day."""

    at: float  # `Clock.passed`
    growth: int  # instances after it minus instances before it


@dataclass(frozen=True)
class PolicyMemory:
    """The memory of another policy than AuTraScale's own, as plain data."""

    policy: str = ""
    memory: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """The state of a control loop between two steps. Times are `Clock.now` unless they say otherwise."""

    manager: ManagerState = field(default_factory=ManagerState)
    memory: AutoscalingMemory = field(default_factory=AutoscalingMemory)
    clock: Clock = field(default_factory=Clock)
    services: ServiceLatencyHistory = field(default_factory=ServiceLatencyHistory)
    observed: Parallelism | None = None  # seen to run last
    down: bool = False  # the job does not run now
    planned: Parallelism | None = None  # wanted by the last decision
    history: ObservationHistory = field(default_factory=ObservationHistory)  # the next observation is compared with it
    rescales: tuple[PastRescale, ...] = ()  # of the last day
    changed_at: float | None = None  # time of the last rescale or start
    failed_at: float | None = None  # time of the last rescale, if it failed
    backoff: float = 1.0  # multiple of the policy interval, while the rate swings faster than the job can follow
    predicted: LatencyPrediction | None = None  # for the last rescale; None: already compared with the measured latency
    checked: tuple[CheckedPrediction, ...] = ()
    totals: Totals = field(default_factory=Totals)
    starts: int = 0  # in a row, without the job being seen to run
    number: int = 0  # of the last entry
    slots: int = 0  # that the job takes, or has asked for
    engine_fixed: Mapping[str, int] = field(default_factory=dict)  # by operators whose engine ignored the request
    commands: CommandsInForce = field(default_factory=CommandsInForce)
    measured_at: float | None = None  # time of the newest trusted metrics, as `Clock.passed`
    decided_at: float | None = None  # time of the last decision, as `Clock.passed`
    policy_memory: PolicyMemory = field(default_factory=PolicyMemory)
    rescale_times: tuple[RescaleTime, ...] = ()  # measured at the last rescales

    @property
    def requested(self) -> Parallelism | None:
        """The parallelism that was asked of the job and was not seen to run yet."""
        return self.manager.requested

    @property
    def meets_target(self) -> bool | None:
        """True if the job meets its target, by several observations since the last change. None: too few."""
        if self.memory.missed >= CONFIRMING_OBSERVATIONS:
            return False
        return True if self.memory.good >= CONFIRMING_OBSERVATIONS else None

    def acts(self, rules: Rules) -> bool:
        """Return whether decisions are carried out now."""
        return not (rules.advise or self.commands.paused) or self.commands.applying is not None


@dataclass(frozen=True)
class DecisionEntry:
    """The journal entry of a step, also of a step that decided nothing."""

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
    """Return `entry` as plain data."""
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
