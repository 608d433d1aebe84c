"""One change of sizes: a line of the action log, what it is about, and whether the job does worse for it.

What P6 and P7 give back together is judged, kept and taken back together. How it went wrong says which part did it:

    executors that were killed                      the memory beside the heap, which alone can run over
    collections, ends for want of heap              the heap
    a start that failed, a record that costs more   either

The other part may then be given back alone, and so may less of the guilty one.
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
SAME_LOAD = 0.25
STARTING_WINDOWS = 3  # windows, after sizes changed
_MUCH_WORSE = 1.5  # of machines that others work on too


@dataclass(frozen=True)
class SizeChange:
    """One line of the action log. Those of one change have the same number. `load` when it was asked for."""

    number: int
    what: SizeChangeStage
    at: float  # Unix seconds: the end of the window that it follows from
    policy: str
    resource: Resource
    before: ExecutorSizes
    after: ExecutorSizes
    reason: Reason
    load: float | None = None

    @property
    def up(self) -> bool:
        return self.after.of(self.resource) > self.before.of(self.resource)

    @property
    def parts(self) -> tuple[Resource, ...]:
        """What is given back, or back again: memory of both kinds may be at once. What is raised is one thing; that the
        other became more as well is the cluster's rounding."""
        if self.resource not in MEMORY or (self.up and self.policy != "back"):
            return (self.resource,)
        low, high = (self.before, self.after) if self.up else (self.after, self.before)
        return tuple(each for each in MEMORY if low.of(each) < high.of(each)) or (self.resource,)


_GUILTY: Mapping[str, Resource] = {"worse-killed": "beside", "worse-out-of-heap": "heap", "worse-collections": "heap"}


def find_harmful_parts(taken: SizeChange) -> tuple[Resource, ...]:
    """Which part of it did the harm; all of them, where nobody can tell."""
    part = _GUILTY.get(taken.reason.code)
    return (part,) if part in taken.parts else taken.parts


def find_harm(
    rules: ExecutorSizeRules, action: SizeChange, before: Sequence[ExecutorWindow], after: Sequence[ExecutorWindow]
) -> Reason | None:
    """An end for want of memory, at once; else collections, if they take more than they ever did before it, or time for
    each record, over windows at the same load.
    More memory makes no record dearer: what took longer after it had a state that grew, or batches that were small."""
    down = not action.up
    if is_more_memory(action):
        return None
    if down and (dead := sum(map(has_memory_death, after))):
        return _ends(after, dead)
    recent = after[STARTING_WINDOWS:]  # in which a heap that still grows is collected often
    if len(recent) < rules.recent:
        return None
    share = _collecting(recent)
    if down and share >= rules.gc_most and share > _most_collecting(rules, before):
        text = f"collections take {format_percent(share)} of the tasks' time after it: taken back"
        return Reason("worse-collections", text, {"gc_share": share})
    was, now = (_effort(windows, recent, python=action.resource in MEMORY) for windows in (before, recent))
    times = [b / a for a, b in zip(was, now, strict=True) if a and b is not None]
    if times and min(times) > _MUCH_WORSE:
        text = f"a record takes {min(times):.1f} times the work that it took before: taken back"
        return Reason("worse-effort", text, {"times": min(times)})
    return None


def _collecting(windows: Sequence[ExecutorWindow]) -> float:
    shares = [window.gc_share for window in windows if window.gc_share is not None]
    return statistics.mean(shares) if shares else 0.0


def _most_collecting(rules: ExecutorSizeRules, windows: Sequence[ExecutorWindow]) -> float:
    """Over as many in a row as it is judged by."""
    settled = windows[STARTING_WINDOWS:]
    return max(
        (_collecting(settled[at - rules.recent : at]) for at in range(rules.recent, len(settled) + 1)), default=0
    )


def _ends(after: Sequence[ExecutorWindow], windows: int) -> Reason:
    whys = {each.why for window in after for each in window.lost}
    killed, of_heap = "memory" in whys, "heap" in whys or any(window.out_of_heap for window in after)
    if killed and of_heap:
        code, what = "worse-out-of-memory", "executors were killed, and others ended for want of heap,"
    elif killed:
        code, what = "worse-killed", "executors were killed for want of memory beside the heap"
    else:
        code, what = "worse-out-of-heap", "executors or tasks ended for want of heap"
    return Reason(code, f"{what} after it: taken back", {"windows": windows})


def is_more_memory(action: SizeChange) -> bool:
    return action.up and action.resource in MEMORY


def _effort(
    windows: Sequence[ExecutorWindow], like: Sequence[ExecutorWindow], *, python: bool
) -> tuple[float | None, float | None]:
    """Seconds of tasks for a record, of windows at the load of those others: by the clock, which runs while somebody
    else has the core, and of cores, as far as Spark tells: not of those that Python has. `python`: also where it has
    some, as with less memory a JVM has more to do, and a Python worker ends."""
    load = average_load(like)
    alike = [window for window in windows if window.done and is_same_load(window.rate, load)]
    took = (
        [(each, each.run_seconds) for each in alike],
        [(each, each.cpu_seconds if python or not each.python else None) for each in alike],
    )
    by_clock, of_cores = (
        [seconds / (each.done * each.seconds) for each, seconds in one if seconds is not None and each.done]
        for one in took
    )
    return (statistics.median(by_clock) if by_clock else None, statistics.median(of_cores) if of_cores else None)


def average_load(windows: Sequence[ExecutorWindow]) -> float | None:
    rates = [window.rate for window in windows if window.rate is not None]
    return statistics.mean(rates) if rates else None


def is_same_load(a: float | None, b: float | None) -> bool:
    """Unknown loads are the same: nobody knows better."""
    return a is None or b is None or abs(a - b) <= SAME_LOAD * max(a, b)
