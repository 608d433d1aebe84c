"""The answer of the autoscaling policy, and the settings that it plans by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from autotrascale.domain import checks
from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.errors import InputError
from autotrascale.plan.control.autoscaling.autoscaling_memory import AutoscalingMemory
from autotrascale.plan.control.autoscaling.rescale_price import Saving

MIN_PART_OF_SAVING = 0.7  # of a planned scale-down; a smaller part waits for the rest

Cause = Literal["none", "floor", "rate", "missed", "saving", "back"]


@dataclass(frozen=True)
class PlanningSettings:
    """The planning part of the `autoscale:` section of a job file."""

    headroom: float = 0.04  # share of the expected rate that is planned on top
    band: float = 1.2  # no scale-down while the job is sized for less than this multiple of the need
    horizon_seconds: float = 3600.0  # size for the largest rate of so long, as the trend says
    worth: float = 0.18  # minimum change of a rescale, as a share of the largest allocation of the last days
    recall_seconds: float = 600.0  # never scale down below a rate that was carried within this time
    review_seconds: float = 3600.0  # interval in which a job in its band is checked for a smaller parallelism
    late_worth: float | None = None  # price of a second of late records, in seconds of the whole job; None: no prices

    def __post_init__(self) -> None:
        for name in ("headroom", "worth"):
            checks.non_negative(name, getattr(self, name))
        for name in ("horizon_seconds", "recall_seconds", "review_seconds"):
            checks.positive(name, getattr(self, name))
        checks.positive("band", self.band)
        checks.optional(checks.non_negative, "late_worth", self.late_worth)
        if self.band < 1:
            raise InputError(
                "band", "is below 1, so it would remove needed instances", seen=self.band, remedy="write 1.2"
            )


@dataclass(frozen=True)
class AutoscalingPlan(Decision):
    """A decision with its cause and the memory that it leaves."""

    cause: Cause = "none"
    memory: AutoscalingMemory = field(default_factory=AutoscalingMemory)
    saving: Saving | None = None  # of a scale-down that was weighed

    def wait_for_rest(self, running: Mapping[str, int], granted: Mapping[str, int]) -> Reason | None:
        """Return why a scale-down waits: guards left only a part of it, which is not worth a standstill. Else None."""
        planned = sum(running.values()) - sum(self.parallelism.values())
        part = sum(running.values()) - sum(granted.values())
        if self.cause != "saving" or granted == running:
            return None
        if self.saving is not None:
            if self.saving.pays([running[name] - granted[name] for name in self.parallelism]):
                return None
        elif part >= MIN_PART_OF_SAVING * planned:
            return None
        text = f"No scale-down yet: guards allow {part} of {planned} instances. It waits for the rest."
        return Reason("half-way", text, {"instances": part, "planned": planned})

    def memory_if_done(self) -> AutoscalingMemory:
        """Return the memory if the plan is carried out."""
        ineffective = self.memory.ineffective_scale_ups + 1 if self.cause == "missed" else 0
        return replace(self.memory, ineffective_scale_ups=ineffective)
