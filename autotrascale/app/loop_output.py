"""Output of a control loop: its start, one line or JSON object for each decision, and its summary."""

from __future__ import annotations

import json
import sys

from autotrascale.app.command_context import CommandContext
from autotrascale.app.console import OutputFormat, note, say
from autotrascale.app.notifications import Notifier
from autotrascale.domain.job import Job
from autotrascale.domain.snapshot import Snapshot
from autotrascale.execute.live_job import LiveJob
from autotrascale.knowledge.decision_journal.session_writer import JournalSession
from autotrascale.knowledge.learned_models import LearnedModels
from autotrascale.loop import LoopListener
from autotrascale.plan.control.loop_state import DecisionEntry, State, entry_to_dict
from autotrascale.plan.formatting import format_seconds
from autotrascale.plan.sizing.executor_plan import ExecutorSize
from autotrascale.views.decision_text import (
    decision_kind,
    describe_accuracy,
    format_cost_change,
    format_decision,
    summarize_session,
)
from autotrascale.views.loop_events import observe_condition
from autotrascale.views.sink_text import describe_sink


class LoopOutput(LoopListener):
    """Prints decisions, sends notifications, and records snapshots in the metric store."""

    def __init__(
        self,
        context: CommandContext,
        job: Job,
        live: LiveJob,
        session: JournalSession | None,
        learned: LearnedModels | None,
        executor: ExecutorSize | None,
        notifier: Notifier,
    ) -> None:
        """Create the output.

        Args:
            context: stores and output format of the command.
            job: the job.
            live: its running form.
            session: journal of the loop, if there is one.
            learned: models that the loop stores, if it does.
            executor: size and price of one instance of an adopted program.
            notifier: sends notifications.
        """
        self._form, self._advise, self._job, self._simulated = context.form, context.advise, job, live.simulated
        self._session, self._learned, self._executor, self._notifier = session, learned, executor, notifier
        self._record_snapshot = context.recorder.recorder_for(live)
        self._last_kind = self._last_problem = ""

    def print_start(self) -> None:
        """Print what the loop does, and the state that it continues from."""
        job, session = self._job, self._session
        doing = "advising on" if self._advise else "scaling"
        kind = "simulated: all figures below are simulated" if self._simulated else "on Spark"
        output = "" if self._simulated or self._advise else f"; {describe_sink('real')}"
        note(f"{doing} {job.name}, {kind}; latency target {format_seconds(job.target.latency_seconds)}{output}")
        if session is None:
            note("no decision is journalled, as no store is in use: a later loop starts anew")
            return
        resumed = f", continuing after entry {session.state.number}" if session.state.number else ""
        note(f"session {session.id}{resumed}")
        if session.renewed:
            note(session.renewed)
        for reason in session.state.commands.explain():
            note(f"{reason.text} (autotrascale resume {job.name})")

    def on_snapshot(self, snapshot: Snapshot) -> None:
        self._record_snapshot(snapshot)

    def on_entry(self, state: State, entry: DecisionEntry) -> None:
        self._report_problem()
        data = entry_to_dict(entry)
        kind = decision_kind(data)
        is_new = kind != self._last_kind
        if self._form is OutputFormat.json:
            print(json.dumps(data, ensure_ascii=False, allow_nan=False), flush=True)
        elif is_new:
            print(format_decision(data, self._job.target.latency_seconds), flush=True)
        if is_new and entry.action in ("rescaled", "would-rescale"):
            cost_change = format_cost_change(data, self._executor)
            if cost_change:
                note(cost_change)
        self._last_kind = kind
        self._notifier.observe(
            observe_condition(
                self._job.name,
                state,
                self._job.target.latency_seconds,
                tuple(reason.text for reason in entry.reasons),
                simulated=self._simulated,
                latency=entry.latency_seconds,
            )
        )

    def print_end(self, state: State) -> None:
        """Print the summary: on stdout, or on stderr if stdout is for JSON."""
        summary = summarize_session(
            self._job.name,
            self._job.target.latency_seconds,
            state,
            simulated=self._simulated,
            advise=self._advise,
            size=self._executor,
        )
        text = summary if self._advise else f"{describe_accuracy(state.checked)}\n{summary}"
        for line in text.splitlines():
            note(line) if self._form is OutputFormat.json else say(line)
        sys.stdout.flush()

    def _report_problem(self) -> None:
        problem = (self._session.trouble if self._session else "") or (self._learned.trouble if self._learned else "")
        if problem != self._last_problem:
            note(f"recording has stopped: {problem}" if problem else "recording again")
        self._last_problem = problem
