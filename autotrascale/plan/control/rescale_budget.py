"""How often a job may be rescaled: a day's budget, a pause after a failure, and slower steps while the rate swings."""

from __future__ import annotations

from dataclasses import replace

from autotrascale.domain.decision import Reason
from autotrascale.plan.control.loop_state import PastRescale, Rules, State
from autotrascale.plan.control.manager.knobs import Knobs

DAY_SECONDS = 86_400.0
HOUR_SECONDS = 3600.0
RESERVED_FOR_SCALE_UP = 2  # rescales of a day
MAX_BACKOFF = 16.0  # times the interval


def rescales_in_last_day(state: State) -> tuple[PastRescale, ...]:
    return tuple(each for each in state.rescales if state.clock.passed - each.at < DAY_SECONDS)


def check_daily_budget(rules: Rules, state: State) -> Reason | None:
    """What is left of a day's rescales is kept for scale-ups."""
    recent = len(rescales_in_last_day(state))
    if rules.rescales_per_day is None or recent < rules.rescales_per_day - RESERVED_FOR_SCALE_UP:
        return None
    text = f"{recent} rescales in a day, of {rules.rescales_per_day}: what is left is kept for scale-ups"
    return Reason("budget", text, {"rescales": recent, "rescales_per_day": rules.rescales_per_day})


def check_pause_after_failure(state: State, knobs: Knobs) -> Reason | None:
    """A rescale that failed is not asked for again at once."""
    pause = max(knobs.running_seconds, knobs.interval_seconds)
    if state.failed_at is None or state.clock.now - state.failed_at >= pause:
        return None
    return Reason("hold-failed", f"the last rescale failed: left alone for {pause:.0f} s")


def apply_backoff(knobs: Knobs, pace: float, missed: bool) -> Knobs:
    """A rate that changes faster than the job can follow is followed less often, but a missed target is not left."""
    if pace <= 1.0:
        return knobs
    interval = knobs.interval_seconds * (1.0 if missed else pace)
    return replace(knobs, interval_seconds=interval, scale_down_delay_seconds=knobs.scale_down_delay_seconds * pace)


def next_backoff(state: State, knobs: Knobs) -> float:
    """Up and down and up again within what a rescale should last at least: twice as slow from here on."""
    if len(state.rescales) < 3:
        return state.pace
    first, second, third = state.rescales[-3:]
    span = max(HOUR_SECONDS, 4 * (knobs.running_seconds + knobs.scale_down_delay_seconds * state.pace))
    swings = first.growth * second.growth < 0 and second.growth * third.growth < 0
    return min(MAX_BACKOFF, 2 * state.pace) if swings and third.at - first.at < span else state.pace


def reset_backoff_when_quiet(state: State, knobs: Knobs) -> float:
    """Quiet for long: the usual pace again."""
    if state.pace <= 1.0 or not state.rescales:
        return 1.0
    quiet = state.clock.passed - state.rescales[-1].at
    return (
        1.0
        if quiet > max(HOUR_SECONDS, 4 * (knobs.running_seconds + knobs.scale_down_delay_seconds)) * 2
        else state.pace
    )
