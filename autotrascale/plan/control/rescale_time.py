"""The expected duration of a job's next rescale: first the engine's estimate, then the measured durations."""

from __future__ import annotations

import math
import statistics

from autotrascale.domain.observation import RescaleResult, RescaleTime
from autotrascale.plan.control.autoscaling.rescale_price import RescalePrice
from autotrascale.plan.control.loop_state import Rules, State
from autotrascale.plan.migration.rescale_mode import MEASURED, ORDINARY_KEYS

MAX_REMEMBERED = 9  # measured rescales, as many as the scaling manager keeps
DEFAULT_RESCALE_TIME = RescaleTime(MEASURED.in_place.at(ORDINARY_KEYS))  # in place, with an ordinary amount of state


def price_next_rescale(rules: Rules, state: State, estimate: RescaleTime | None) -> RescalePrice | None:
    """Return the price of the next rescale, or None if `rules` do not weigh prices.

    The expected duration is the median of the measured durations and one estimate, so one outlier changes nothing.
    The estimate is the engine's, else the `restart_seconds` knob, else `DEFAULT_RESCALE_TIME`.
    """
    if rules.planning.late_worth is None:
        return None
    if estimate is None:
        guess = rules.knobs.restart_seconds
        estimate = RescaleTime(guess) if guess else DEFAULT_RESCALE_TIME
    known = (estimate, *state.rescale_times)
    expected = RescaleTime(
        statistics.median(each.standstill_seconds for each in known),
        statistics.median(each.overlap_seconds for each in known),
    )
    return RescalePrice(expected, rules.planning.late_worth)


def remember_rescale_time(state: State, rescaled: RescaleResult) -> tuple[RescaleTime, ...]:
    """Return the measured durations with that of `rescaled`.

    A rescale that changed nothing is left out. So are impossible durations, which a clock that was set back causes.
    """
    times = (rescaled.standstill_seconds, rescaled.overlap_seconds)
    has_changed = dict(rescaled.running or {}) != dict(state.observed or {})
    if not has_changed or not all(0 <= each < math.inf for each in times):
        return state.rescale_times
    return (*state.rescale_times, RescaleTime(*times))[-MAX_REMEMBERED:]
