"""`autotrascale explain RUN`: why this parallelism, from the journal alone: nothing is run, and no job file read.

What was autoscaled is explained from the journal of decisions: by the session's id, or by the job's name where the job
was never tuned.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotrascale.app.console import FormatOption, OutputFormat, note, print_answer, print_plot, say
from autotrascale.app.stores import StoreOption
from autotrascale.cli.runs import RunName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from autotrascale.knowledge.decision_journal.journal import PastSession
    from autotrascale.knowledge.decision_journal.replay import ReplayedStep
    from autotrascale.knowledge.mlflow_store import MlflowStore
    from autotrascale.knowledge.run_history import RunRecord
    from autotrascale.tuning import Outcome
    from autotrascale.views.plots.plot import Plot

_SHOWN = 20  # decisions of a session


def explain(
    run: RunName,
    store: StoreOption = None,
    again: Annotated[
        bool, typer.Option("--replay", help="Of an autoscaled job: decide again from the looks that were kept.")
    ] = False,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --replay: show what was seen then, as 03:14:30.")
    ] = None,
    plots: Annotated[bool, typer.Option("--plots", help="Draw what was tried, or what the job did lately.")] = False,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Say why a run ended at the parallelism that it did, operator by operator: why not one instance fewer, as measured
    or as the model expects it.

    The words (floor, load, benefit score …) are explained in docs/glossary.md.
    """
    from autotrascale.app.stores import require_store
    from autotrascale.knowledge.run_history import compute_outcome, find_run, read_run

    opened = require_store(store)
    if again or at is not None:
        _replay(run, opened, again, at, form)
        return
    if session := _session(run, opened):
        print_answer(form, _decisions(*session), lambda: _show_decisions(*session))
        if plots and form is OutputFormat.table:
            _draw_session(opened, session[0])
        return
    if program := _program(run, opened):
        print_answer(form, program, lambda: _show_program(program))
        return
    record = read_run(opened, find_run(opened, run))
    outcome = compute_outcome(record)
    print_answer(form, _as_dict(record, outcome), lambda: _show(record, outcome))
    if plots and form is OutputFormat.table:
        from autotrascale.app.plot_sets import plot_run

        _draw(plot_run(record, outcome))


def _session(run: str, store: MlflowStore) -> tuple[PastSession, list[dict[str, Any]]] | None:
    """The session of that id; or of that job, where no tuning run answers to the name."""
    from autotrascale.app.loop_session import open_decisions
    from autotrascale.domain.errors import InputError
    from autotrascale.knowledge.run_history import find_run

    decisions = open_decisions(store)
    past = None if decisions is None else decisions.find(run)
    if decisions is None or past is None:
        return None
    try:
        if not past.id.startswith(run):
            find_run(store, run)
            note(f"{run} was autoscaled too: autotrascale explain {past.id}")
            return None
    except InputError:
        pass
    entries = decisions.entries(past.id)
    decisions.close()
    return past, entries


def _program(run: str, store: MlflowStore) -> dict[str, Any] | None:
    """What the queries of the program of that name took together, where nothing else has the name."""
    from autotrascale.app.application_summary import read_summary
    from autotrascale.app.loop_session import live_job_folder, open_decisions
    from autotrascale.domain.errors import InputError
    from autotrascale.knowledge.run_history import find_run

    decisions = open_decisions(store)
    if decisions is None:
        return None
    found = read_summary(live_job_folder(decisions, run))
    decisions.close()
    if found is None:
        return None
    try:
        find_run(store, run)
    except InputError:
        return found
    return None


def _show_program(program: Mapping[str, Any]) -> None:
    say(str(program["summary"]))
    for query in program["queries"]:
        say(f"of {query} alone: autotrascale explain {program['program']}.{query}")


def _decisions(past: PastSession, entries: list[dict[str, Any]]) -> dict[str, Any]:
    from autotrascale.views.decision_text import describe_accuracy, describe_holds, summarize_session

    opening, state = past.opening, past.state
    return {
        "session": past.id,
        "job": opening.job,
        "state": "running" if past.lives else past.ended or "killed",
        "simulated": opening.simulated,
        "latency_target": opening.latency_target,
        "running": None if state.observed is None or state.down else dict(state.observed),
        "decisions": entries,
        "held": dict(state.totals.held),
        "holds": describe_holds(state),
        "predictions": [vars(each) for each in state.checked],
        "accuracy": describe_accuracy(state.checked),
        "summary": summarize_session(
            opening.job,
            opening.latency_target,
            state,
            simulated=opening.simulated,
            advise=opening.advise,
            size=opening.executor,
        ),
    }


def _show_decisions(past: PastSession, entries: list[dict[str, Any]]) -> None:
    """Every rescale and every order with all its reasons, and what is being done now."""
    from autotrascale.views.decision_text import format_change, format_clock, format_cost_change, select_decisions

    answer = _decisions(past, entries)
    say(f"session {past.id} of {past.opening.job}, {answer['state']}")
    for entry in [*select_decisions(entries, _SHOWN), *entries[-1:]]:
        cost = format_cost_change(entry, past.opening.executor)
        say(f"{format_clock(entry['at'])}  {entry['action']}: {format_change(entry)}{f' ({cost})' if cost else ''}")
        for reason in entry["reasons"]:
            say(f"    {reason['code']}: {reason['text']}")
    say()
    say(str(answer["holds"]))
    say(str(answer["accuracy"]))
    say(str(answer["summary"]))


def _draw_session(store: MlflowStore, past: PastSession) -> None:
    from autotrascale.app.loop_session import open_decisions
    from autotrascale.app.plot_sets import plot_session

    decisions = open_decisions(store)
    assert decisions is not None  # the session came from there
    found = plot_session(decisions, past)
    decisions.close()
    _draw(found)


def _draw(plots: Iterable[Plot]) -> None:
    from autotrascale.views.plots import terminal

    for plot in plots:
        say()
        print_plot(terminal.draw_plot(plot))


def _replay(run: str, store: MlflowStore, again: bool, at: str | None, form: OutputFormat) -> None:
    """Every step again, from the journal alone: the same decisions, or the first one that differs."""
    from autotrascale.app.loop_session import open_decisions
    from autotrascale.domain.errors import InputError
    from autotrascale.knowledge.decision_journal.replay import replay
    from autotrascale.views.decision_text import format_clock, parse_clock

    wanted = None if at is None else parse_clock(at)
    if at is not None and (wanted is None or not again):
        raise InputError("--at", "is a time of --replay", seen=at, remedy="give both, the time as 03:14:30")
    decisions = open_decisions(store)
    past = None if decisions is None else decisions.find(run)
    if decisions is None or past is None:
        raise InputError(run, "was not autoscaled here", remedy="name a job, or a session that explain shows")
    first, steps, shown, different = None, 0, None, []
    for each in replay(decisions, past.id):
        first, steps = first or each, steps + 1
        different += [] if each.same else [each.number]
        if wanted is not None and float(each.written["at"]) <= wanted:
            shown = each
    decisions.close()
    verdict = "no looks are kept of this session: nothing can be decided again"
    if first is not None:
        verdict = f"{steps} steps since {format_clock(first.written['at'])} decided again: every decision is the same"
    if different:
        verdict = f"{len(different)} of {steps} decisions differ now, the first at entry {different[0]}"
    answer = {
        "session": past.id,
        "steps": steps,
        "different": different,
        "summary": verdict,
        "at": shown and {"written": shown.written, "now": shown.now},
    }
    print_answer(form, answer, lambda: _show_replay(shown, verdict))


def _show_replay(shown: ReplayedStep | None, verdict: str) -> None:
    from autotrascale.plan.control.step import ObservationTaken
    from autotrascale.views.decision_text import describe_observation, format_change

    if shown is not None:
        if isinstance(shown.event, ObservationTaken):
            for line in describe_observation(shown.written["at"], shown.event.look.snapshot, shown.event.look.detail):
                say(line)
        for what, entry in (("decided", shown.written), *((("now", shown.now),) if not shown.same else ())):
            say(f"{what}: {entry['action']}: {format_change(entry)}")
            for reason in entry["reasons"]:
                say(f"    {reason['code']}: {reason['text']}")
    say(verdict)


def register(app: typer.Typer) -> None:
    app.command("explain")(explain)


def _as_dict(record: RunRecord, outcome: Outcome) -> dict[str, Any]:
    from autotrascale.views.explanation import explain_operators
    from autotrascale.views.verdict import summarize_outcome as outcome_summary

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
        "summary": outcome_summary(outcome),
    }


def _show(record: RunRecord, outcome: Outcome) -> None:
    from autotrascale.cli.tuning_output import print_outcome

    if record.outcome is None:
        say(
            f"run {record.summary.run_id} is {record.summary.state}: this is how things stand after"
            f" {len(record.trials)} evaluations, and may change"
        )
    print_outcome(outcome)
    for each in record.opening.warm_start:
        say(f"  {each}")
