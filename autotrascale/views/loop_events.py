"""What somebody should hear of a control loop: two views of it, one after the other, give what is new.

rescale   it was rescaled, or a rescale failed
miss      the target is missed, and when it is met again
hold      no look could be decided on for long, and when one can again
down      the job does not run, or its loop has died; and when it is back
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
    """A loop at one moment, as far as news are made of it."""

    job: str
    simulated: bool
    latency_target: float
    running: Mapping[str, int] | None = None
    latency_seconds: float | None = None
    rescales: int = 0
    met: bool | None = None  # whether it meets its target, by more than one look; None: not known, or not yet
    held_seconds: float = 0.0
    holds_for: str = ""
    down: bool = False
    lost: bool = False  # its process died
    reasons: tuple[str, ...] = ()  # of its last entry


@dataclass(frozen=True)
class LoopEvent:
    occasion: EventKind
    over: bool
    job: str
    simulated: bool
    text: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """What a webhook gets."""
        return {
            "event": self.occasion,
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
    """What is not known yet is taken to be as it was."""
    return now if now.met is not None or before is None else replace(now, met=before.met)


def find_events(before: LoopCondition | None, now: LoopCondition, hold_seconds: float) -> Iterator[LoopEvent]:
    """Nothing is new at the first view but what is wrong in it."""
    was = before or LoopCondition(now.job, now.simulated, now.latency_target, now.running, rescales=now.rescales)
    if now.rescales > was.rescales:
        yield _rescaled(was, now)
    yield from _spell("miss", was.met is False, now.met is False, now, _miss(now), "meets its target again")
    long, still = was.held_seconds >= hold_seconds > 0, now.held_seconds >= hold_seconds > 0
    held = f"could not be decided on for {format_seconds(now.held_seconds)}: {now.holds_for or 'no reason'}"
    yield from _spell("hold", long, still, now, held, "can be decided on again")
    why = "has no loop any more: its process died" if now.lost else f"does not run{_because(now)}"
    yield from _spell("down", was.down or was.lost, now.down or now.lost, now, why, "is back")


def _miss(now: LoopCondition) -> str:
    latency = (
        "its latency is not known" if now.latency_seconds is None else f"latency {format_seconds(now.latency_seconds)}"
    )
    return f"misses its target: {latency}, target {format_seconds(now.latency_target)}"


def _rescaled(was: LoopCondition, now: LoopCondition) -> LoopEvent:
    before, after = was.running or {}, now.running or {}
    changed = set(before) == set(after) and dict(before) != dict(after)
    text = f"rescaled: {format_changes(before, after)}" if changed else f"a rescale failed{_because(now)}"
    return _news("rescale", False, now, text, {"before": dict(before), "running": dict(after), "failed": not changed})


def _spell(
    occasion: EventKind, was: bool, now: bool, view: LoopCondition, begins: str, ends: str
) -> Iterator[LoopEvent]:
    if was != now:
        yield _news(occasion, was, view, ends if was else begins, {})


def _news(occasion: EventKind, over: bool, view: LoopCondition, text: str, numbers: Mapping[str, Any]) -> LoopEvent:
    marked = " (simulated)" if view.simulated else ""
    known = {
        "latency_seconds": view.latency_seconds,
        "latency_target": view.latency_target,
        "running": None if view.running is None else dict(view.running),
        **numbers,
    }
    return LoopEvent(occasion, over, view.job, view.simulated, f"{view.job}{marked} {text}", known)


def _because(view: LoopCondition) -> str:
    return f": {join_names(view.reasons, 3)}" if view.reasons else ""
