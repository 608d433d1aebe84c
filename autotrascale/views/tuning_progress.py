"""One line of progress: phase, trial, what runs, latency or verdict, best so far and whether it meets, time left."""

from __future__ import annotations

from autotrascale.plan.formatting import format_seconds
from autotrascale.tuning import TuningProgress
from autotrascale.views.explanation import format_parallelism
from autotrascale.views.machine_pressure import shortage_note

SHOWN = 8  # operators: a line should fit a screen


def format_running_trial(progress: TuningProgress) -> str:
    return f"{_head(progress)}: running …{_left(progress)}"


def format_finished_trial(progress: TuningProgress) -> str:
    done = progress.done
    if done is None:
        return format_running_trial(progress)
    if done.latency_seconds is None:
        found = f"{done.verdict.value.replace('-', ' ')}{' – ' + done.detail if done.detail else ''}"
    else:
        found = format_seconds(done.latency_seconds)
    return f"{_head(progress)}: {found}{shortage_note(done)}{_best(progress)}{_left(progress)}"


def _best(progress: TuningProgress) -> str:
    """Nothing before any trial held the rate."""
    if progress.best is None or progress.best_latency is None:
        return ""
    return f"  [best so far {format_seconds(progress.best_latency)}, {_meets(progress)}]"


def _meets(progress: TuningProgress) -> str:
    if progress.best_trusted:
        return "meets the target"
    return "within the target, not yet trusted" if progress.best_meets else "misses the target"


def _head(progress: TuningProgress) -> str:
    return (
        f"{progress.phase:<7} {progress.number:>2}/{progress.total}  {format_parallelism(progress.parallelism, SHOWN)}"
    )


def _left(progress: TuningProgress) -> str:
    left = progress.seconds_left
    if left is None or left < 1:
        return ""
    return f"  at most {left / 60:.0f} min left" if left >= 90 else f"  at most {left:.0f} s left"
