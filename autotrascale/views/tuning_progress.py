"""The progress of a tuning run in one line: phase, trial, parallelism, result, best so far, time left."""

from __future__ import annotations

from autotrascale.plan.formatting import format_seconds
from autotrascale.tuning import TuningProgress
from autotrascale.views.explanation import format_parallelism
from autotrascale.views.machine_pressure import shortage_note

MAX_OPERATORS = 8  # so that a line fits a screen


def format_running_trial(progress: TuningProgress) -> str:
    return f"{_format_head(progress)}: running …{_format_time_left(progress)}"


def format_finished_trial(progress: TuningProgress) -> str:
    done = progress.done
    if done is None:
        return format_running_trial(progress)
    if done.latency_seconds is None:
        found = f"{done.verdict.value.replace('-', ' ')}{' – ' + done.detail if done.detail else ''}"
    else:
        found = format_seconds(done.latency_seconds)
    result = f"{_format_head(progress)}: {found}{shortage_note(done)}"
    return result + _format_best(progress) + _format_time_left(progress)


def _format_best(progress: TuningProgress) -> str:
    if progress.best is None or progress.best_latency is None:
        return ""
    return f"  [best so far {format_seconds(progress.best_latency)}, {_describe_target(progress)}]"


def _describe_target(progress: TuningProgress) -> str:
    if progress.best_trusted:
        return "meets the target"
    return "within the target, not confirmed" if progress.best_meets else "misses the target"


def _format_head(progress: TuningProgress) -> str:
    k = format_parallelism(progress.parallelism, MAX_OPERATORS)
    return f"{progress.phase:<7} {progress.number:>2}/{progress.total}  {k}"


def _format_time_left(progress: TuningProgress) -> str:
    left = progress.seconds_left
    if left is None or left < 1:
        return ""
    return f"  at most {left / 60:.0f} min left" if left >= 90 else f"  at most {left:.0f} s left"
