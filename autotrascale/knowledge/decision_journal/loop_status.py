"""The state of a control loop, from its journal alone: one read model for the terminal, for HTTP and for the pages."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from autotrascale.knowledge.decision_journal import commands
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.decision_journal.recent_entries import JournalEntry, read_entries
from autotrascale.knowledge.decision_journal.sessions import PastSession
from autotrascale.plan.control.commands import CommandKind, LoopCommand

LoopMode = Literal["acting", "advising", "paused", "pinned", "down", "finished", "interrupted", "killed"]
ENTRIES_READ = 20  # rate and latency are unknown if none of so many last entries has them


@dataclass(frozen=True)
class CommandStatus:
    """A command of a person to a loop."""

    number: int
    what: CommandKind
    parallelism: Mapping[str, int]
    asked_by: str
    asked_seconds_ago: float


@dataclass(frozen=True)
class LoopStatus:
    """The state of a loop as programs read it.

    Args:
        running: parallelism that was last observed; None if the job is down or was never observed.
        requested: parallelism that was requested from the job and is not observed yet.
        recommended: parallelism that the last decision wants.
        executors: number of executors, for a job whose instances are executors.
        backlog_records: records that wait.
        target_met: whether the last measured latency is within the target.
        steadily_met: the same, confirmed by several observations.
        looks: number of observations in this session.
        looked_seconds_ago: age of the last observation; `measured_seconds_ago` of the newest metrics that passed the
            checks; `decided_seconds_ago` of the last observation that allowed a decision. None if there was none.
        held_in_a_row: observations since then, none of which allowed a decision; `holds_for` is the last reason's code.
        within_target: share of the measured time within the target.
        order: the pause or pin in force; `applying`: the command to carry out the recommendation; `waiting`: commands
            that the loop has not read yet.
    """

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


@dataclass(frozen=True)
class JournaledLoop:
    """A loop as its journal holds it: its session, its last entry, its last entry with a measurement, and the commands
    that it has not read yet."""

    session: PastSession
    last: JournalEntry | None = None
    measured: JournalEntry | None = None
    waiting: tuple[LoopCommand, ...] = ()

    @property
    def job(self) -> str:
        return self.session.header.job

    @property
    def is_alive(self) -> bool:
        return self.session.is_alive

    def status(self) -> LoopStatus:
        """Return the state of the loop now."""
        state, header, now = self.session.state, self.session.header, time.time()
        measured: Mapping[str, Any] = {} if self.measured is None else self.measured.entry
        last: Mapping[str, Any] = {"action": None, "reasons": []} if self.last is None else self.last.entry
        latency, totals = measured.get("latency_seconds"), state.totals
        age = max(0.0, now - self.session.written)
        idle = 0.0 if header.simulated else age  # a simulated clock stands still between observations
        running = None if state.down else state.observed
        measured_seconds = totals.seconds - totals.unknown
        return LoopStatus(
            job=header.job,
            session=self.session.id,
            state=_mode(self.session),
            lives=self.session.is_alive,
            advises=header.advise,
            simulated=header.simulated,
            running=running,
            recommended=state.planned,
            requested=None if header.advise or state.commands.paused else state.requested,
            executors=None if header.executor is None or running is None else sum(running.values()),
            rate=measured.get("rate"),
            latency_seconds=latency,
            backlog_records=measured.get("backlog_records"),
            latency_target=header.latency_target,
            statistic=header.statistic,
            target_met=None if latency is None or state.down else latency <= header.latency_target,
            steadily_met=state.meets_target,
            down=state.down,
            looked_seconds_ago=round(age, 3),
            measured_seconds_ago=_seconds_ago(state.clock.passed, state.measured_at, idle),
            decided_seconds_ago=_seconds_ago(state.clock.passed, state.decided_at, idle),
            looks=totals.observations,
            rescales=totals.rescales,
            held_in_a_row=totals.held_in_a_row,
            holds_for=totals.holds_for if totals.held_in_a_row else None,
            within_target=totals.within / measured_seconds if measured_seconds > 0 else None,
            order=_command_status(state.commands.standing, now),
            applying=_command_status(state.commands.applying, now),
            waiting=[shown for each in self.waiting if (shown := _command_status(each, now))],
            last_action=last["action"],
            last_reasons=[f"{each['code']}: {each['text']}" for each in last["reasons"]],
        )


def read_loop(journal: DecisionJournal, session: PastSession) -> JournaledLoop:
    entries = read_entries(journal, session.id, ENTRIES_READ)
    return JournaledLoop(
        session,
        entries[-1] if entries else None,
        next((each for each in reversed(entries) if each.entry["rate"] is not None), None),
        commands.read_commands(
            journal, session.header.job, session.state.commands.last_number, advises=session.header.advise
        ),
    )


def read_loops(journal: DecisionJournal, job: str | None = None, *, include_ended: bool = True) -> list[JournaledLoop]:
    """Return the loops of all jobs or of one job, by the name of the job.

    Without `include_ended`, only loops that run or whose process died.
    """
    return [read_loop(journal, each) for each in journal.latest_sessions(job, include_ended=include_ended)]


def choose_loops(loops: Iterable[JournaledLoop]) -> dict[str, JournaledLoop]:
    """Return the loop to show for each job, by the name of the job: a running loop before a dead loop, then a loop that
    acts before a loop that advises."""
    chosen: dict[str, JournaledLoop] = {}
    for each in sorted(loops, key=lambda loop: (loop.job, not loop.is_alive, loop.session.header.advise)):
        chosen.setdefault(each.job, each)
    return chosen


def _mode(session: PastSession) -> LoopMode:
    if not session.is_alive:
        return {"finished": "finished", None: "killed"}.get(session.ended, "interrupted")  # type: ignore[return-value]
    if session.state.down:
        return "down"
    if session.state.commands.standing is not None:
        return "paused" if session.state.commands.paused else "pinned"
    return "advising" if session.header.advise else "acting"


def _seconds_ago(passed: float, at: float | None, idle: float) -> float | None:
    return None if at is None else round(max(0.0, passed - at) + idle, 3)


def _command_status(command: LoopCommand | None, now: float) -> CommandStatus | None:
    if command is None:
        return None
    age = round(max(0.0, now - command.asked_at), 3)
    return CommandStatus(command.number, command.what, dict(command.parallelism), command.asked_by, age)
