"""Explanations of `explain`, from the journals alone: a tuning run, a session of a control loop, or a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autotrascale.app.application_summary import read_summary
from autotrascale.app.console import note
from autotrascale.app.plot_sets import plot_run, plot_session
from autotrascale.app.stores import live_job_folder, open_decisions
from autotrascale.domain.errors import InputError
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.decision_journal.replay import ReplayedStep, replay
from autotrascale.knowledge.decision_journal.sessions import PastSession
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.run_history import RunRecord, compute_outcome, find_run, read_run
from autotrascale.tuning import Outcome
from autotrascale.views.decision_text import format_clock, parse_clock
from autotrascale.views.plots.plot import Plot


@dataclass(frozen=True)
class RunExplanation:
    """A tuning run and its outcome so far."""

    record: RunRecord
    outcome: Outcome
    plots: tuple[Plot, ...] = ()


@dataclass(frozen=True)
class SessionExplanation:
    """A session of a control loop with its journal entries, the oldest first."""

    session: PastSession
    entries: list[dict[str, Any]]
    plots: tuple[Plot, ...] = ()


@dataclass(frozen=True)
class ProgramExplanation:
    """The cost of a program with several queries, as `ProgramCost.as_data` has it."""

    cost: Mapping[str, Any]


@dataclass(frozen=True)
class ReplayReport:
    """The result of deciding again from stored observations.

    Args:
        session: id of the session.
        steps: number of decisions that were made again.
        different: journal numbers of decisions that differ now.
        first_at: time of the first decision in seconds since the loop began; None without stored observations.
        shown: the step at the requested time.
    """

    session: str
    steps: int
    different: tuple[int, ...]
    first_at: float | None
    shown: ReplayedStep | None

    @property
    def summary(self) -> str:
        if self.first_at is None:
            return "no observation of this session is stored, so no decision can be replayed"
        if self.different:
            return f"{len(self.different)} of {self.steps} decisions differ now, the first at entry {self.different[0]}"
        return f"replayed {self.steps} decisions since {format_clock(self.first_at)}: all are the same"


def explain(
    store: MlflowStore, name: str, *, with_plots: bool = False
) -> RunExplanation | SessionExplanation | ProgramExplanation:
    """Return the explanation of a session, a program or a run.

    Args:
        store: the store of runs.
        name: id of a session or run, or name of a job. A job's name means its last tuning run if it has one, else its
            last session, else the program of that name.
        with_plots: also make the plots.

    Raises:
        InputError: nothing has this name.
    """
    decisions = open_decisions(store)
    if decisions is not None:
        try:
            has_run = _has_run(store, name)
            session = decisions.find(name)
            if session is not None and has_run and not session.id.startswith(name):
                note(f"{name} also has a control loop: autotrascale explain {session.id}")
            elif session is not None:
                plots = tuple(plot_session(decisions, session)) if with_plots else ()
                return SessionExplanation(session, decisions.entries(session.id), plots)
            elif not has_run and (cost := read_summary(live_job_folder(decisions, name))) is not None:
                return ProgramExplanation(cost)
        finally:
            decisions.close()
    record = read_run(store, find_run(store, name))
    outcome = compute_outcome(record)
    return RunExplanation(record, outcome, tuple(plot_run(record, outcome)) if with_plots else ())


def replay_session(store: MlflowStore, name: str, at: str | None = None) -> ReplayReport:
    """Make all decisions of a session again, from the stored observations.

    Args:
        store: the store beside which the journal is kept.
        name: id of a session, or name of a job for its last session.
        at: time of the step to show, such as 03:14:30.

    Raises:
        InputError: there is no such session, or `at` is not a time.
    """
    at_seconds = None if at is None else parse_clock(at)
    if at is not None and at_seconds is None:
        raise InputError("--at", "is not a time", seen=at, remedy="write it as 03:14:30")
    decisions = open_decisions(store)
    session = None if decisions is None else decisions.find(name)
    if decisions is None or session is None:
        raise InputError(name, "has no control loop in this journal", remedy="name a job or a session")
    try:
        return _replay(decisions, session, at_seconds)
    finally:
        decisions.close()


def _replay(decisions: DecisionJournal, session: PastSession, at_seconds: float | None) -> ReplayReport:
    first_at, count, different, shown = None, 0, [], None
    for step in replay(decisions, session.id):
        at = float(step.written["at"])
        first_at, count = at if first_at is None else first_at, count + 1
        if not step.same:
            different.append(step.number)
        if at_seconds is not None and at <= at_seconds:
            shown = step
    return ReplayReport(session.id, count, tuple(different), first_at, shown)


def _has_run(store: MlflowStore, name: str) -> bool:
    try:
        find_run(store, name)
    except InputError:
        return False
    return True
