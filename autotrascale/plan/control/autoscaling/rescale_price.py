"""What a change of parallelism costs a running job, what it saves, and how far ahead the next one is worth planning.

    symbol   meaning                                                                        unit
    s, b     what a rescale takes: standstill, and time in which the job runs twice          s
    ρ        busy: the share of each second that the job needs after the change             [0, 1)
    w        what a second of late records is worth, in seconds of the whole job
    l        how long records were late after those that gave instances back, on average    s
    p        price of a change: w · (s/(1 − ρ) + l) + b, of one to more without l           s of the whole job
    n        instances that run
    g        growth of the rate, relative to its level                                       1/s
    T_j      how long the j-th instance that is given back is expected not to be needed      s
    H        how far ahead a rising rate is sized for                                        s

Late: what came in during a standstill is worked off with what capacity is spare, so records are late for s/(1 − ρ).
What is given back is missed when the load comes back, for as long as it takes to see that and to act: l, which is no
more than a look or so where the rate rises slowly, and most of the price where it swings steeply.
Down: a change is worth it where ΣT_j ≥ n · p. An instance is expected not to be needed for as long as it was not needed
already: whoever waits until what could have been saved is the price pays at most twice what a clairvoyant would. Each
has its own time: while the rate falls, the first was too much long before the last.
Up: a change every H seconds costs p/H, and what stands idle meanwhile g·H/2 on average, both of the whole job. The sum
is least at H = √(2p/g).
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

USUAL_PRICE_SECONDS = (
    600.0  # p of a rescale for which the confidence that was asked for holds as it is: ten seconds in place
)
MAX_CONFIDENCE = 0.95  # but no more than this, or what was asked for
USUAL_UTILISATION = 2 / 3  # where nobody knows
MAX_UTILISATION = 0.99  # busier, it catches up when the rate falls or it is given more


@dataclass(frozen=True)
class RescalePrice:
    expected: RescaleTime
    late_worth: float
    busy: float = USUAL_UTILISATION
    afterwards: float = 0.0

    def __post_init__(self) -> None:
        checks.non_negative("late_worth", self.late_worth)
        checks.non_negative("busy", self.busy)
        checks.non_negative("afterwards", self.afterwards)

    def of_less(self, late_after: float) -> Self:
        """The price of giving instances back, after which records are late for so long."""
        return replace(self, afterwards=late_after)

    def at(self, busy: float) -> Self:
        """The price of a change after which the job is so busy."""
        return replace(self, busy=busy)

    @property
    def late_seconds(self) -> float:
        return self.expected.standstill_seconds / (1 - min(self.busy, MAX_UTILISATION))

    @property
    def job_seconds(self) -> float:
        """p"""
        return self.late_worth * (self.late_seconds + self.afterwards) + self.expected.overlap_seconds

    def instance_seconds(self, running: int) -> float:
        return running * self.job_seconds

    def pays(self, saved: float, running: int) -> bool:
        """Whether so many instance-seconds are worth a change. What saves nothing never is."""
        return saved > 0 and saved >= self.instance_seconds(running)

    def horizon(self, growth: float, least: float, most: float) -> float:
        """H, within what a trend is believed for; a rate that does not grow needs no looking ahead."""
        if growth <= 0:
            return least
        return min(max(math.sqrt(2 * self.job_seconds / growth), least), max(least, most))

    def confidence(self, asked: float) -> float:
        """How sure to be of a change. The cheaper changes are the more there are, by H as the root of p, and the closer
        the job is kept to its limit: as many of a day shall go wrong whatever they cost."""
        return max(asked, min(MAX_CONFIDENCE, 1 - (1 - asked) * math.sqrt(self.job_seconds / USUAL_PRICE_SECONDS)))

    def ahead(self, horizon: float, running: int) -> Reason:
        """How far ahead a rising rate is sized for, in words."""
        text = f"{self.said(running)}; so what rises is sized for {format_amount(horizon / 60)} min ahead"
        return Reason("price", text, {**self.numbers(running), "horizon_seconds": horizon})

    def said(self, running: int) -> str:
        """`a change costs about 200 ms of standstill (2 s late) and 9 s of running twice, worth 4 instance-minutes`."""
        stop, both = self.expected.standstill_seconds, self.expected.overlap_seconds
        late = f" ({format_seconds(self.late_seconds)} late)" if stop else ""
        twice = f" and {format_seconds(both)} of running twice" if both else ""
        missed = f", after it records were late for {format_seconds(self.afterwards)}" if self.afterwards >= 1 else ""
        worth = format_instance_time(self.instance_seconds(running))
        return f"a change costs about {format_seconds(stop)} of standstill{late}{twice}{missed}, worth {worth}"

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
    """What fewer instances cost, and save: `stays` has T_j of each operator, of the instance to be given back first
    first."""

    price: RescalePrice
    running: int
    stays: tuple[tuple[float, ...], ...]

    @classmethod
    def of(
        cls,
        price: RescalePrice,
        running: Sequence[int],
        wanted: Sequence[int],
        rate: float,
        lasts: Callable[[float], float],
    ) -> Saving:
        """`wanted` are enough for `rate`, and as many more as the rate is higher; `lasts` says for how long a rate is
        expected to be."""
        stays = (
            tuple(lasts(rate * (left / enough)) for left in range(own - 1, enough - 1, -1))
            for own, enough in zip(running, wanted, strict=True)
        )
        return cls(price, sum(running), tuple(stays))

    def saved(self, given: Sequence[int]) -> float:
        """Instance-seconds, when so many of each operator are given back. One that is added instead, where a number is
        below zero, is there for as long as any of those is not."""
        longest = max((each for own in self.stays for each in own), default=0.0)
        return sum(sum(own[:n]) if n > 0 else n * longest for own, n in zip(self.stays, given, strict=True))

    def pays(self, given: Sequence[int]) -> bool:
        return self.price.pays(self.saved(given), self.running)

    def weighed(self, given: Sequence[int]) -> Reason:
        """In words."""
        saved = format_instance_time(self.saved(given))
        text = f"{self.price.said(self.running)}; {sum(given)} less save {saved} before the load is expected back"
        numbers = {**self.price.numbers(self.running), "saved_instance_seconds": self.saved(given)}
        return Reason("price", text if self.pays(given) else f"{text}: too little", numbers)


def format_instance_time(instance_seconds: float) -> str:
    """`4.1 instance-minutes`, `2.5 instance-hours`."""
    minutes = instance_seconds / 60
    return f"{minutes / 60:,.1f} instance-hours" if minutes >= 120 else f"{minutes:.3g} instance-minutes"
