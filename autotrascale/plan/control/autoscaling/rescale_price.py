"""The price of a rescale, the saving of a scale-down, and how far ahead a scale-up should plan.

    symbol   meaning                                                                          unit
    s, b     standstill of a rescale; its overlap, in which the job runs twice                s
    ρ        utilisation of the job after the rescale                                         [0, 1)
    w        price of a second of late records                                                s of the whole job
    l        mean time out of target after earlier scale-downs                                s
    p        price: w · (s/(1 − ρ) + l) + b; l counts for scale-downs only                    s of the whole job
    n        instances that run
    g        growth of the rate, relative to its level                                        1/s
    T_j      expected time in which the j-th instance that is given back is not needed        s
    H        horizon: how far ahead a rising rate is sized for                                s

Late records: the input of a standstill is worked off with the spare capacity, so records are late for s/(1 − ρ).
Instances that were given back are missing when the load returns, until that is seen and answered: l.

Scale-down: it pays if ΣT_j ≥ n · p. An instance is expected to stay unneeded for as long as it has been unneeded. This
ski-rental rule costs at most twice the optimum with perfect foresight. Each instance has its own T_j: while the rate
falls, the first one is unneeded long before the last.

Scale-up: a rescale every H seconds costs p/H, and idle instances cost g·H/2 on average, both in seconds of the whole
job. The sum is least at H = √(2p/g).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from autotrascale.domain import checks
from autotrascale.domain.decision import Number, Reason
from autotrascale.domain.observation import RescaleTime
from autotrascale.plan.formatting import format_amount, format_seconds

USUAL_PRICE_SECONDS = 600.0  # p of ten seconds in place; the configured confidence holds as it is at this price
MAX_CONFIDENCE = 0.95  # of a cheap rescale, unless a higher confidence is configured
USUAL_UTILISATION = 2 / 3  # ρ, if unknown
MAX_UTILISATION = 0.99  # ρ; a busier job catches up when the rate falls or it gets more instances


@dataclass(frozen=True)
class RescalePrice:
    """The price of a rescale."""

    expected: RescaleTime  # s, b
    late_worth: float  # w
    busy: float = USUAL_UTILISATION  # ρ
    afterwards: float = 0.0  # l

    def __post_init__(self) -> None:
        checks.non_negative("late_worth", self.late_worth)
        checks.non_negative("busy", self.busy)
        checks.non_negative("afterwards", self.afterwards)

    def for_scale_down(self, mean_late_seconds: float) -> Self:
        """Return the price of a scale-down, after which records are late for `mean_late_seconds`."""
        return replace(self, afterwards=mean_late_seconds)

    def at(self, busy: float) -> Self:
        """Return the price of a rescale after which the job has the utilisation `busy`."""
        return replace(self, busy=busy)

    @property
    def late_seconds(self) -> float:
        """s/(1 − ρ)"""
        return self.expected.standstill_seconds / (1 - min(self.busy, MAX_UTILISATION))

    @property
    def job_seconds(self) -> float:
        """p"""
        return self.late_worth * (self.late_seconds + self.afterwards) + self.expected.overlap_seconds

    def instance_seconds(self, running: int) -> float:
        return running * self.job_seconds

    def pays(self, saved: float, running: int) -> bool:
        """Return whether `saved` instance-seconds are worth a rescale. A saving of nothing never is."""
        return saved > 0 and saved >= self.instance_seconds(running)

    def horizon(self, growth: float, least: float, most: float) -> float:
        """Return H within [`least`, `most`]; `least` if the rate does not grow."""
        if growth <= 0:
            return least
        return min(max(math.sqrt(2 * self.job_seconds / growth), least), max(least, most))

    def required_confidence(self, configured: float) -> float:
        """Return 1 − (1 − `configured`) · √(p / usual p), at least `configured`.

        Cheap rescales are more frequent (H grows with √p), so each needs more confidence for as few misses a day.
        """
        required = 1 - (1 - configured) * math.sqrt(self.job_seconds / USUAL_PRICE_SECONDS)
        return max(configured, min(MAX_CONFIDENCE, required))

    def explain_horizon(self, horizon: float, running: int) -> Reason:
        """Return a reason for planning `horizon` seconds ahead."""
        text = f"{self.describe(running)}. So a rising rate is sized for {format_amount(horizon / 60)} min ahead."
        return Reason("price", text, {**self.numbers(running), "horizon_seconds": horizon})

    def describe(self, running: int) -> str:
        """Return a sentence without period: `A rescale costs 200 ms of standstill (2 s late) and 9 s of overlap, …`."""
        standstill, overlap = self.expected.standstill_seconds, self.expected.overlap_seconds
        late = f" ({format_seconds(self.late_seconds)} late)" if standstill else ""
        twice = f" and {format_seconds(overlap)} of overlap" if overlap else ""
        after = f", and {format_seconds(self.afterwards)} out of target after it" if self.afterwards >= 1 else ""
        worth = format_instance_time(self.instance_seconds(running))
        return f"A rescale costs {format_seconds(standstill)} of standstill{late}{twice}{after}, worth {worth}"

    def numbers(self, running: int) -> dict[str, Number]:
        return {
            "standstill_seconds": self.expected.standstill_seconds,
            "overlap_seconds": self.expected.overlap_seconds,
            "late_seconds": self.late_seconds,
            "late_after_seconds": self.afterwards,
            "price_instance_seconds": self.instance_seconds(running),
        }


@dataclass(frozen=True)
class Saving:
    """The price and the saving of a scale-down."""

    price: RescalePrice
    running: int  # n
    unneeded: tuple[tuple[float, ...], ...]  # T_j of each operator, first that of the instance to be given back first

    @classmethod
    def estimate(
        cls,
        price: RescalePrice,
        running: Sequence[int],
        wanted: Sequence[int],
        rate: float,
        lasts: Callable[[float], float],
    ) -> Saving:
        """Return the saving of a scale-down from `running` to `wanted`.

        Args:
            price: of the scale-down.
            running: instances of each operator.
            wanted: instances that are enough for `rate`. For higher rates the need grows in proportion.
            rate: records/s.
            lasts: returns for how many seconds a rate is expected to be enough.
        """
        unneeded = (
            tuple(lasts(rate * (left / enough)) for left in range(own - 1, enough - 1, -1))
            for own, enough in zip(running, wanted, strict=True)
        )
        return cls(price, sum(running), tuple(unneeded))

    def saved(self, given: Sequence[int]) -> float:
        """Return the instance-seconds saved if `given` instances of each operator are given back.

        A negative number adds instances; they stay for as long as any returned instance stays unneeded.
        """
        longest = max((each for own in self.unneeded for each in own), default=0.0)
        return sum(sum(own[:n]) if n > 0 else n * longest for own, n in zip(self.unneeded, given, strict=True))

    def pays(self, given: Sequence[int]) -> bool:
        return self.price.pays(self.saved(given), self.running)

    def explain(self, given: Sequence[int]) -> Reason:
        """Return a reason that compares price and saving."""
        saved = format_instance_time(self.saved(given))
        verdict = "" if self.pays(given) else " That is too little."
        text = (
            f"{self.price.describe(self.running)}. {sum(given)} instances less save {saved} "
            f"until the load is expected to return.{verdict}"
        )
        numbers = {**self.price.numbers(self.running), "saved_instance_seconds": self.saved(given)}
        return Reason("price", text, numbers)


def format_instance_time(instance_seconds: float) -> str:
    """Return `4.1 instance-minutes`, or `2.5 instance-hours` from two hours on."""
    minutes = instance_seconds / 60
    return f"{minutes / 60:,.1f} instance-hours" if minutes >= 120 else f"{minutes:.3g} instance-minutes"
