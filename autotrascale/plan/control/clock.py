"""Time for the control loop, from the job's own clock, which may go back, leap, or stand still with its process."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from autotrascale.domain.decision import Reason
from autotrascale.plan.formatting import format_amount

LEAP = 10.0  # intervals beyond which a gap between two looks is no ordinary wait
SHORTEST_LEAP = 600.0  # … and at least so many seconds
LONGEST = 30 * 86_400.0  # a leap of more counts as so much: sums must not lose the seconds that come after it


@dataclass(frozen=True)
class Clock:
    """Two times that never go back, in seconds since the first look.

    `now` is watched time: a leap counts as one interval, so nothing that waits for the job to settle is over at once.
    `passed` is whole time: nights in which nobody looked count too. A day of rescales is a day of this one.
    """

    now: float = 0.0
    passed: float = 0.0
    read: float | None = None  # what the job's clock said last

    def tick(self, at: float, interval: float) -> tuple[Clock, Reason | None]:
        if not math.isfinite(at):
            return self, Reason("clock", "the job's clock gives no number: time is taken to have stood still")
        if self.read is None:
            return replace(self, read=at), None
        gone = at - self.read
        if gone < 0:
            text = f"the job's clock went back by {format_amount(-gone)} s: time is taken to have stood still"
            return replace(self, read=at), Reason("clock", text, {"seconds": gone})
        passed = self.passed + min(gone, LONGEST)
        if gone > max(LEAP * interval, SHORTEST_LEAP):
            text = f"the job's clock leapt by {format_amount(gone)} s: taken as one interval"
            return Clock(self.now + interval, passed, at), Reason("clock", text, {"seconds": gone})
        return Clock(self.now + gone, passed, at), None
