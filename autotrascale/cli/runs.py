"""`autotrascale runs ls|show|resume|cancel`: the journal of tuning runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotrascale.app.console import OutputFormat, note, print_answer, print_table, say
from autotrascale.cli.completion import complete_run_names
from autotrascale.cli.options import FormatOption, JobOption, MetricsOption, StoreOption, argument, option

if TYPE_CHECKING:
    from autotrascale.knowledge.run_history import RunRecord, RunSummary
    from autotrascale.tuning import Evaluation, JournalledTrial

RunArgument = Annotated[
    str,
    argument(
        "Id of a run or its beginning, a job for its last run, or `last`.", "RUN", autocompletion=complete_run_names
    ),
]


def ls(
    job: JobOption = None,
    limit: Annotated[int, option("Number of runs to list.", "N", min=1, max=1_000_000)] = 20,
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """List tuning runs, the newest first."""
    from autotrascale.app.stores import require_store
    from autotrascale.knowledge.run_history import list_runs

    runs = list_runs(require_store(store), job, limit)
    print_answer(form, {"runs": [asdict(each) for each in runs]}, lambda: _print_list(runs, limit))


def show(run: RunArgument, store: StoreOption = None, form: FormatOption = OutputFormat.table) -> None:
    """Show the inputs and all trials of a run."""
    from autotrascale.app.stores import require_store
    from autotrascale.knowledge.run_history import find_run, read_run

    opened = require_store(store)
    record = read_run(opened, find_run(opened, run))
    print_answer(form, _as_dict(record), lambda: _print_record(record))


def resume(
    run: RunArgument,
    total_trials: Annotated[
        int | None, option("Limit for trials, finished ones included.", "N", default="the run's", min=1)
    ] = None,
    max_seconds: Annotated[
        float | None, option("Seconds after which no trial begins, finished trials included.", "S", default="the run's")
    ] = None,
    store: StoreOption = None,
    metrics: MetricsOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Resume an interrupted run after its last trial."""
    from autotrascale.app import tuning_run
    from autotrascale.app.metric_recording import open_metric_recorder
    from autotrascale.app.stores import require_store
    from autotrascale.app.termination import exit_on_sigterm
    from autotrascale.cli import tuning_output
    from autotrascale.knowledge.requested_by import current_user

    with exit_on_sigterm(), open_metric_recorder(metrics) as recorder:
        listener = tuning_output.create_listener(form)
        result = tuning_run.resume(
            require_store(store), run, listener, total_trials, max_seconds, recorder, current_user()
        )
    tuning_output.print_result_and_exit(form, result)


def cancel(run: RunArgument, store: StoreOption = None, form: FormatOption = OutputFormat.table) -> None:
    """End a run before its next trial.

    A run whose process is gone ends at once. A cancelled run can be resumed.
    """
    from autotrascale.app import tuning_run
    from autotrascale.app.stores import require_store
    from autotrascale.knowledge.requested_by import current_user, record_request
    from autotrascale.knowledge.run_history import find_run

    opened = require_store(store)
    found = find_run(opened, run)
    run_id = found.info.run_id
    has_ended = tuning_run.cancel(opened, found, note)
    record_request(opened, run_id, current_user(), "cancel")
    text = f"run {run_id} {'has ended' if has_ended else 'ends before its next trial'}"
    print_answer(form, {"run_id": run_id, "ended": has_ended}, lambda: say(text))


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="List, show, resume and cancel tuning runs.")
    for verb in (ls, show, resume, cancel):
        group.command(verb.__name__)(verb)
    app.add_typer(group, name="runs")


def _print_list(runs: list[RunSummary], limit: int) -> None:
    from autotrascale.plan.formatting import format_seconds

    if not runs:
        say("no runs yet; start one with: autotrascale tune JOB.yaml")
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
            for each in runs
        ],
    )
    if len(runs) == limit:
        note(f"listed the newest {limit} runs; --limit lists more")


def _as_dict(record: RunRecord) -> dict[str, Any]:
    opening = record.opening
    return {
        **asdict(record.summary),
        "job_path": opening.job_path,
        "settings": asdict(opening.settings),
        "policy": asdict(opening.policy),
        "warm_start": list(opening.warm_start),
        "floor": None if record.outcome is None else dict(record.outcome.floor),
        "trials": [_trial_as_dict(each) for each in record.trials],
    }


def _trial_as_dict(trial: JournalledTrial) -> dict[str, Any]:
    data = asdict(trial.evaluation)
    if trial.step is None:
        return data
    decision = trial.step.decision  # of the policy that proposed the trial
    return {**data, "asked": None if decision is None else decision.as_dict(), "memory": dict(trial.step.memory)}


def _print_record(record: RunRecord) -> None:
    from autotrascale.plan.policies.registry import OURS

    summary, opening = record.summary, record.opening
    cause = f" ({summary.why})" if summary.why else ""
    policy = "" if opening.policy.name == OURS else f", policy {opening.policy.name}"
    say(f"run {summary.run_id}: {opening.job.name} at {opening.job.rate:g} records/s, {summary.state}{cause}")
    say(
        f"started {summary.started} from {opening.job_path}, engine {opening.engine}, "
        f"seed {opening.settings.seed}{policy}"
    )
    if summary.asked_by is not None:
        say(f"requested by {summary.asked_by}")
    for line in opening.warm_start:
        say(f"  {line}")
    print_table(
        ("#", "phase", "parallelism", "verdict", "latency", "throughput", "score", "seconds"),
        [_trial_row(each.evaluation) for each in record.trials],
    )
    if summary.state in ("crashed", "interrupted", "failed"):
        say(f"resume it with: autotrascale runs resume {summary.run_id}")


def _trial_row(trial: Evaluation) -> tuple[object, ...]:
    from autotrascale.plan.formatting import format_amount, format_seconds
    from autotrascale.views.explanation import format_parallelism

    return (
        trial.number,
        trial.phase,
        format_parallelism(trial.parallelism),
        trial.verdict.value + ("" if trial.shortage is None else ", starved machine"),
        "" if trial.latency_seconds is None else format_seconds(trial.latency_seconds),
        "" if trial.throughput is None else f"{format_amount(trial.throughput)}/s",
        "" if trial.score is None else f"{trial.score:.3f}",
        f"{trial.seconds:.1f}",
    )
