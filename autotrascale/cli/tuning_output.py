"""Output of tuning runs on a terminal: the start, one line for each trial, and the answer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from autotrascale.app.console import OutputFormat, note, print_answer, print_table, say
from autotrascale.cli.options import TARGET_NOT_MET

if TYPE_CHECKING:
    from autotrascale.app.tuning_run import RunListener, TuningResult
    from autotrascale.app.warm_start import WarmStart
    from autotrascale.domain.job import Job
    from autotrascale.domain.trial import Sink
    from autotrascale.tuning import Outcome, TuningProgress


def create_listener(form: OutputFormat) -> RunListener:
    """Return a listener that prints on stderr. The start is printed with tables only, as JSON answers contain it."""
    from autotrascale.app.tuning_run import RunListener

    on_start = print_start if form is OutputFormat.table else _print_nothing
    return RunListener(on_start, print_progress, _print_how_to_resume, warn=note, on_wait=note)


def print_result_and_exit(form: OutputFormat, result: TuningResult) -> None:
    """Print the answer; exit with code 3 if the target is not met."""
    print_answer(form, result_as_dict(result), lambda: print_result(result))
    if not result.outcome.met_target:
        raise typer.Exit(TARGET_NOT_MET)


def print_start(job: Job, sink: Sink | None, warm: WarmStart) -> None:
    """Print the job, the sink of its trials (None if simulated), and the models that the run starts from."""
    from autotrascale.plan.formatting import format_amount, format_seconds
    from autotrascale.views.sink_text import describe_sink

    kind = "simulated: all figures below are simulated" if sink is None else "on Spark"
    target = format_seconds(job.target.latency_seconds)
    output = "" if sink is None else f"; {describe_sink(sink)}"
    note(f"tuning {job.name}, {kind}; {format_amount(job.rate)} records/s, latency target {target}{output}")
    for line in warm.lines:
        note(line)


def print_progress(progress: TuningProgress) -> None:
    """Print one line for a finished trial. A terminal also shows the trial under way, in a line that is overwritten."""
    from autotrascale.views.tuning_progress import format_finished_trial, format_running_trial

    is_terminal = sys.stderr.isatty()
    erase = "\r\x1b[2K" if is_terminal else ""
    if progress.done is not None:
        print(erase + format_finished_trial(progress), file=sys.stderr, flush=True)
    elif is_terminal:
        print(erase + format_running_trial(progress), end="", file=sys.stderr, flush=True)


def result_as_dict(result: TuningResult) -> dict[str, Any]:
    """Return the answer as JSON has it."""
    outcome, best, cold = result.outcome, result.outcome.best, result.cold
    return {
        "job": outcome.job.name,
        "run_id": result.run_id,
        "rate": outcome.job.rate,
        "simulated": outcome.simulated,
        "floor": dict(outcome.floor),
        "best": {
            "parallelism": dict(best.parallelism),
            "latency_seconds": best.latency_seconds,
            "throughput": best.throughput,
            "score": best.score,
        },
        "met_target": outcome.met_target,
        "evaluations": len(outcome.evaluations),
        "stop_reason": outcome.stop_reason,
        "policy": outcome.policy,
        "warm_start": list(result.warm_start),
        "cold_run": cold and {"model": cold.name, "rate": cold.model.rate, "evaluations": cold.cold_trials},
        "model": None if result.model is None else result.model.uri,
        "sink": result.sink,
        "starved_trials": sum(each.shortage is not None for each in outcome.evaluations),
    }


def print_result(result: TuningResult) -> None:
    """Print the answer for people, and the names of run and model on stderr."""
    from autotrascale.views.sink_text import describe_output

    print_outcome(result.outcome)
    if (cold := result.cold) is not None:
        count = len(result.outcome.evaluations)
        trials = "1 trial" if count == 1 else f"{count} trials"
        say(f"{trials}; a cold start at {cold.model.rate:g} records/s took {cold.cold_trials} ({cold.name})")
    if result.sink is not None:
        note(describe_output(result.sink, result.output_records))
    if result.run_id is not None:
        model = "" if result.model is None else f", model {result.model.uri}"
        note(f"run {result.run_id}{model}")


def print_outcome(outcome: Outcome) -> None:
    """Print the parallelism and the reason for each operator. A configuration that misses is not called chosen."""
    from autotrascale.plan.policies.registry import OURS
    from autotrascale.views.explanation import explain_operators
    from autotrascale.views.verdict import summarize_outcome

    answers = explain_operators(outcome)
    width = max(len(each.operator) for each in answers)
    heading = "chosen" if outcome.met_target else "nearest miss" if outcome.policy == OURS else f"of {outcome.policy}"
    print_table(
        ("operator", heading, "floor", "P_max"),
        [(a.operator, a.k, a.floor, upper) for a, upper in zip(answers, outcome.job.upper, strict=True)],
    )
    for each in answers:
        say(f"  {each.operator:<{width}} {each.k}: {each.text}")
    for remark in outcome.remarks:
        say(f"  note: {remark}")
    say()
    say(summarize_outcome(outcome))


def _print_nothing(job: Job, sink: Sink | None, warm: WarmStart) -> None:
    pass


def _print_how_to_resume(run_id: str) -> None:
    note(f"the finished trials are kept; continue with: autotrascale runs resume {run_id}")
