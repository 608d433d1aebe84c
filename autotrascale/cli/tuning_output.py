"""How a tuning run is shown on a terminal: its opening, its progress line by line, its answer."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from autotrascale.app.console import OutputFormat, note, print_answer, print_table, say

if TYPE_CHECKING:
    from autotrascale.app.tuning_run import RunListener, TuningResult
    from autotrascale.app.warm_start import WarmStart
    from autotrascale.domain.job import Job
    from autotrascale.domain.trial import Sink
    from autotrascale.knowledge.run_json import ModelSource
    from autotrascale.tuning import Outcome, TuningProgress

TARGET_NOT_MET = 3
_TERMINATED = 143  # 128 + SIGTERM, as shells have it


def create_listener(form: OutputFormat) -> RunListener:
    from autotrascale.app.tuning_run import RunListener

    return RunListener(
        _opening if form is OutputFormat.table else _nothing, print_progress, _unfinished, trouble=note, waiting=note
    )


def print_result_and_exit(form: OutputFormat, finished: TuningResult) -> None:
    """The answer, and the exit code."""
    print_answer(form, result_as_dict(finished), lambda: print_result(finished))
    if not finished.outcome.met_target:
        raise typer.Exit(TARGET_NOT_MET)


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """A process that is asked to end ends its run as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - as signal handlers are called
    raise SystemExit(_TERMINATED)


def _opening(job: Job, sink: Sink | None, warm: WarmStart) -> None:
    from autotrascale.plan.formatting import format_amount, format_seconds
    from autotrascale.views.sink_text import describe_sink

    what = "a simulated job: every figure below is simulated" if sink is None else "a real Spark job"
    target = format_seconds(job.target.latency_seconds)
    output = "" if sink is None else f"; {describe_sink(sink)}"
    note(f"tuning {job.name}, {what}; {format_amount(job.rate)} records/s, latency target {target}{output}")
    for each in warm.lines:
        note(each)


def _nothing(job: Job, sink: Sink | None, warm: WarmStart) -> None:
    """For programs: all of it is in the answer."""


def _unfinished(run_id: str) -> None:
    note(f"what was measured is kept; go on with: autotrascale runs resume {run_id}")


def print_progress(progress: TuningProgress) -> None:
    """One line for each finished trial; on a terminal the one under way is shown too, and overwritten."""
    from autotrascale.views.tuning_progress import format_finished_trial, format_running_trial

    if progress.done is not None:
        _print_over(format_finished_trial(progress), end="\n")
    elif sys.stderr.isatty():
        _print_over(format_running_trial(progress), end="")


def _print_over(text: str, end: str) -> None:
    start = "\r\x1b[2K" if sys.stderr.isatty() else ""
    print(start + text, end=end, file=sys.stderr, flush=True)


def result_as_dict(finished: TuningResult) -> dict[str, Any]:
    outcome, best = finished.outcome, finished.outcome.best
    return {
        "job": outcome.job.name,
        "run_id": finished.run_id,
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
        "warm_start": list(finished.warm_start),
        "cold_run": _cold_run(finished.cold),
        "model": None if finished.model is None else finished.model.uri,
        "sink": finished.sink,
        "starved_trials": sum(each.shortage is not None for each in outcome.evaluations),
    }


def _cold_run(cold: ModelSource | None) -> dict[str, Any] | None:
    """What starting warm may be compared with."""
    if cold is None:
        return None
    return {"model": cold.name, "rate": cold.model.rate, "evaluations": cold.cold_trials}


def print_result(finished: TuningResult) -> None:
    from autotrascale.views.sink_text import describe_output

    print_outcome(finished.outcome)
    if (cold := finished.cold) is not None:
        count = len(finished.outcome.evaluations)
        trials = "1 trial" if count == 1 else f"{count} trials"
        say(f"{trials}; starting cold, {cold.model.rate:g}/s took {cold.cold_trials} ({cold.name})")
    if finished.sink is not None:
        note(describe_output(finished.sink, finished.output_records))
    if finished.run_id is not None:
        model = "" if finished.model is None else f", model {finished.model.uri}"
        note(f"run {finished.run_id}{model}")


def print_outcome(outcome: Outcome) -> None:
    """The parallelism, and for every operator why. What missed is not called chosen."""
    from autotrascale.plan.policies import OURS
    from autotrascale.views.explanation import explain_operators
    from autotrascale.views.verdict import summarize_outcome

    answers = explain_operators(outcome)
    top = max(len(each.operator) for each in answers)
    heading = "chosen" if outcome.met_target else "nearest miss" if outcome.policy == OURS else f"of {outcome.policy}"
    print_table(
        ("operator", heading, "floor", "P_max"),
        [(w.operator, w.k, w.floor, u) for w, u in zip(answers, outcome.job.upper, strict=True)],
    )
    for each in answers:
        say(f"  {each.operator:<{top}} {each.k}: {each.text}")
    for remark in outcome.remarks:
        say(f"  note: {remark}")
    say()
    say(summarize_outcome(outcome))
