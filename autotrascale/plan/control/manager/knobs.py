"""The knobs of the scaling manager. With their defaults the policy's answer passes unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError

Direction = Literal["both", "up", "down"]
Combination = Literal["median", "max"]


@dataclass(frozen=True)
class Knobs:
    """The `manager:` section of a job file. Changes are in instances; mappings are by operator name."""

    # May a decision be made now?
    paused: bool = False  # change nothing
    interval_seconds: float = 0.0  # policy interval: how often the policy is asked
    warm_up_intervals: int = 0  # intervals that are ignored after a rescale
    running_seconds: float = 0.0  # policy running time: no rescale for so long after a rescale
    max_gc_share: float | None = None  # hold if garbage collection takes a larger share of an operator's useful time

    # Changes to the snapshot that the policy is shown
    target_rate_ratio: float | None = None  # below this share of the rate, enough instances mean optimistic capacities
    utilisation: float = 1.0  # maximum busy share of an instance
    catch_up_seconds: float | None = None  # time to work off a backlog; no scale-down before that
    backlog_seconds: float = 0.0  # a backlog of fewer seconds of input counts as none
    restart_seconds: float = 0.0  # first guess of a rescale's standstill; input of this time is backlog, too

    # Limits on the policy's answer
    activation_intervals: int = 1  # consecutive decisions before the first action
    activation: Combination = "max"  # how consecutive decisions are combined
    rollback_loss: float | None = None  # take back a rescale that lost more than this share of the throughput
    small_gain: float = 0.0  # a scale-up that raised the throughput by a smaller share gained little …
    max_small_gains: int | None = None  # … and so many of them in a row end scale-ups
    min_effectiveness: float | None = None  # capacity added over capacity expected; below, no scale-up of the operator
    dead_band: float = 0.0  # leave operators alone whose utilisation is within ± this of the `utilisation` knob
    ignore_instances: int = 0  # ignore changes of up to ± this many instances
    scale_down_delay_seconds: float = 0.0  # scale down to the largest recommendation of so long
    max_step_up: int | None = None  # most instances that an operator gains in one rescale
    max_step_down: int | None = None  # most instances that an operator loses in one rescale
    direction: Direction = "both"  # allowed changes: both, up or down
    align_to: Mapping[str, int] = field(default_factory=dict)  # the parallelism must divide this number
    minimum: Mapping[str, int] = field(default_factory=dict)  # least instances, by operator
    maximum: Mapping[str, int] = field(default_factory=dict)  # most instances, by operator
    excluded: tuple[str, ...] = ()  # operators that are never rescaled
    pinned: Mapping[str, int] = field(default_factory=dict)  # operators with a fixed parallelism
    quota: int | None = None  # maximum of slots of the job

    def __post_init__(self) -> None:
        for name in ("interval_seconds", "running_seconds", "backlog_seconds", "restart_seconds", "small_gain"):
            checks.non_negative(name, getattr(self, name))
        checks.non_negative("scale_down_delay_seconds", self.scale_down_delay_seconds)
        checks.count("warm_up_intervals", self.warm_up_intervals, least=0)
        checks.count("ignore_instances", self.ignore_instances, least=0)
        checks.count("activation_intervals", self.activation_intervals)
        for name in ("max_gc_share", "target_rate_ratio", "rollback_loss", "min_effectiveness"):
            checks.optional(checks.share, name, getattr(self, name))
        for name in ("max_step_up", "max_step_down", "max_small_gains", "quota"):
            if getattr(self, name) is not None:
                checks.count(name, getattr(self, name))
        self._check_utilisation()
        self._check_catch_up()
        self._check_operators()

    @property
    def named_operators(self) -> Iterator[tuple[str, str]]:
        """Yield (knob, operator) for every operator that a knob names."""
        for knob in ("align_to", "minimum", "maximum", "excluded", "pinned"):
            for operator in getattr(self, knob):
                yield knob, operator

    def _check_utilisation(self) -> None:
        checks.share("utilisation", self.utilisation)
        checks.positive("utilisation", self.utilisation)
        checks.share("dead_band", self.dead_band)

    def _check_catch_up(self) -> None:
        checks.optional(checks.positive, "catch_up_seconds", self.catch_up_seconds)
        for name in ("restart_seconds", "backlog_seconds"):
            if getattr(self, name) and self.catch_up_seconds is None:
                raise InputError(name, "has no effect without catch_up_seconds", remedy="set catch_up_seconds too")

    def _check_operators(self) -> None:
        for name in ("align_to", "minimum", "maximum", "pinned"):
            for operator, value in getattr(self, name).items():
                checks.count(f"{name}.{operator}", value)
        for operator, least in self.minimum.items():
            if self.maximum.get(operator, least) < least:
                raise InputError(
                    f"maximum.{operator}",
                    f"is below the minimum of {least}",
                    seen=self.maximum[operator],
                    remedy="raise maximum or lower minimum",
                )
        for operator in self.excluded:
            if operator in self.pinned:
                raise InputError(f"pinned.{operator}", "is excluded too", remedy="do one or the other")
