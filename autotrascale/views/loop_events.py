"""Events of a control loop for notifications. Two conditions of a loop, one after the other, give the events between.

rescale   the job was rescaled, or a rescale failed
miss      the target is missed; over: the target is met again
hold      no observation allowed a decision for long; over: an observation allows one again
down      the job is down, or its loop's process died; over: it runs again
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from autotrascale.plan.control.loop_state import State
from autotrascale.plan.formatting import format_changes, format_seconds, join_names

EventKind = Literal["rescale", "miss", "hold", "down"]


@dataclass(frozen=True)
class LoopCondition:
    """A loop at one moment, as far as events need it.

    Args:
        latency_target: seconds.
        met: whether several observations meet the target; None: unknown, or not yet.
        held_seconds: time since the last decision; `holds_for` is the reason code.
        lost: the process of the loop died.
        reasons: of the last entry.
    """

    job: str
    simulated: bool
    latency_target: float
    running: Mapping[str, int] | None = None
    latency_seconds: float | None = None
    rescales: int = 0
    met: bool | None = None
    held_seconds: float = 0.0
    holds_for: str = ""
    down: bool = False
    lost: bool = False
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoopEvent:
    """An event for a notification. `over`: the condition has ended."""

    kind: EventKind
    over: bool
    job: str
    simulated: bool
    text: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """Return the event as a webhook gets it."""
        return {
            "event": self.kind,
            "over": self.over,
            "job": self.job,
            "simulated": self.simulated,
            "text": self.text,
            **self.numbers,
        }


def observe_condition(
    job: str, state: State, target: float, reasons: tuple[str, ...], *, simulated: bool, latency: float | None
) -> LoopCondition:
    held = state.clock.passed - (state.decided_at or 0.0) if state.totals.held_in_a_row else 0.0
    return LoopCondition(
        job,
        simulated,
        target,
        state.observed,
        latency,
        state.totals.rescales,
        state.meets_target,
        held,
        state.totals.holds_for,
        state.down,
        False,
        reasons,
    )


def carry_over(before: LoopCondition | None, now: LoopCondition) -> LoopCondition:
    """Return `now`, with the previous `met` while the new value is unknown."""
    return now if now.met is not None or before is None else replace(now, met=before.met)


def find_events(before: LoopCondition | None, now: LoopCondition, hold_seconds: float) -> Iterator[LoopEvent]:
    """Yield the events between two conditions. Without an earlier one, only present problems are events.

    Args:
        hold_seconds: time without a decision from which on it is an event; 0: never.
    """
    was = before or LoopCondition(now.job, now.simulated, now.latency_target, now.running, rescales=now.rescales)
    if now.rescales > was.rescales:
        yield _describe_rescale(was, now)
    miss = _describe_miss(now)
    yield from _find_change("miss", was.met is False, now.met is False, now, miss, "meets its target again")
    was_long, is_long = was.held_seconds >= hold_seconds > 0, now.held_seconds >= hold_seconds > 0
    held = f"had no decision for {format_seconds(now.held_seconds)}: {now.holds_for or 'no reason'}"
    yield from _find_change("hold", was_long, is_long, now, held, "has decisions again")
    why = "lost its control loop: the process died" if now.lost else f"is down{_format_reasons(now)}"
    yield from _find_change("down", was.down or was.lost, now.down or now.lost, now, why, "runs again")


def _describe_miss(now: LoopCondition) -> str:
    latency = "latency unknown" if now.latency_seconds is None else f"latency {format_seconds(now.latency_seconds)}"
    return f"misses its target: {latency}, target {format_seconds(now.latency_target)}"


def _describe_rescale(was: LoopCondition, now: LoopCondition) -> LoopEvent:
    before, after = was.running or {}, now.running or {}
    is_changed = set(before) == set(after) and dict(before) != dict(after)
    text = f"rescaled: {format_changes(before, after)}" if is_changed else f"a rescale failed{_format_reasons(now)}"
    return _make_event(
        "rescale", False, now, text, {"before": dict(before), "running": dict(after), "failed": not is_changed}
    )


def _find_change(
    kind: EventKind, was: bool, now: bool, loop: LoopCondition, begins: str, ends: str
) -> Iterator[LoopEvent]:
    if was != now:
        yield _make_event(kind, was, loop, ends if was else begins, {})


def _make_event(kind: EventKind, over: bool, loop: LoopCondition, text: str, numbers: Mapping[str, Any]) -> LoopEvent:
    simulated = " (simulated)" if loop.simulated else ""
    data = {
        "latency_seconds": loop.latency_seconds,
        "latency_target": loop.latency_target,
        "running": None if loop.running is None else dict(loop.running),
        **numbers,
    }
    return LoopEvent(kind, over, loop.job, loop.simulated, f"{loop.job}{simulated} {text}", data)


def _format_reasons(loop: LoopCondition) -> str:
    return f": {join_names(loop.reasons, 3)}" if loop.reasons else ""
