"""One job that is kept, as a line: what it runs at, whether it holds its target, what it costs, why, what is next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from autotrascale.domain.target import Target
from autotrascale.plan.control.loop_state import Parallelism, State
from autotrascale.plan.formatting import format_amount, format_changes, format_percent, format_seconds
from autotrascale.plan.sizing.executor_plan import ExecutorSize
from autotrascale.views.decision_text import format_reasons
from autotrascale.views.executor_cost import ExecutorCost, format_usage
from autotrascale.views.explanation import format_parallelism

UNKNOWN = "unknown"
Tone = Literal["good", "bad", "waiting", "quiet"]


@dataclass(frozen=True)
class LoopFacts:
    """What is known of a job's control loop. `last`: its last entry; `measured`: the last that measured something."""

    job: str
    target: Target
    state: State
    lives: bool
    ended: str | None
    advises: bool
    simulated: bool
    executor: ExecutorSize | None = None
    last: Mapping[str, Any] | None = None
    measured: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class LoopLine:
    """Every text with its unit."""

    state: str
    tone: Tone
    rate: str
    latency: str
    holds: str  # whether it holds its target now, and how much of the time it did
    running: str
    recommended: str  # where that is something else
    requested: str
    size: str  # executors or instances, and money
    saved: str
    why: str
    next: str


def describe_loop(loop: LoopFacts) -> LoopLine:
    said, tone = _state(loop)
    state = loop.state
    return LoopLine(
        state=said,
        tone=tone,
        rate=_rate(loop.measured),
        latency=_latency(loop),
        holds=_holds(loop),
        running=_running(state),
        recommended=_differs(state.observed, state.planned),
        requested="" if loop.advises or state.orders.paused else _differs(state.observed, state.requested),
        size=_size(loop),
        saved=_saved(loop),
        why="nothing was looked at yet" if loop.last is None else format_reasons(loop.last),
        next=_next(loop),
    )


def _state(loop: LoopFacts) -> tuple[str, Tone]:
    if not loop.lives:
        return ("finished", "quiet") if loop.ended == "finished" else (loop.ended or "killed", "bad")
    if loop.state.down:
        return "the job is down", "bad"
    if (order := loop.state.orders.standing) is not None:
        return f"{'paused' if loop.state.orders.paused else 'pinned'} by {order.asked_by or UNKNOWN}", "waiting"
    if loop.state.totals.held_in_a_row:
        looks = loop.state.totals.held_in_a_row
        return f"cannot decide for {looks} look{'' if looks == 1 else 's'}", "waiting"
    if loop.advises:
        return "only advising", "good" if _met(loop) else "waiting"
    return "kept", "good" if _met(loop) is not False else "bad"


def _met(loop: LoopFacts) -> bool | None:
    latency = None if loop.measured is None else loop.measured["latency_seconds"]
    return None if latency is None else bool(latency <= loop.target.latency_seconds)


def _rate(measured: Mapping[str, Any] | None) -> str:
    return UNKNOWN if measured is None or measured["rate"] is None else f"{format_amount(measured['rate'])} records/s"


def _latency(loop: LoopFacts) -> str:
    latency = None if loop.measured is None else loop.measured["latency_seconds"]
    return UNKNOWN if latency is None else format_seconds(latency)


def _holds(loop: LoopFacts) -> str:
    met, totals = _met(loop), loop.state.totals
    now = {None: "not known now", True: "within now", False: "missed now"}[met]
    measured = totals.seconds - totals.unknown
    return f"{now}, {format_percent(totals.within / measured)} of the measured time" if measured > 0 else now


def _running(state: State) -> str:
    if state.observed is None:
        return "not seen to run yet"
    return f"down; ran {format_parallelism(state.observed)}" if state.down else format_parallelism(state.observed)


def _differs(running: Parallelism | None, wanted: Parallelism | None) -> str:
    if wanted is None or wanted == running:
        return ""
    return (
        format_parallelism(wanted)
        if running is None or set(running) != set(wanted)
        else format_changes(running, wanted)
    )


def _size(loop: LoopFacts) -> str:
    state = loop.state
    if state.observed is None or state.down:
        return "nothing runs"
    count = sum(state.observed.values())
    if loop.executor is None:
        return f"{count} instance{'' if count == 1 else 's'}"
    return ExecutorCost(count, loop.executor.cores, loop.executor.memory, loop.executor.price).words()


def _saved(loop: LoopFacts) -> str:
    totals = loop.state.totals
    if not totals.seconds or not totals.most_instances:
        return UNKNOWN
    if loop.executor is not None:
        return format_usage(totals.instance_seconds, totals.most_instances, totals.seconds, loop.executor.price)
    saved = 1 - totals.instance_seconds / (totals.most_instances * totals.seconds)
    return f"{format_percent(max(saved, 0.0))} of the instance-hours of its most, {totals.most_instances}, all the time"


def _next(loop: LoopFacts) -> str:
    state = loop.state
    if not loop.lives:
        return "no loop keeps this job now: autotrascale autoscale goes on with it"
    if state.down:
        return "it is started again at what it ran with" if not loop.advises else "whoever runs it starts it again"
    if state.orders.applying is not None:
        return "what it recommends is carried out, once, at the first look that it can decide on"
    if state.orders.paused:
        return "nothing is rescaled until it is resumed"
    if state.requested is not None and not loop.advises:
        return "it waits until what was requested is seen to run"
    if loop.advises and _differs(state.observed, state.planned):
        return "nothing by itself: this loop only advises"
    if _differs(state.observed, state.planned):
        return "the next looks decide when to change it: the reason says what it waits for"
    if state.orders.pinned:
        return f"{format_parallelism(state.orders.pinned)} until it is resumed"
    if loop.last is not None and loop.last["hold"]:
        return "it stays as it is: the next look may be one to decide on"
    return "it stays as it is until the rate, the latency or what the reason waits for changes"
