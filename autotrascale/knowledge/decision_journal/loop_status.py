"""How a control loop stands, from its journal alone: for the terminal, for HTTP, and for whoever watches it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from autotrascale.knowledge.decision_journal import commands
from autotrascale.knowledge.decision_journal.journal import DecisionJournal, PastSession
from autotrascale.plan.control.commands import LoopCommand

LoopMode = Literal["acting", "advising", "paused", "pinned", "down", "finished", "interrupted", "killed"]
_LAST = 20  # entries, of which one has measured something unless all of them held


@dataclass(frozen=True)
class CommandStatus:
    """Something that somebody asked of a loop."""

    number: int
    what: Literal["pause", "resume", "pin", "apply"]
    parallelism: Mapping[str, int]
    asked_by: str
    asked_seconds_ago: float


@dataclass(frozen=True)
class LoopStatus:
    """`requested` was asked of the job and is not seen to run yet; `recommended` is what the last decision wants. Ages
    are None where it never happened."""

    job: str
    session: str
    state: LoopMode
    lives: bool
    advises: bool
    simulated: bool
    running: Mapping[str, int] | None
    requested: Mapping[str, int] | None
    recommended: Mapping[str, int] | None
    executors: int | None
    rate: float | None
    latency_seconds: float | None
    backlog_records: float | None
    latency_target: float
    statistic: str
    target_met: bool | None
    steadily_met: bool | None
    down: bool
    looked_seconds_ago: float
    measured_seconds_ago: float | None
    decided_seconds_ago: float | None
    looks: int
    rescales: int
    held_in_a_row: int
    holds_for: str | None
    within_target: float | None
    order: CommandStatus | None
    applying: CommandStatus | None
    waiting: list[CommandStatus]
    last_action: str | None
    last_reasons: list[str]


def read_loop_statuses(decisions: DecisionJournal, job: str | None = None, *, ended: bool = True) -> list[LoopStatus]:
    """Of the last session of each loop, or of one job's; without `ended` those that run, or whose process died."""
    return [build_loop_status(decisions, past) for past in decisions.latest(job, ended=ended)]


def build_loop_status(decisions: DecisionJournal, past: PastSession) -> LoopStatus:
    state, opening, now = past.state, past.opening, time.time()
    entries = decisions.entries(past.id, last=_LAST)
    measured: Mapping[str, Any] = next((each for each in reversed(entries) if each["rate"] is not None), {})
    last: Mapping[str, Any] = entries[-1] if entries else {"action": None, "reasons": []}
    latency, totals = measured.get("latency_seconds"), state.totals
    silent = 0.0 if opening.simulated else max(0.0, now - past.written)  # its clock stands still between its looks
    waiting = commands.read_commands(decisions, opening.job, state.orders.taken, advises=opening.advise)
    running = None if state.down else state.observed
    known = totals.seconds - totals.unknown
    return LoopStatus(
        job=opening.job,
        session=past.id,
        state=_standing(past),
        lives=past.lives,
        advises=opening.advise,
        simulated=opening.simulated,
        running=running,
        recommended=state.planned,
        requested=None if opening.advise or state.orders.paused else state.requested,
        executors=None if opening.executor is None or running is None else sum(running.values()),
        rate=measured.get("rate"),
        latency_seconds=latency,
        backlog_records=measured.get("backlog_records"),
        latency_target=opening.latency_target,
        statistic=opening.statistic,
        target_met=None if latency is None or state.down else latency <= opening.latency_target,
        steadily_met=state.meets_target,
        down=state.down,
        looked_seconds_ago=round(max(0.0, now - past.written), 3),
        looks=totals.looks,
        rescales=totals.rescales,
        measured_seconds_ago=_ago(state.clock.passed, state.measured_at, silent),
        decided_seconds_ago=_ago(state.clock.passed, state.decided_at, silent),
        held_in_a_row=totals.held_in_a_row,
        holds_for=totals.holds_for if totals.held_in_a_row else None,
        within_target=totals.within / known if known > 0 else None,
        order=_told(state.orders.standing, now),
        applying=_told(state.orders.applying, now),
        waiting=[told for each in waiting if (told := _told(each, now))],
        last_action=last["action"],
        last_reasons=[f"{each['code']}: {each['text']}" for each in last["reasons"]],
    )


def _standing(past: PastSession) -> LoopMode:
    if not past.lives:
        return {"finished": "finished", None: "killed"}.get(past.ended, "interrupted")  # type: ignore[return-value]
    if past.state.down:
        return "down"
    if past.state.orders.standing is not None:
        return "paused" if past.state.orders.paused else "pinned"
    return "advising" if past.opening.advise else "acting"


def _ago(passed: float, at: float | None, silent: float) -> float | None:
    return None if at is None else round(max(0.0, passed - at) + silent, 3)


def _told(order: LoopCommand | None, now: float) -> CommandStatus | None:
    if order is None:
        return None
    ago = round(max(0.0, now - order.asked_at), 3)
    return CommandStatus(order.number, order.what, dict(order.parallelism), order.asked_by, ago)
