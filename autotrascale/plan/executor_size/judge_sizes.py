"""The verdict on executor sizes: the first policy that answers, unless something else explains the evidence.

Some signals look like a lack of resources and are not (Sage §3, "Correlations in resource use"):

    short of CPU          memory fills because the backlog does, while all slots compute: no memory is added
    short of heap         garbage collection uses CPU: the CPU share leaves it out
    slow service          the backlog follows its latency, or slots wait without computing: nothing is resized
    leak                  memory grows at an unchanged load: no size is right
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from autotrascale.domain.decision import Number, Reason
from autotrascale.domain.executor_window import ExecutorWindow
from autotrascale.plan.control.observations.lagged_correlation import MIN_PAIRS
from autotrascale.plan.control.observations.slow_services import MIN_SLOWDOWN
from autotrascale.plan.executor_size.heap_size import is_raise_in_vain
from autotrascale.plan.executor_size.sage_policies import (
    MEMORY_RAISES,
    ORDER,
    SLOT_POLICIES,
    is_backlog_growing,
    is_collecting,
    is_computing,
    raise_heap,
    raise_memory,
    recent_windows,
)
from autotrascale.plan.executor_size.size_evidence import ExecutorSizeRules, SizeEvidence, SizeVerdict, has_memory_death
from autotrascale.plan.formatting import format_amount, format_percent, format_seconds

# For a while a leak, a warm-up and growing state look alike.
_LEAK_WINDOWS = 6
_MIN_LEAK_CORRELATION = 0.9  # of memory with time
_MIN_LEAK_GROWTH = 0.05  # of the given memory, over these windows
_MAX_LEAK_DROP = 0.02  # of the given memory, between two windows
_SAME_LOAD = 0.25
_MAX_RAISES_OF_LEAK = 2  # they give the user time to fix the leak


def judge_sizes(rules: ExecutorSizeRules, evidence: SizeEvidence, beyond: str = "") -> SizeVerdict:
    """Return the verdict. `beyond`: skip the policies up to this one, such as "P6"."""
    if (verdict := find_slow_service(rules, evidence) or find_leak(rules, evidence)) is not None:
        return verdict
    is_buffered = is_buffering(rules, evidence)
    for policy in ORDER[int(beyond.removeprefix("P") or 0) :]:
        if (is_buffered and policy in MEMORY_RAISES) or (evidence.elastic and policy in SLOT_POLICIES):
            continue
        if (verdict := policy(rules, evidence)) is not None:
            return _limit_raises_of_leak(evidence, verdict) if policy in MEMORY_RAISES else verdict
    return SizeVerdict("none", Reason("hold-sizes-fit", _explain_fit(rules, evidence)))


def find_slow_service(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """Return a verdict if the job waits for a service, which no executor makes faster.

    A watched service counts if the backlog follows its latency. Without one, the job waits if all slots are busy, the
    backlog grows, and neither CPU, collections nor shuffles take the time. differs: a correlation takes a while to
    show, so a backlog that grows while a watched service has been slow is not answered either.
    """
    if (slow := evidence.services.find_slow_service()) is not None:
        return SizeVerdict("service", slow)
    recent = recent_windows(rules, evidence)
    if recent is None or not is_backlog_growing(rules, evidence):
        return None
    for name, latencies in evidence.services.latency.items():
        usual, now = statistics.median(latencies), latencies[-rules.recent :]
        if len(latencies) >= MIN_PAIRS and min(now) >= MIN_SLOWDOWN * usual:
            text = (
                f"No change: the backlog grows while {name} takes {format_seconds(now[-1])}, "
                f"usually {format_seconds(usual)}."
            )
            return SizeVerdict("service", Reason("hold-service", text, {"service": name, "latency": now[-1]}))
    if any(window.python for window in recent):
        return None
    for window in recent:
        idle = window.idle_share
        if idle is None or window.busy is None or window.busy < rules.busy_most or idle < 1 - rules.waiting:
            return None
    idle = statistics.mean(window.idle_share or 0.0 for window in recent)
    text = (
        f"No change: all slots are busy, but tasks wait for {format_percent(idle)} of their time without CPU or "
        "garbage collection. They wait for a service, or for cores of overloaded machines."
    )
    return SizeVerdict("service", Reason("hold-waits", text, {"waiting": idle}))


def find_leak(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """Return a verdict if memory grows at an unchanged load, faster than state grows.

    The heap after full collections counts, and the memory of Python workers. A leak fills any size. The memory is
    raised twice anyway once it is short.
    """
    collected = [window for window in evidence.windows if window.full_collections]  # young collections keep old objects
    kinds: tuple[tuple[str, int, Sequence[ExecutorWindow], Callable[[ExecutorWindow], float | None]], ...] = (
        ("The heap after full collections", evidence.sizes.heap_mb, collected, _heap_without_state),
        ("Memory of Python workers", evidence.sizes.overhead_mb, evidence.windows, lambda window: window.python_mb),
    )
    for what, given_mb, all_windows, measure in kinds:
        windows = all_windows[-_LEAK_WINDOWS:]
        series = [each for each in map(measure, windows) if each is not None]
        if len(series) < _LEAK_WINDOWS or not _is_same_load(windows):
            continue
        if series[-1] - series[0] < max(_MIN_LEAK_GROWTH * given_mb, 1.0):
            continue
        if _correlate_with_time(series) < _MIN_LEAK_CORRELATION:
            continue
        if any(b < a - _MAX_LEAK_DROP * given_mb for a, b in pairwise(series)):
            continue
        return _judge_leak(rules, evidence, what, series, windows[-1].began - windows[0].began)
    return None


def _judge_leak(
    rules: ExecutorSizeRules, evidence: SizeEvidence, what: str, series: Sequence[float], seconds: float
) -> SizeVerdict:
    mb_an_hour = (series[-1] - series[0]) / seconds * 3600
    growth = (
        f"from {format_amount(series[0])} to {format_amount(series[-1])} MB, {format_amount(mb_an_hour)} MB an hour"
    )
    text = f"{what} grew {growth}, at an unchanged load: a leak."
    numbers: dict[str, Number] = {"from_mb": series[0], "to_mb": series[-1], "mb_an_hour": mb_an_hour}
    raised = raise_heap(rules, evidence) or raise_memory(rules, evidence)
    if raised is None or evidence.raised >= _MAX_RAISES_OF_LEAK:
        return SizeVerdict("leak", Reason("hold-leak", f"No change: no size is right. {text}", numbers))
    reason = Reason("sizes-leak", f"{text} More memory gives time to fix it.", numbers)
    return SizeVerdict("leak", reason, raised.policy, raised.resource, raised.wanted)


def _limit_raises_of_leak(evidence: SizeEvidence, verdict: SizeVerdict) -> SizeVerdict:
    """Limit raises after a leak was found: the end of a leaking executor hides the growth for some windows."""
    if not evidence.leaked:
        return verdict
    if evidence.raised < _MAX_RAISES_OF_LEAK:
        return replace(verdict, fault="leak")
    text = f"{verdict.reason.text} But it leaked before and was raised {evidence.raised} times: no size is right."
    return SizeVerdict("leak", Reason("hold-leak", text, verdict.reason.numbers))


def is_buffering(rules: ExecutorSizeRules, evidence: SizeEvidence) -> bool:
    """Return whether memory fills because the backlog does, while all slots compute, and nothing died of it."""
    recent = recent_windows(rules, evidence)
    if recent is None or any(map(has_memory_death, recent)) or not is_backlog_growing(rules, evidence):
        return False
    if not is_computing(rules, recent) or any((window.gc_share or 0.0) >= rules.gc_most for window in recent):
        return False
    used = [window.memory_mb for window in recent]
    return None not in used and (used[-1] or 0.0) > (used[0] or 0.0)


def _heap_without_state(window: ExecutorWindow) -> float | None:
    """Return the live heap in MB without state, whose growth is no leak. State may also lie outside the heap."""
    if window.heap_least_mb is None:
        return None
    return max(0.0, window.heap_least_mb - (window.state_mb or 0.0) / window.sizes.executors)


def _is_same_load(windows: Sequence[ExecutorWindow]) -> bool:
    """Return whether the second half of the windows has about the load of the first half, or less."""
    half = len(windows) // 2
    first, second = ([w.rate for w in part if w.rate is not None] for part in (windows[:half], windows[half:]))
    if not first or not second:
        return False
    return statistics.mean(second) <= (1 + _SAME_LOAD) * statistics.mean(first)


def _correlate_with_time(series: Sequence[float]) -> float:
    return statistics.correlation(range(len(series)), series) if len(set(series)) > 1 else 0.0


def _explain_fit(rules: ExecutorSizeRules, evidence: SizeEvidence) -> str:
    recent = recent_windows(rules, evidence)
    if recent is not None and is_collecting(rules, recent) and is_raise_in_vain(rules, evidence):
        share = statistics.mean(window.gc_share or 0.0 for window in recent)
        return (
            f"No change: collections take {format_percent(share)} of the tasks' time, as before the heap was raised. "
            "A larger heap would not help."
        )
    if evidence.peaks.seconds < rules.evidence_seconds:
        seen, needed = evidence.peaks.seconds / 3600, rules.evidence_seconds / 3600
        return (
            f"No change: nothing is short. {format_amount(seen)} of {format_amount(needed)} hours were observed that "
            "giving something back requires."
        )
    return "No change: nothing is short, and nothing worth a restart can be given back."
