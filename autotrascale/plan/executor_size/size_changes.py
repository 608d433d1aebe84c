"""A change of executor sizes: the action log, the parts of a change, and whether the job does worse after it.

P6 and P7 may give back memory of both kinds in one change, which is judged, kept and taken back as a whole. The way in
which it went wrong shows the harmful part:

    executors were killed                                the overhead, which alone can run over
    collections, ends for lack of heap                   the heap
    a start that failed, a record that needs more work   either part

Afterwards the other part may be given back alone, and so may less of the harmful part.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from autotrascale.domain.decision import Reason
from autotrascale.domain.executor_window import MEMORY, ExecutorSizes, ExecutorWindow, Resource
from autotrascale.plan.executor_size.size_evidence import ExecutorSizeRules, has_memory_death
from autotrascale.plan.formatting import format_percent

SizeChangeStage = Literal["asked", "relaunched", "seen", "kept", "taken-back", "given-up"]
SAME_LOAD = 0.25  # relative difference up to which two loads are the same
STARTING_WINDOWS = 3  # after sizes changed
_MAX_EFFORT_RATIO = 1.5  # work of a record after over before; machines are shared, so less may be chance


@dataclass(frozen=True)
class SizeChange:
    """A line of the action log. All lines of one change have the same number."""

    number: int
    what: SizeChangeStage
    at: float  # Unix seconds: the end of the window that led to it
    policy: str
    resource: Resource
    before: ExecutorSizes
    after: ExecutorSizes
    reason: Reason
    load: float | None = None  # records/s when the change was asked for

    @property
    def up(self) -> bool:
        return self.after.of(self.resource) > self.before.of(self.resource)

    @property
    def parts(self) -> tuple[Resource, ...]:
        """The resources that are given back, or returned after that: memory of both kinds may change at once.

        A raise has one part. If the other kind of memory grew as well, the cluster rounded it up.
        """
        if self.resource not in MEMORY or (self.up and self.policy != "back"):
            return (self.resource,)
        low, high = (self.before, self.after) if self.up else (self.after, self.before)
        return tuple(each for each in MEMORY if low.of(each) < high.of(each)) or (self.resource,)

    @property
    def is_more_memory(self) -> bool:
        return self.up and self.resource in MEMORY


_HARMFUL: Mapping[str, Resource] = {
    "worse-killed": "overhead",
    "worse-out-of-heap": "heap",
    "worse-collections": "heap",
}


def find_harmful_parts(taken_back: SizeChange) -> tuple[Resource, ...]:
    """Return the part that did the harm; all parts if that is unknown."""
    part = _HARMFUL.get(taken_back.reason.code)
    return (part,) if part in taken_back.parts else taken_back.parts


def find_harm(
    rules: ExecutorSizeRules, change: SizeChange, before: Sequence[ExecutorWindow], after: Sequence[ExecutorWindow]
) -> Reason | None:
    """Return why the job does worse after a change, or None.

    An end for lack of memory counts at once. Collections count if they take more than ever before, over several
    windows. So does the time for each record, at the same load. More memory never harms: longer times after it have
    other causes, such as growing state or small batches.

    Args:
        rules: thresholds.
        change: the change.
        before: windows before it.
        after: windows since then.
    """
    is_down = not change.up
    if change.is_more_memory:
        return None
    if is_down and (deaths := sum(map(has_memory_death, after))):
        return _explain_deaths(after, deaths)
    recent = after[STARTING_WINDOWS:]  # before, a heap that still grows is collected often
    if len(recent) < rules.recent:
        return None
    share = _mean_gc_share(recent)
    if is_down and share >= rules.gc_most and share > _max_gc_share(rules, before):
        text = f"Taken back: after it collections take {format_percent(share)} of the tasks' time."
        return Reason("worse-collections", text, {"gc_share": share})
    has_python = change.resource in MEMORY
    efforts_before, efforts_after = (_measure_effort(each, recent, python=has_python) for each in (before, recent))
    ratios = [b / a for a, b in zip(efforts_before, efforts_after, strict=True) if a and b is not None]
    if ratios and min(ratios) > _MAX_EFFORT_RATIO:
        text = f"Taken back: after it a record takes {min(ratios):.1f} times the work."
        return Reason("worse-effort", text, {"times": min(ratios)})
    return None


def _mean_gc_share(windows: Sequence[ExecutorWindow]) -> float:
    shares = [window.gc_share for window in windows if window.gc_share is not None]
    return statistics.mean(shares) if shares else 0.0


def _max_gc_share(rules: ExecutorSizeRules, windows: Sequence[ExecutorWindow]) -> float:
    """Return the largest mean of as many windows in a row as the change is judged by."""
    settled = windows[STARTING_WINDOWS:]
    ends = range(rules.recent, len(settled) + 1)
    return max((_mean_gc_share(settled[end - rules.recent : end]) for end in ends), default=0)


def _explain_deaths(after: Sequence[ExecutorWindow], windows: int) -> Reason:
    causes = {each.reason for window in after for each in window.lost}
    is_killed = "memory" in causes
    is_out_of_heap = "heap" in causes or any(window.out_of_heap for window in after)
    if is_killed and is_out_of_heap:
        code, what = "worse-out-of-memory", "executors were killed for memory, and executors ran out of heap"
    elif is_killed:
        code, what = "worse-killed", "executors were killed for memory outside the heap"
    else:
        code, what = "worse-out-of-heap", "executors or tasks ran out of heap"
    return Reason(code, f"Taken back: after it {what}.", {"windows": windows})


def _measure_effort(
    windows: Sequence[ExecutorWindow], like: Sequence[ExecutorWindow], *, python: bool
) -> tuple[float | None, float | None]:
    """Return the task seconds and the CPU seconds of a record, in windows at the load of `like`.

    Task seconds run on while another process has the core. Spark's CPU seconds lack Python workers; with
    `python` such windows count anyway: with less memory the JVM has more to do, and a Python worker dies.
    """
    load = average_load(like)
    alike = [window for window in windows if window.done and is_same_load(window.rate, load)]
    seconds_by_kind = (
        [(each, each.run_seconds) for each in alike],
        [(each, each.cpu_seconds if python or not each.python else None) for each in alike],
    )
    by_clock, by_cpu = (
        [seconds / (each.done * each.seconds) for each, seconds in kind if seconds is not None and each.done]
        for kind in seconds_by_kind
    )
    return (statistics.median(by_clock) if by_clock else None, statistics.median(by_cpu) if by_cpu else None)


def average_load(windows: Sequence[ExecutorWindow]) -> float | None:
    rates = [window.rate for window in windows if window.rate is not None]
    return statistics.mean(rates) if rates else None


def is_same_load(a: float | None, b: float | None) -> bool:
    """Return whether two loads differ by little. An unknown load is the same as any other."""
    return a is None or b is None or abs(a - b) <= SAME_LOAD * max(a, b)
