"""`autotrascale explain RUN`: the reasons for a parallelism, from the journals alone. Nothing runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotrascale.app.console import OutputFormat, print_answer, print_plot, say
from autotrascale.cli.options import FormatOption, StoreOption, flag, option
from autotrascale.cli.runs import RunArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

    from autotrascale.app.explanation import ReplayReport, RunExplanation, SessionExplanation
    from autotrascale.views.plots.plot import Plot

MAX_DECISIONS = 20  # listed for a session


def explain(
    run: RunArgument,
    store: StoreOption = None,
    replay: Annotated[
        bool, flag("--replay", "Make a control loop's decisions again from its stored observations.")
    ] = False,
    at: Annotated[
        str | None, option("With --replay: show the step at this time of the loop, such as 03:14:30.", "TIME")
    ] = None,
    plots: Annotated[bool, flag("--plots", "Also draw the trials or the recent observations.")] = False,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Explain a run's parallelism, or a loop's decisions.

    For each operator of a tuning run, the answer states why not one instance fewer, as measured or as the model
    predicts. docs/reference/glossary.md explains the terms. A reason code, such as hold-critical, gets its meaning.
    """
    from autotrascale.app import explanation
    from autotrascale.app.stores import require_store
    from autotrascale.domain.errors import InputError
    from autotrascale.plan.reason_codes import REASON_CODES

    if at is not None and not replay:
        raise InputError("--at", "needs --replay", seen=at, remedy="give both")
    opened = require_store(store)
    if replay:
        report = explanation.replay_session(opened, run, at)
        print_answer(form, _replay_as_dict(report), lambda: _print_replay(report))
        return
    try:
        found = explanation.explain(opened, run, with_plots=plots and form is OutputFormat.table)
    except InputError:
        if run not in REASON_CODES:
            raise
        print_answer(form, {"code": run, "meaning": REASON_CODES[run]}, lambda: say(REASON_CODES[run]))
        return
    if isinstance(found, explanation.ProgramExplanation):
        cost = found.cost
        print_answer(form, cost, lambda: _print_program(cost))
    elif isinstance(found, explanation.SessionExplanation):
        session = found
        print_answer(form, _session_as_dict(session), lambda: _print_session(session))
        _print_plots(session.plots)
    else:
        tuned = found
        print_answer(form, _run_as_dict(tuned), lambda: _print_run(tuned))
        _print_plots(tuned.plots)


def register(app: typer.Typer) -> None:
    app.command("explain")(explain)


def _print_program(cost: Mapping[str, Any]) -> None:
    say(str(cost["summary"]))
    for query in cost["queries"]:
        say(f"{query} alone: autotrascale explain {cost['program']}.{query}")


def _session_as_dict(found: SessionExplanation) -> dict[str, Any]:
    from autotrascale.views.decision_text import describe_accuracy, describe_holds, summarize_session

    session, header, state = found.session, found.session.header, found.session.state
    return {
        "session": session.id,
        "job": header.job,
        "state": "running" if session.is_alive else session.ended or "killed",
        "simulated": header.simulated,
        "latency_target": header.latency_target,
        "running": None if state.observed is None or state.down else dict(state.observed),
        "decisions": found.entries,
        "held": dict(state.totals.held),
        "holds": describe_holds(state),
        "predictions": [vars(each) for each in state.checked],
        "accuracy": describe_accuracy(state.checked),
        "summary": summarize_session(
            header.job,
            header.latency_target,
            state,
            simulated=header.simulated,
            advise=header.advise,
            size=header.executor,
        ),
    }


def _print_session(found: SessionExplanation) -> None:
    from autotrascale.views.decision_text import format_clock, format_cost_change, select_decisions

    answer, header = _session_as_dict(found), found.session.header
    say(f"session {found.session.id} of {header.job}, {answer['state']}")
    for entry in [*select_decisions(found.entries, MAX_DECISIONS), *found.entries[-1:]]:
        cost = format_cost_change(entry, header.executor)
        _print_entry(f"{format_clock(entry['at'])}  {entry['action']}", entry, f" ({cost})" if cost else "")
    say()
    for name in ("holds", "accuracy", "summary"):
        say(str(answer[name]))


def _print_entry(heading: str, entry: Mapping[str, Any], cost: str = "") -> None:
    from autotrascale.views.decision_text import format_change

    say(f"{heading}: {format_change(entry)}{cost}")
    for reason in entry["reasons"]:
        say(f"    {reason['code']}: {reason['text']}")


def _replay_as_dict(report: ReplayReport) -> dict[str, Any]:
    shown = report.shown
    return {
        "session": report.session,
        "steps": report.steps,
        "different": list(report.different),
        "summary": report.summary,
        "at": shown and {"written": shown.written, "now": shown.now},
    }


def _print_replay(report: ReplayReport) -> None:
    from autotrascale.plan.control.events import ObservationTaken
    from autotrascale.views.decision_text import describe_observation

    step = report.shown
    if step is not None:
        if isinstance(step.event, ObservationTaken):
            observation = step.event.observation
            for line in describe_observation(step.written["at"], observation.snapshot, observation.detail):
                say(line)
        _print_entry(f"decided: {step.written['action']}", step.written)
        if not step.same:
            _print_entry(f"now: {step.now['action']}", step.now)
    say(report.summary)


def _run_as_dict(found: RunExplanation) -> dict[str, Any]:
    from autotrascale.views.explanation import explain_operators
    from autotrascale.views.verdict import summarize_outcome

    record, outcome = found.record, found.outcome
    return {
        "run_id": record.summary.run_id,
        "job": outcome.job.name,
        "state": record.summary.state,
        "rate": outcome.job.rate,
        "simulated": outcome.simulated,
        "met_target": outcome.met_target,
        "stop_reason": outcome.stop_reason,
        "policy": outcome.policy,
        "operators": [asdict(each) for each in explain_operators(outcome)],
        "remarks": list(outcome.remarks),
        "warm_start": list(record.opening.warm_start),
        "summary": summarize_outcome(outcome),
    }


def _print_run(found: RunExplanation) -> None:
    from autotrascale.cli.tuning_output import print_outcome

    record = found.record
    if record.outcome is None:
        say(
            f"run {record.summary.run_id} is {record.summary.state}: "
            f"the answer after {len(record.trials)} trials, which may change"
        )
    print_outcome(found.outcome)
    for line in record.opening.warm_start:
        say(f"  {line}")


def _print_plots(plots: Iterable[Plot]) -> None:
    from autotrascale.views.plots import terminal

    for plot in plots:
        say()
        print_plot(terminal.draw_plot(plot))
