"""What the autoscaling policy answers, and the settings it plans by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from autotrascale.domain import checks
from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.errors import InputError
from autotrascale.plan.control.autoscaling.autoscaling_memory import AutoscalingMemory
from autotrascale.plan.control.autoscaling.prediction import LatencyPrediction
from autotrascale.plan.control.autoscaling.rescale_price import Saving

MIN_PART_OF_SAVING = 0.7  # of what a scale-down would save: with less it waits

Cause = Literal["none", "floor", "rate", "missed", "saving", "back"]


@dataclass(frozen=True)
class PlanningSettings:
    """How a job is kept within its target: the `autoscale:` section's planning part."""

    headroom: float = 0.04  # carry this much more than the rate that is expected
    band: float = 1.2  # leave it alone while what it was sized for is no more than this many times what is needed
    horizon_seconds: float = 3600.0  # size for the highest rate so far ahead, as the trend says
    worth: float = 0.18  # what a rescale must move, as a share of the most instances of the last days
    recall_seconds: float = 600.0  # a rate that was carried so lately may come again: it is not scaled down below
    review_seconds: float = 3600.0  # how often a job in its band is asked whether less would do
    late_worth: float | None = None  # a second of late records, in seconds of the whole job; None: nothing is weighed

    def __post_init__(self) -> None:
        for name in ("headroom", "worth"):
            checks.non_negative(name, getattr(self, name))
        for name in ("horizon_seconds", "recall_seconds", "review_seconds"):
            checks.positive(name, getattr(self, name))
        checks.positive("band", self.band)
        checks.optional(checks.non_negative, "late_worth", self.late_worth)
        if self.band < 1:
            raise InputError(
                "band", "is below 1: it would scale down what is needed", seen=self.band, remedy="1.2 is a good start"
            )


@dataclass(frozen=True)
class AutoscalingPlan(Decision):
    """A decision, what it is for, what it is expected to bring, and what is remembered of having thought about it."""

    cause: Cause = "none"
    prediction: LatencyPrediction | None = None  # at the rate that it was sized for
    memory: AutoscalingMemory = field(default_factory=AutoscalingMemory)
    saving: Saving | None = None  # what fewer instances cost and save, where that was weighed

    @property
    def sized_for(self) -> float | None:
        return None if self.prediction is None else self.prediction.rate

    def waits_for_the_rest(self, running: Mapping[str, int], granted: Mapping[str, int]) -> Reason | None:
        """A scale-down of which the guards left only a part is not worth a standstill yet."""
        whole = sum(running.values()) - sum(self.parallelism.values())
        part = sum(running.values()) - sum(granted.values())
        if self.cause != "saving" or granted == running:
            return None
        if self.saving is not None:
            if self.saving.pays([running[name] - granted[name] for name in self.parallelism]):
                return None
        elif part >= MIN_PART_OF_SAVING * whole:
            return None
        text = f"only {part} of the {whole} instances may be given back yet: waits until more may"
        return Reason("half-way", text, {"instances": part, "planned": whole})

    def taken(self) -> AutoscalingMemory:
        """What is remembered when it is acted on."""
        useless = self.memory.ineffective_scale_ups + 1 if self.cause == "missed" else 0
        return replace(self.memory, ineffective_scale_ups=useless)
