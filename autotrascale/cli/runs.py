"""`autotrascale runs ls|show|resume|cancel`: the journal of tuning runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotrascale.app.console import FormatOption, OutputFormat, note, print_answer, print_table, say
from autotrascale.app.stores import MetricsOption, StoreOption
from autotrascale.cli.completion import complete_job_names, complete_run_names

if TYPE_CHECKING:
    from autotrascale.knowledge.run_history import RunRecord, RunSummary
    from autotrascale.tuning import Evaluation, JournalledTrial

RunName = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run's id or its beginning; a job, for its last run; or: last.",
        autocompletion=complete_run_names,
    ),
]


def ls(
    job: Annotated[
        str | None, typer.Option(metavar="JOB", help="Only the runs of this job.", autocompletion=complete_job_names)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, metavar="N", help="The latest N runs.")] = 20,
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """List the tuning runs, the latest first."""
    from autotrascale.app.stores import require_store
    from autotrascale.knowledge.run_history import list_runs

    found = list_runs(require_store(store), job, limit)
    print_answer(form, {"runs": [asdict(each) for each in found]}, lambda: _show_list(found, limit))


def show(run: RunName, store: StoreOption = None, form: FormatOption = OutputFormat.table) -> None:
    """Show one run: how it was started, and every evaluation."""
    from autotrascale.app.stores import require_store
    from autotrascale.knowledge.run_history import find_run, read_run

    opened = require_store(store)
    record = read_run(opened, find_run(opened, run))
    print_answer(form, _as_dict(record), lambda: _show(record))


def resume(
    run: RunName,
    total_trials: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Trials in all, those already run included.")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(metavar="S", help="No trial begins after this long, earlier trials included.")
    ] = None,
    store: StoreOption = None,
    metrics: MetricsOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Go on with a run that was interrupted or died, after its last finished evaluation."""
    from autotrascale.app import tuning_run
    from autotrascale.app.metric_recording import open_metric_recorder
    from autotrascale.app.stores import require_store
    from autotrascale.cli import tuning_output
    from autotrascale.knowledge import requested_by

    with tuning_output.exit_on_sigterm(), open_metric_recorder(metrics) as meter:
        opened = require_store(store)
        finished = tuning_run.resume(
            opened,
            run,
            tuning_output.create_listener(form),
            total_trials,
            max_seconds,
            meter,
            requested_by.current_user(),
        )
    tuning_output.print_result_and_exit(form, finished)


def cancel(run: RunName, store: StoreOption = None, form: FormatOption = OutputFormat.table) -> None:
    """End a run: at once when its process is gone, else before its next trial. It can be resumed."""
    from autotrascale.app import tuning_run
    from autotrascale.app.stores import require_store
    from autotrascale.knowledge import requested_by
    from autotrascale.knowledge.run_history import find_run

    opened = require_store(store)
    found = find_run(opened, run)
    over = tuning_run.cancel(opened, found, note)
    requested_by.record_request(opened, found.info.run_id, requested_by.current_user(), "cancel")
    words = "has ended" if over else "ends before its next trial"
    answer = {"run_id": found.info.run_id, "ended": over}
    print_answer(form, answer, lambda: say(f"run {found.info.run_id} {words}"))


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="The journal of tuning runs.")
    for verb in (ls, show, resume, cancel):
        group.command(verb.__name__)(verb)
    app.add_typer(group, name="runs")


def _show_list(found: list[RunSummary], limit: int) -> None:
    from autotrascale.plan.formatting import format_seconds

    if not found:
        say("no runs yet; the first comes with: autotrascale tune JOB.yaml")
        return
    print_table(
        ("run", "job", "state", "rate", "target", "evaluations", "parallelism", "latency", "why"),
        [
            (
                each.run_id,
                each.job + (" (simulated)" if each.simulated else ""),
                each.state,
                "?" if each.rate is None else each.rate,
                {True: "met", False: "not met", None: ""}[each.met_target],
                each.evaluations,
                each.parallelism or "",
                "" if each.latency_seconds is None else format_seconds(each.latency_seconds),
                each.why or "",
            )
            for each in found
        ],
    )
    if len(found) == limit:
        note(f"the latest {limit}; --limit shows more")


def _as_dict(record: RunRecord) -> dict[str, Any]:
    opening = record.opening
    return {
        **asdict(record.summary),
        "job_path": opening.job_path,
        "settings": asdict(opening.settings),
        "policy": asdict(opening.policy),
        "warm_start": list(opening.warm_start),
        "floor": None if record.outcome is None else dict(record.outcome.floor),
        "trials": [_trial(each) for each in record.trials],
    }


def _trial(done: JournalledTrial) -> dict[str, Any]:
    """With the answer that asked for it, and what its policy remembered, where the run follows one."""
    plain = asdict(done.evaluation)
    if done.step is None:
        return plain
    decision = done.step.decision
    return {**plain, "asked": None if decision is None else decision.as_dict(), "memory": dict(done.step.memory)}


def _show(record: RunRecord) -> None:
    from autotrascale.plan.policies import OURS

    summary, opening = record.summary, record.opening
    say(
        f"run {summary.run_id}: {opening.job.name} at {opening.job.rate:g}/s, {summary.state}"
        f"{f' ({summary.why})' if summary.why else ''}"
    )
    say(
        f"started {summary.started} from {opening.job_path}, engine {opening.engine}, seed {opening.settings.seed}"
        f"{'' if opening.policy.name == OURS else f', by {opening.policy.name}'}"
    )
    if summary.asked_by is not None:
        say(f"asked for by {summary.asked_by}")
    for each in opening.warm_start:
        say(f"  {each}")
    print_table(
        ("#", "phase", "parallelism", "verdict", "latency", "throughput", "score", "seconds"),
        [_row(each.evaluation) for each in record.trials],
    )
    if summary.state in ("crashed", "interrupted", "failed"):
        say(f"go on with: autotrascale runs resume {summary.run_id}")


def _row(evaluation: Evaluation) -> tuple[object, ...]:
    from autotrascale.plan.formatting import format_amount, format_seconds
    from autotrascale.views.explanation import format_parallelism

    return (
        evaluation.number,
        evaluation.phase,
        format_parallelism(evaluation.parallelism),
        evaluation.verdict.value + ("" if evaluation.shortage is None else ", starved machine"),
        "" if evaluation.latency_seconds is None else format_seconds(evaluation.latency_seconds),
        "" if evaluation.throughput is None else f"{format_amount(evaluation.throughput)}/s",
        "" if evaluation.score is None else f"{evaluation.score:.3f}",
        f"{evaluation.seconds:.1f}",
    )
