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

from autotrascale.service.output import Format, emit, note, say, table

if TYPE_CHECKING:
    from autotrascale.domain.job import Job
    from autotrascale.domain.trial import Sink
    from autotrascale.knowledge.json_forms import Source
    from autotrascale.service.tuning_runs import Finished, RunListener
    from autotrascale.service.warm_start import WarmStart
    from autotrascale.tuning import Outcome, Progress

TARGET_NOT_MET = 3
_TERMINATED = 143  # 128 + SIGTERM, as shells have it


def listener(form: Format) -> RunListener:
    from autotrascale.service.tuning_runs import RunListener

    return RunListener(_opening if form is Format.table else _nothing, line, _unfinished, trouble=note, waiting=note)


def finish(form: Format, finished: Finished) -> None:
    """The answer, and the exit code."""
    emit(form, answer(finished), lambda: show(finished))
    if not finished.outcome.met_target:
        raise typer.Exit(TARGET_NOT_MET)


@contextmanager
def ending_cleanly() -> Iterator[None]:
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
    from autotrascale.plan.words import amount, seconds
    from autotrascale.views.output import where_output_goes

    what = "a simulated job: every figure below is simulated" if sink is None else "a real Spark job"
    target = seconds(job.target.latency_seconds)
    output = "" if sink is None else f"; {where_output_goes(sink)}"
    note(f"tuning {job.name}, {what}; {amount(job.rate)} records/s, latency target {target}{output}")
    for each in warm.lines:
        note(each)


def _nothing(job: Job, sink: Sink | None, warm: WarmStart) -> None:
    """For programs: all of it is in the answer."""


def _unfinished(run_id: str) -> None:
    note(f"what was measured is kept; go on with: autotrascale runs resume {run_id}")


def line(progress: Progress) -> None:
    """One line for each finished trial; on a terminal the one under way is shown too, and overwritten."""
    from autotrascale.views.progress import after, before

    if progress.done is not None:
        _print_over(after(progress), end="\n")
    elif sys.stderr.isatty():
        _print_over(before(progress), end="")


def _print_over(text: str, end: str) -> None:
    start = "\r\x1b[2K" if sys.stderr.isatty() else ""
    print(start + text, end=end, file=sys.stderr, flush=True)


def answer(finished: Finished) -> dict[str, Any]:
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


def _cold_run(cold: Source | None) -> dict[str, Any] | None:
    """What starting warm may be compared with."""
    if cold is None:
        return None
    return {"model": cold.name, "rate": cold.model.rate, "evaluations": cold.cold_trials}


def show(finished: Finished) -> None:
    from autotrascale.views.output import what_became_of_output

    show_outcome(finished.outcome)
    if (cold := finished.cold) is not None:
        count = len(finished.outcome.evaluations)
        trials = "1 trial" if count == 1 else f"{count} trials"
        say(f"{trials}; starting cold, {cold.model.rate:g}/s took {cold.cold_trials} ({cold.name})")
    if finished.sink is not None:
        note(what_became_of_output(finished.sink, finished.output_records))
    if finished.run_id is not None:
        model = "" if finished.model is None else f", model {finished.model.uri}"
        note(f"run {finished.run_id}{model}")


def show_outcome(outcome: Outcome) -> None:
    """The parallelism, and for every operator why. What missed is not called chosen."""
    from autotrascale.plan.policies import OURS
    from autotrascale.views.explanation import why
    from autotrascale.views.verdict import summary

    answers = why(outcome)
    top = max(len(each.operator) for each in answers)
    heading = "chosen" if outcome.met_target else "nearest miss" if outcome.policy == OURS else f"of {outcome.policy}"
    table(
        ("operator", heading, "floor", "P_max"),
        [(w.operator, w.k, w.floor, u) for w, u in zip(answers, outcome.job.upper, strict=True)],
    )
    for each in answers:
        say(f"  {each.operator:<{top}} {each.k}: {each.text}")
    for remark in outcome.remarks:
        say(f"  note: {remark}")
    say()
    say(summary(outcome))
