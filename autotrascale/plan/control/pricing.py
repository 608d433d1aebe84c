"""What the next rescale of a job is expected to take: what the last ones took, and before the first what its engine
says. What that is worth is `autoscaling/price.py`."""

from __future__ import annotations

import math
import statistics

from autotrascale.domain.look import Rescaled, RescaleTime
from autotrascale.plan.control.autoscaling.price import Price
from autotrascale.plan.control.loop_state import Rules, State
from autotrascale.plan.migration.choice import MEASURED, ORDINARY_KEYS

KEPT = 9  # rescales that are learned from, as the manager's
UNKNOWN = RescaleTime(
    MEASURED.in_place.at(ORDINARY_KEYS)
)  # where nobody says: in place, with the state of an ordinary job


def of_a_rescale(rules: Rules, state: State, told: RescaleTime | None) -> Price | None:
    """The median of those that were seen and one that was expected: a single odd one changes nothing."""
    if rules.planning.late_worth is None:
        return None
    guess = told or (RescaleTime(rules.knobs.restart_seconds) if rules.knobs.restart_seconds else UNKNOWN)
    known = (guess, *state.taken)
    expected = RescaleTime(
        statistics.median(each.standstill_seconds for each in known),
        statistics.median(each.both_seconds for each in known),
    )
    return Price(expected, rules.planning.late_worth)


def seen(state: State, rescaled: Rescaled) -> tuple[RescaleTime, ...]:
    """Those of the last rescales. One that found everything in its place took nothing, and says nothing; nor does one
    whose times cannot be, as where a clock was set back."""
    times = (rescaled.downtime_seconds, rescaled.both_seconds)
    if dict(rescaled.running or {}) == dict(state.observed or {}) or not all(0 <= each < math.inf for each in times):
        return state.taken
    return (*state.taken, RescaleTime(*times))[-KEPT:]
