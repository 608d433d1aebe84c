"""The state of a control loop as text, for the terminal and the pages alike.

The texts cover parallelism, target, cost, the reasons of the last decision, and the next step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from autotrascale.plan.formatting import format_amount, format_changes, format_percent, format_seconds, join_names
from autotrascale.views.decision_text import describe_usage, format_reasons
from autotrascale.views.executor_cost import format_count, format_hourly_cost

if TYPE_CHECKING:
    from autotrascale.knowledge.decision_journal.loop_status import CommandStatus, JournaledLoop, LoopStatus
    from autotrascale.plan.control.loop_state import State

UNKNOWN = "unknown"
NONE = "–"
Tone = Literal["good", "bad", "waiting", "quiet"]


@dataclass(frozen=True)
class LoopText:
    """The texts about one loop, with units. `requested` and `recommended` are "" where they equal `running`."""

    state: str
    tone: Tone
    rate: str
    backlog: str
    latency: str
    target: str
    met: str
    running: str
    requested: str
    recommended: str
    cost: str
    saved: str
    reason: str
    next_step: str
    commands: tuple[str, ...]


def describe_loop(loop: JournaledLoop) -> LoopText:
    status, state = loop.status(), loop.session.state
    text, tone = _describe_state(status)
    commands = [each for each in (status.order, status.applying, *status.waiting) if each is not None]
    return LoopText(
        state=text,
        tone=tone,
        rate=UNKNOWN if status.rate is None else f"{format_amount(status.rate)} records/s",
        backlog=UNKNOWN if status.backlog_records is None else f"{format_amount(status.backlog_records)} records",
        latency=UNKNOWN if status.latency_seconds is None else format_seconds(status.latency_seconds),
        target=f"{format_seconds(status.latency_target)} ({status.statistic})",
        met=_describe_target(status),
        running=_describe_running(state),
        requested=_format_difference(state.observed, status.requested),
        recommended=_format_difference(state.observed, status.recommended),
        cost=_describe_cost(loop, status),
        saved=_describe_savings(loop),
        reason="no decision yet" if loop.last is None else format_reasons(loop.last.entry),
        next_step=_describe_next_step(loop, status),
        commands=tuple(format_command(each) for each in commands),
    )


def format_running(running: Mapping[str, int] | None) -> str:
    return NONE if running is None else join_names(f"{name} {k}" for name, k in running.items())


def format_age(seconds: float | None) -> str:
    if seconds is None:
        return "never"
    return f"{format_seconds(seconds)} ago" if seconds >= 0.001 else "now"


def format_command(command: CommandStatus) -> str:
    """Return a command as `pin flatmap 8, by alice 12.00 s ago`."""
    pins = f" {format_running(command.parallelism)}" if command.parallelism else ""
    return f"{command.what}{pins}, by {command.asked_by or UNKNOWN} {format_age(command.asked_seconds_ago)}"


def format_recommendation(running: Mapping[str, int] | None, recommended: Mapping[str, int] | None) -> str:
    """Return the recommended change as `flatmap 3 → 9`."""
    if not running or not recommended or set(running) != set(recommended) or dict(running) == dict(recommended):
        return "no change"
    return format_changes(running, recommended)


def _describe_state(status: LoopStatus) -> tuple[str, Tone]:
    if not status.lives:
        return ("finished", "quiet") if status.state == "finished" else (status.state, "bad")
    if status.down:
        return "job is down", "bad"
    if status.order is not None:
        return f"{status.state} by {status.order.asked_by or UNKNOWN}", "waiting"
    if status.held_in_a_row:
        return f"no decision for {format_count(status.held_in_a_row, 'observation')}", "waiting"
    if status.advises:
        return "advises only", "good" if status.target_met else "waiting"
    return "scales the job", "bad" if status.target_met is False else "good"


def _describe_target(status: LoopStatus) -> str:
    now = {None: "unknown now", True: "met now", False: "missed now"}[status.target_met]
    share = status.within_target
    return now if share is None else f"{now}; met {format_percent(share)} of the measured time"


def _describe_running(state: State) -> str:
    if state.observed is None:
        return "not observed yet"
    return f"job is down; before: {format_running(state.observed)}" if state.down else format_running(state.observed)


def _format_difference(running: Mapping[str, int] | None, wanted: Mapping[str, int] | None) -> str:
    if wanted is None or wanted == running:
        return ""
    is_comparable = running is not None and set(running) == set(wanted)
    return format_changes(running or {}, wanted) if is_comparable else format_running(wanted)


def _describe_cost(loop: JournaledLoop, status: LoopStatus) -> str:
    if status.running is None:
        return "nothing runs"
    size, instances = loop.session.header.executor, sum(status.running.values())
    return format_count(instances, "instance") if size is None else format_hourly_cost(instances, size)


def _describe_savings(loop: JournaledLoop) -> str:
    totals = loop.session.state.totals
    if not totals.seconds or not totals.most_instances:
        return UNKNOWN
    return describe_usage(totals, loop.session.header.executor)


def _describe_next_step(loop: JournaledLoop, status: LoopStatus) -> str:
    state = loop.session.state
    if not status.lives:
        return "No loop scales this job now. Start it again with the same command."
    if status.down:
        return "Start the job again: this loop only advises." if status.advises else "The loop starts the job again."
    if status.applying is not None:
        return "The recommendation is carried out once, at the next observation that allows a decision."
    if status.state == "paused":
        return "Nothing is rescaled until the job is resumed."
    if status.requested is not None:
        return "The loop waits until the requested parallelism runs."
    if _format_difference(state.observed, status.recommended):
        if status.advises:
            return "Nothing changes by itself: this loop only advises."
        return "The loop changes the job as soon as the reason above allows it."
    if status.state == "pinned":
        return f"{format_running(state.commands.pinned)} until the job is resumed."
    if loop.last is not None and loop.last.entry["hold"]:
        return "No change planned. The next observation may allow a decision."
    return "No change planned until the rate, the latency or the reason above changes."
