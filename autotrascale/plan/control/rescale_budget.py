"""Limits on the number of rescales: a daily budget, a pause after a failure, and a backoff while the rate swings."""

from __future__ import annotations

from dataclasses import replace

from autotrascale.domain.decision import Reason
from autotrascale.plan.control.loop_state import PastRescale, Rules, State
from autotrascale.plan.control.manager.knobs import Knobs

DAY_SECONDS = 86_400.0
HOUR_SECONDS = 3600.0
RESERVED_FOR_SCALE_UP = 2  # rescales of the daily budget
MAX_BACKOFF = 16.0  # multiple of the configured interval


def rescales_in_last_day(state: State) -> tuple[PastRescale, ...]:
    return tuple(past for past in state.rescales if state.clock.passed - past.at < DAY_SECONDS)


def check_daily_budget(rules: Rules, state: State) -> Reason | None:
    """Return why a scale-down must wait, or None. The last rescales of a day are reserved for scale-ups."""
    count = len(rescales_in_last_day(state))
    if rules.rescales_per_day is None or count < rules.rescales_per_day - RESERVED_FOR_SCALE_UP:
        return None
    text = (
        f"No scale-down: {count} of {rules.rescales_per_day} rescales of the last 24 hours are used. "
        "The rest is reserved for scale-ups."
    )
    return Reason("budget", text, {"rescales": count, "rescales_per_day": rules.rescales_per_day})


def check_pause_after_failure(state: State, knobs: Knobs) -> Reason | None:
    """Return why no rescale may start now, or None. A failed rescale is followed by a pause."""
    pause = max(knobs.running_seconds, knobs.interval_seconds)
    if state.failed_at is None or state.clock.now - state.failed_at >= pause:
        return None
    return Reason("hold-failed", f"On hold: the last rescale failed. The next may start {pause:.0f} s after it.")


def apply_backoff(knobs: Knobs, backoff: float, *, target_missed: bool) -> Knobs:
    """Return `knobs` with interval and scale-down delay multiplied by `backoff`.

    A missed target is always answered at the configured interval.
    """
    if backoff <= 1.0:
        return knobs
    interval = knobs.interval_seconds if target_missed else knobs.interval_seconds * backoff
    return replace(knobs, interval_seconds=interval, scale_down_delay_seconds=knobs.scale_down_delay_seconds * backoff)


def next_backoff(state: State, knobs: Knobs) -> float:
    """Return twice the backoff if the last three rescales alternated up and down in quick succession, else the same."""
    if len(state.rescales) < 3:
        return state.backoff
    first, second, third = state.rescales[-3:]
    is_alternating = first.growth * second.growth < 0 and second.growth * third.growth < 0
    is_quick = third.at - first.at < _settling_seconds(knobs, state.backoff)
    return min(MAX_BACKOFF, 2 * state.backoff) if is_alternating and is_quick else state.backoff


def reset_backoff_when_quiet(state: State, knobs: Knobs) -> float:
    """Return 1 after twice the settling time without a rescale, else the present backoff."""
    if state.backoff <= 1.0 or not state.rescales:
        return 1.0
    quiet_seconds = state.clock.passed - state.rescales[-1].at
    return 1.0 if quiet_seconds > 2 * _settling_seconds(knobs, backoff=1.0) else state.backoff


def _settling_seconds(knobs: Knobs, backoff: float) -> float:
    return max(HOUR_SECONDS, 4 * (knobs.running_seconds + knobs.scale_down_delay_seconds * backoff))
