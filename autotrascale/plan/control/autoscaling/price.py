"""What a change of parallelism costs a running job, what it saves, and how far ahead the next one is worth planning.

    symbol   meaning                                                                        unit
    s, b     what a rescale takes: standstill, and time in which the job runs twice          s
    w        what a second of late records is worth, in seconds of the whole job
    p        price of a change: w · LATE · s + b                                             s of the whole job
    n        instances that run
    g        growth of the rate, relative to its level                                       1/s
    T        how long the rate is expected to stay below what it would be sized for          s
    H        how far ahead a rising rate is sized for                                        s

Down: a change of Δ instances is worth it where Δ · T > n · p. A rate is expected to stay low for as long as it has been
low already: whoever waits until what could have been saved is the price pays at most twice what a clairvoyant would.
Up: a change every H seconds costs p/H, and what stands idle meanwhile g·H/2 on average, both of the whole job. The sum
is least at H = √(2p/g).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from autotrascale.domain import checks
from autotrascale.domain.decision import Number, Reason
from autotrascale.domain.look import RescaleTime
from autotrascale.plan.words import amount, seconds

USUAL = 600.0  # p of a rescale for which the confidence that was asked for holds as it is: ten seconds in place
MOST_SURE = 0.95  # but no more than this, or what was asked for
LATE = 3.0  # times the standstill that records are late: a job that is two thirds busy needs twice it to catch up


@dataclass(frozen=True)
class Price:
    expected: RescaleTime
    late_worth: float

    def __post_init__(self) -> None:
        checks.non_negative("late_worth", self.late_worth)

    @property
    def job_seconds(self) -> float:
        """p"""
        return self.late_worth * LATE * self.expected.standstill_seconds + self.expected.both_seconds

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
        return max(asked, min(MOST_SURE, 1 - (1 - asked) * math.sqrt(self.job_seconds / USUAL)))

    def against(self, less: int, lasts: float, running: int) -> Reason:
        """What so many instances less would save, in words."""
        saved = less * lasts
        text = f"{self._said(running)}; {less} less save {instance_time(saved)} before the load is expected back"
        numbers = {**self._numbers(running), "saved_instance_seconds": saved, "lasts_seconds": lasts}
        return Reason("price", text if self.pays(saved, running) else f"{text}: too little", numbers)

    def ahead(self, horizon: float, running: int) -> Reason:
        """How far ahead a rising rate is sized for, in words."""
        text = f"{self._said(running)}; so what rises is sized for {amount(horizon / 60)} min ahead"
        return Reason("price", text, {**self._numbers(running), "horizon_seconds": horizon})

    def _said(self, running: int) -> str:
        """`a change costs about 200 ms of standstill and 10 s of running twice, worth 4.1 instance-minutes`."""
        both = self.expected.both_seconds
        twice = f" and {seconds(both)} of running twice" if both else ""
        worth = instance_time(self.instance_seconds(running))
        return f"a change costs about {seconds(self.expected.standstill_seconds)} of standstill{twice}, worth {worth}"

    def _numbers(self, running: int) -> dict[str, Number]:
        return {"standstill_seconds": self.expected.standstill_seconds, "both_seconds": self.expected.both_seconds,
                "price_instance_seconds": self.instance_seconds(running)}  # fmt: skip


def instance_time(instance_seconds: float) -> str:
    """`4.1 instance-minutes`, `2.5 instance-hours`."""
    minutes = instance_seconds / 60
    return f"{minutes / 60:,.1f} instance-hours" if minutes >= 120 else f"{minutes:.3g} instance-minutes"
