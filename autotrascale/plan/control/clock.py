"""The clock of a control loop, derived from the job's own clock, which may go back, leap, or stop with its process."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from autotrascale.domain.decision import Reason
from autotrascale.plan.formatting import format_amount

LEAP_INTERVALS = 10.0  # a longer gap between two observations is a leap …
MIN_LEAP_SECONDS = 600.0  # … unless it is shorter than this
MAX_GAP_SECONDS = 30 * 86_400.0  # a longer gap counts as this: larger sums would lose later seconds to rounding


@dataclass(frozen=True)
class Clock:
    """Two times that never go back, in seconds since the first observation.

    `now` is observed time: a leap counts as one interval, so that waiting periods do not end during a leap.
    `passed` is whole time: it includes gaps without observations. A day of the rescale budget is a day of `passed`.
    """

    now: float = 0.0
    passed: float = 0.0
    read: float | None = None  # the job's clock, as read last

    def tick(self, at: float, interval: float) -> tuple[Clock, Reason | None]:
        """Return the clock when the job's clock reads `at`, and a reason if that reading is odd.

        Args:
            at: seconds on the job's clock.
            interval: the policy interval in seconds.
        """
        if not math.isfinite(at):
            return self, Reason("clock", "The job's clock shows no number. The loop's clock stands still.")
        if self.read is None:
            return replace(self, read=at), None
        gap = at - self.read
        if gap < 0:
            text = f"The job's clock went back by {format_amount(-gap)} s. The loop's clock stands still."
            return replace(self, read=at), Reason("clock", text, {"seconds": gap})
        passed = self.passed + min(gap, MAX_GAP_SECONDS)
        if gap > max(LEAP_INTERVALS * interval, MIN_LEAP_SECONDS):
            text = f"The job's clock leapt by {format_amount(gap)} s. The leap counts as one interval."
            return Clock(self.now + interval, passed, at), Reason("clock", text, {"seconds": gap})
        return Clock(self.now + gap, passed, at), None
