"""One line of progress: phase, evaluation, current k, latency against target, best so far, time left."""

from __future__ import annotations

from collections.abc import Mapping

from autotrascale.tuning import Progress
from autotrascale.views.explanation import seconds


def before(progress: Progress) -> str:
    return f"{_head(progress)} running …{_left(progress)}"


def after(progress: Progress) -> str:
    done = progress.done
    if done is None:
        return before(progress)
    if done.latency_seconds is None:
        found = f"{done.verdict.value}{': ' + done.detail if done.detail else ''}"
    else:
        found = seconds(done.latency_seconds)
    best = ""
    if progress.best is not None and progress.best_latency is not None:
        best = f"  best {vector(progress.best)} {seconds(progress.best_latency)}"
    return f"{_head(progress)} {found}{best}{_left(progress)}"


def vector(parallelism: Mapping[str, int]) -> str:
    return "(" + ",".join(str(k) for k in parallelism.values()) + ")"


def _head(progress: Progress) -> str:
    return f"{progress.phase:<7} {progress.number:>2}/{progress.total}  k={vector(progress.parallelism)}"


def _left(progress: Progress) -> str:
    left = progress.seconds_left
    if left is None or left < 1:
        return ""
    return f"  at most {left / 60:.0f} min left" if left >= 90 else f"  at most {left:.0f} s left"
