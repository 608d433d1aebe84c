"""What the next rescale of a job is expected to take: what the last ones took, and before the first what its engine
says. What that is worth is `autoscaling/price.py`."""

from __future__ import annotations

import math
import statistics

from autotrascale.domain.observation import RescaleResult, RescaleTime
from autotrascale.plan.control.autoscaling.rescale_price import RescalePrice
from autotrascale.plan.control.loop_state import Rules, State
from autotrascale.plan.migration.rescale_mode import MEASURED, ORDINARY_KEYS

MAX_REMEMBERED = 9  # rescales that are learned from, as the manager's
DEFAULT_RESCALE_TIME = RescaleTime(
    MEASURED.in_place.at(ORDINARY_KEYS)
)  # where nobody says: in place, with the state of an ordinary job


def price_next_rescale(rules: Rules, state: State, told: RescaleTime | None) -> RescalePrice | None:
    """The median of those that were seen and one that was expected: a single odd one changes nothing."""
    if rules.planning.late_worth is None:
        return None
    guess = told or (RescaleTime(rules.knobs.restart_seconds) if rules.knobs.restart_seconds else DEFAULT_RESCALE_TIME)
    known = (guess, *state.taken)
    expected = RescaleTime(
        statistics.median(each.standstill_seconds for each in known),
        statistics.median(each.overlap_seconds for each in known),
    )
    return RescalePrice(expected, rules.planning.late_worth)


def remember_rescale_time(state: State, rescaled: RescaleResult) -> tuple[RescaleTime, ...]:
    """Those of the last rescales. One that found everything in its place took nothing, and says nothing; nor does one
    whose times cannot be, as where a clock was set back."""
    times = (rescaled.standstill_seconds, rescaled.overlap_seconds)
    if dict(rescaled.running or {}) == dict(state.observed or {}) or not all(0 <= each < math.inf for each in times):
        return state.taken
    return (*state.taken, RescaleTime(*times))[-MAX_REMEMBERED:]
