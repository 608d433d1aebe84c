"""`autotrascale explain RUN`: why this parallelism, from the journal alone: nothing is run, and no job file read.

What was autoscaled is explained from the journal of decisions: by the session's id, or by the job's name where the job
was never tuned.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotrascale.service.output import Format, FormatOption, draw, emit, note, say
from autotrascale.service.runs import RunName
from autotrascale.service.store import StoreOption

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from autotrascale.knowledge.decisions.journal import Past
    from autotrascale.knowledge.decisions.replay import Replayed
    from autotrascale.knowledge.history import Record
    from autotrascale.knowledge.store import Store
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
    form: FormatOption = Format.table,
) -> None:
    """Say why a run ended at the parallelism that it did, operator by operator: why not one instance fewer, as measured
    or as the model expects it.

    The words (floor, load, benefit score …) are explained in docs/glossary.md.
    """
    from autotrascale.knowledge.history import find_run, outcome_so_far, read_run
    from autotrascale.service.store import need_store

    opened = need_store(store)
    if again or at is not None:
        _replay(run, opened, again, at, form)
        return
    if session := _session(run, opened):
        emit(form, _decisions(*session), lambda: _show_decisions(*session))
        if plots and form is Format.table:
            _draw_session(opened, session[0])
        return
    if program := _program(run, opened):
        emit(form, program, lambda: _show_program(program))
        return
    record = read_run(opened, find_run(opened, run))
    outcome = outcome_so_far(record)
    emit(form, _as_dict(record, outcome), lambda: _show(record, outcome))
    if plots and form is Format.table:
        from autotrascale.service.plots import of_run

        _draw(of_run(record, outcome))


def _session(run: str, store: Store) -> tuple[Past, list[dict[str, Any]]] | None:
    """The session of that id; or of that job, where no tuning run answers to the name."""
    from autotrascale.domain.errors import InputError
    from autotrascale.knowledge.history import find_run
    from autotrascale.service.keeping import decisions_beside

    decisions = decisions_beside(store)
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


def _program(run: str, store: Store) -> dict[str, Any] | None:
    """What the queries of the program of that name took together, where nothing else has the name."""
    from autotrascale.domain.errors import InputError
    from autotrascale.knowledge.history import find_run
    from autotrascale.service.keeping import decisions_beside, home_of
    from autotrascale.service.together import kept

    decisions = decisions_beside(store)
    if decisions is None:
        return None
    found = kept(home_of(decisions, run))
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


def _decisions(past: Past, entries: list[dict[str, Any]]) -> dict[str, Any]:
    from autotrascale.views.decisions import accuracy, holds, summary

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
        "holds": holds(state),
        "predictions": [vars(each) for each in state.checked],
        "accuracy": accuracy(state.checked),
        "summary": summary(
            opening.job,
            opening.latency_target,
            state,
            simulated=opening.simulated,
            advise=opening.advise,
            size=opening.executor,
        ),
    }


def _show_decisions(past: Past, entries: list[dict[str, Any]]) -> None:
    """Every rescale and every order with all its reasons, and what is being done now."""
    from autotrascale.views.decisions import bill, clock, moved, telling

    answer = _decisions(past, entries)
    say(f"session {past.id} of {past.opening.job}, {answer['state']}")
    for entry in [*telling(entries, _SHOWN), *entries[-1:]]:
        cost = bill(entry, past.opening.executor)
        say(f"{clock(entry['at'])}  {entry['action']}: {moved(entry)}{f' ({cost})' if cost else ''}")
        for reason in entry["reasons"]:
            say(f"    {reason['code']}: {reason['text']}")
    say()
    say(str(answer["holds"]))
    say(str(answer["accuracy"]))
    say(str(answer["summary"]))


def _draw_session(store: Store, past: Past) -> None:
    from autotrascale.service.keeping import decisions_beside
    from autotrascale.service.plots import of_session

    decisions = decisions_beside(store)
    assert decisions is not None  # the session came from there
    found = of_session(decisions, past)
    decisions.close()
    _draw(found)


def _draw(plots: Iterable[Plot]) -> None:
    from autotrascale.views.plots import terminal

    for plot in plots:
        say()
        draw(terminal.text(plot))


def _replay(run: str, store: Store, again: bool, at: str | None, form: Format) -> None:
    """Every step again, from the journal alone: the same decisions, or the first one that differs."""
    from autotrascale.domain.errors import InputError
    from autotrascale.knowledge.decisions.replay import replay
    from autotrascale.service.keeping import decisions_beside
    from autotrascale.views.decisions import clock, clock_seconds

    wanted = None if at is None else clock_seconds(at)
    if at is not None and (wanted is None or not again):
        raise InputError("--at", "is a time of --replay", seen=at, remedy="give both, the time as 03:14:30")
    decisions = decisions_beside(store)
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
        verdict = f"{steps} steps since {clock(first.written['at'])} decided again: every decision is the same"
    if different:
        verdict = f"{len(different)} of {steps} decisions differ now, the first at entry {different[0]}"
    answer = {
        "session": past.id,
        "steps": steps,
        "different": different,
        "summary": verdict,
        "at": shown and {"written": shown.written, "now": shown.now},
    }
    emit(form, answer, lambda: _show_replay(shown, verdict))


def _show_replay(shown: Replayed | None, verdict: str) -> None:
    from autotrascale.plan.control.step import LookTaken
    from autotrascale.views.decisions import looked_at, moved

    if shown is not None:
        if isinstance(shown.event, LookTaken):
            for line in looked_at(shown.written["at"], shown.event.look.snapshot, shown.event.look.detail):
                say(line)
        for what, entry in (("decided", shown.written), *((("now", shown.now),) if not shown.same else ())):
            say(f"{what}: {entry['action']}: {moved(entry)}")
            for reason in entry["reasons"]:
                say(f"    {reason['code']}: {reason['text']}")
    say(verdict)


def register(app: typer.Typer) -> None:
    app.command("explain")(explain)


def _as_dict(record: Record, outcome: Outcome) -> dict[str, Any]:
    from autotrascale.views.explanation import why
    from autotrascale.views.verdict import summary as outcome_summary

    return {
        "run_id": record.summary.run_id,
        "job": outcome.job.name,
        "state": record.summary.state,
        "rate": outcome.job.rate,
        "simulated": outcome.simulated,
        "met_target": outcome.met_target,
        "stop_reason": outcome.stop_reason,
        "policy": outcome.policy,
        "operators": [asdict(each) for each in why(outcome)],
        "remarks": list(outcome.remarks),
        "warm_start": list(record.opening.warm_start),
        "summary": outcome_summary(outcome),
    }


def _show(record: Record, outcome: Outcome) -> None:
    from autotrascale.service.tuning_output import show_outcome

    if record.outcome is None:
        say(
            f"run {record.summary.run_id} is {record.summary.state}: this is how things stand after"
            f" {len(record.trials)} evaluations, and may change"
        )
    show_outcome(outcome)
    for each in record.opening.warm_start:
        say(f"  {each}")
