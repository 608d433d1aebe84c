"""The policies P1 to P8 for executor sizes, in Sage's order (Singh et al., "Auto-sizing for Stream Processing
Applications at LinkedIn", HotCloud 2020, §4 and Table 1).

| paper                            | signal          | here                                                         |
|----------------------------------|-----------------|--------------------------------------------------------------|
| P1 heap-allocation scale-up      | heap used, GC   | `raise_heap`: GC share, fill of the heap, ends for lack of heap |
| P2 memory scale-up               | memory used     | `raise_memory`: resident memory of the process tree, kills    |
| P3 CPU scale-up                  | CPU used        | `raise_cpu`: busy slots whose time is CPU time                |
| P4 parallelism scale-up          | backlog         | `raise_parallelism`: a growing backlog                        |
| P5 parallelism scale-down        | backlog         | `lower_parallelism`: busy slots, and no growing backlog       |
| P6 heap-allocation scale-down    | heap committed  | `lower_heap`: touched part of the heap                        |
| P7 memory scale-down             | memory used     | `lower_memory`: memory outside the heap                       |
| P8 CPU scale-down                | CPU used        | `lower_cpu`: busy slots                                       |

    symbol   meaning                                                                    unit
    W        windows since the sizes last changed, oldest first; the last n are recent
    g        share of the tasks' time in which their JVM collected garbage              [0, 1]
    h, o     touched heap, memory outside the heap; H, B the sizes given to each         MB
    L        live heap: the minimum of the used heap                                    MB
    m, M     resident memory of an executor; H + B                                      MB
    u        share of the slots' time in which a task ran                               [0, 1]
    c        share of the tasks' time without g in which a core computed for them       [0, 1]
    f        factor of one step up: resources grow multiplicatively (§5)
    s        margin over the peak: nothing is given back below s · max over W

"It can rely on the policies above it in the priority order to hold": each policy is one function of the evidence, and
`judge_sizes.py` takes the first answer.

differs: the paper's scale-downs look at the same window as its scale-ups. Here they look at all of W, by default a day,
so that memory is not given back at night and missing at noon. P6 and P7 form one change (`size_step.py`), while the
paper takes one policy at a time: on Spark each change is a relaunch, and both policies use the same peaks.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise

from autotrascale.domain.decision import Number, Reason
from autotrascale.domain.executor_window import ExecutorWindow
from autotrascale.plan.executor_size.heap_size import choose_heap, is_raise_in_vain
from autotrascale.plan.executor_size.size_evidence import ExecutorSizeRules, SizeEvidence, SizeVerdict, has_memory_death
from autotrascale.plan.formatting import format_amount, format_percent

SizePolicy = Callable[[ExecutorSizeRules, SizeEvidence], SizeVerdict | None]
_MIN_BACKLOG_GROWTH = 1.15  # last over first peak of the recent windows, at an equal rate


def raise_heap(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """P1. "Ensuring upper bounds on heap-utilization, GC time, and frequency."

    A JVM fills its heap before it collects, so a full heap alone says nothing. differs: the paper raises the heap as
    long as its bound on the time is exceeded. Here a raise that was in vain is not followed by another, and near the
    bound the heap is raised by little (`heap_size.py`).
    """
    now, last = evidence.sizes.heap_mb, evidence.last
    wanted = math.ceil(rules.factor * now)
    deaths = sum(each.reason == "heap" for each in last.lost) + last.out_of_heap
    if deaths:
        text = f"Heap {_change_mb(now, wanted)}: {deaths} executors or tasks ran out of heap."
        numbers: dict[str, Number] = {"heap_mb": now, "wanted_mb": wanted, "ended": deaths}
        return SizeVerdict("heap", Reason("P1-out-of-heap", text, numbers), "P1", "heap", wanted)
    recent = recent_windows(rules, evidence)
    if recent is None or not is_collecting(rules, recent) or is_raise_in_vain(rules, evidence):
        return None
    share = statistics.mean(window.gc_share or 0.0 for window in recent)
    wanted = choose_heap(rules, evidence)
    fill = max(_heap_fill(window) for window in recent)
    text = (
        f"Heap {_change_mb(now, wanted)}: garbage collection stops tasks for {format_percent(share)} of their time"
        f"{_count_collections(recent)}. The heap is {format_percent(fill)} full."
    )
    numbers = {"heap_mb": now, "wanted_mb": wanted, "gc_share": share}
    return SizeVerdict("heap", Reason("P1-heap", text, numbers), "P1", "heap", wanted)


def raise_memory(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """P2. Make the overhead as large as its use.

    A killed executor was stopped before it had all the memory it wanted: one step more, and two steps if executors were
    killed right after an earlier step. P7 gives unused memory back. A full heap is normal, since it never grows beyond
    its size; the memory outside runs over.
    """
    sizes, last = evidence.sizes, evidence.last
    killed = sum(each.reason == "memory" for each in last.lost)
    recent = recent_windows(rules, evidence)
    is_full = recent is not None and all(_runs_over(rules, window) for window in recent)
    if not sizes.overhead_mb or not (killed or is_full):
        return None
    latest = evidence.windows[-rules.recent :]
    used = max((window.memory_mb or 0.0 for window in latest), default=0.0)
    outside = max(used - sizes.heap_mb, *(window.outside_mb or 0.0 for window in latest))
    has_died_at_once = any(map(has_memory_death, evidence.windows[: rules.recent]))
    steps = 2 if evidence.raised and has_died_at_once else 1
    least = rules.factor**steps if killed else 1 + 2 * rules.worth
    wanted = math.ceil(max(rules.margin * outside, least * sizes.overhead_mb))
    wanted = min(wanted, math.ceil(rules.factor**2 * sizes.overhead_mb))
    memory = f"{format_amount(sizes.memory_mb)} MB per executor"
    cause = (
        f"{killed} executors were killed with {memory}" if killed else f"{format_amount(used)} MB of {memory} are used"
    )
    text = f"Overhead {_change_mb(sizes.overhead_mb, wanted)}: {cause}."
    numbers: dict[str, Number] = {
        "memory_mb": used,
        "overhead_mb": sizes.overhead_mb,
        "wanted_mb": wanted,
        "killed": killed,
    }
    return SizeVerdict("memory", Reason("P2-memory", text, numbers), "P2", "overhead", wanted)


def raise_cpu(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """P3. All slots are busy, their tasks compute, and the backlog grows.

    More cores of an executor share its memory. If its memory is full, more executors of the same size are wanted.
    """
    recent, sizes = recent_windows(rules, evidence), evidence.sizes
    if recent is None or not is_backlog_growing(rules, evidence) or not is_computing(rules, recent):
        return None
    wanted = max(sizes.cores + 1, math.floor(sizes.cores * min(rules.factor, _speed_up_needed(rules, recent))))
    share = statistics.mean(window.cpu_share or 0.0 for window in recent)
    busy = statistics.mean(window.busy or 0.0 for window in recent)
    cause = (
        f"the backlog grows, slots are busy {format_percent(min(1.0, busy))} of the time, "
        f"and tasks compute for {format_percent(share)} of it"
    )
    numbers: dict[str, Number] = {"busy": busy, "cpu_share": share, "cores": sizes.cores}
    if _memory_fill(rules, evidence) * wanted / sizes.cores <= 1:
        text = f"{sizes.cores} → {wanted} cores per executor: {cause}."
        return SizeVerdict("cpu", Reason("P3-cpu", text, {**numbers, "wanted": wanted}), "P3", "cores", wanted)
    more = math.ceil(sizes.executors * min(rules.factor, wanted / sizes.cores))
    more = max(sizes.executors + 1, more)
    text = f"{sizes.executors} → {more} executors: {cause}. Their memory is too full for more cores."
    return SizeVerdict("cpu", Reason("P3-cpu", text, {**numbers, "wanted": more}), "P3", "executors", more)


def raise_parallelism(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """P4. "Monitors for monotonic increases in a sliding window of backlog values."

    Neither memory nor CPU is short, or an earlier policy would have answered. Idle slots do not help: tasks are too few
    or uneven.
    """
    recent, now = recent_windows(rules, evidence), evidence.sizes.executors
    if recent is None or not is_backlog_growing(rules, evidence):
        return None
    behind = evidence.last.behind[-1]
    busy = statistics.mean(window.busy or 0.0 for window in recent)
    if busy < rules.busy_little:
        text = (
            f"No more executors: the backlog of {format_amount(behind)} records grows, but slots are busy only "
            f"{format_percent(busy)} of the time. Look for a hot key, too few partitions, or a slow driver."
        )
        return SizeVerdict("idle-slots", Reason("hold-idle-slots", text, {"behind": behind, "busy": busy}))
    wanted = max(now + 1, math.ceil(now * min(rules.factor, _speed_up_needed(rules, recent))))
    text = f"{now} → {wanted} executors: the backlog of {format_amount(behind)} records grows."
    numbers: dict[str, Number] = {"behind": behind, "busy": busy, "executors": now, "wanted": wanted}
    return SizeVerdict("parallelism", Reason("P4-parallelism", text, numbers), "P4", "executors", wanted)


def lower_parallelism(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """P5. Give executors back in one step, as far as the memory of the remaining executors is enough.

    Each remaining executor gets more of the load and of the state.
    """
    now, busy = evidence.sizes.executors, _max_busy(rules, evidence)
    if busy is None or now == 1:
        return None
    wanted = max(1, math.ceil(now * max(busy / rules.busy_aim, _memory_fill(rules, evidence))))
    if wanted > (1 - rules.worth) * now:
        return None
    text = f"{now} → {wanted} executors: slots are busy at most {format_percent(busy)} of the time."
    numbers: dict[str, Number] = {"busy": busy, "executors": now, "wanted": wanted}
    return SizeVerdict("too-much", Reason("P5-parallelism", text, numbers), "P5", "executors", wanted)


def lower_heap(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """P6. "By bounding the heap-allocation using heap-committed": the touched heap stays, with a margin.

    If memory outside the heap used room of the heap, that room stays, too. A JVM collects young objects however large
    its heap is. If collections took long, the heap stays large enough that P1 does not call it full at once.
    """
    now, peaks = evidence.sizes.heap_mb, evidence.peaks
    touched, outside, share = peaks.heap_touched_mb, peaks.outside_mb, peaks.gc_share
    if not _is_calm(rules, evidence) or not peaks.memory_known or share is None:
        return None
    margin = rules.margin if share <= rules.gc_little else rules.margin / rules.heap_full
    wanted = math.ceil(max(margin * touched, rules.margin * (touched + outside) - evidence.sizes.overhead_mb))
    if wanted > (1 - rules.worth) * now:
        return None
    text = f"Heap {_change_mb(now, wanted)}: at most {format_amount(touched)} MB were touched."
    numbers: dict[str, Number] = {"heap_touched_mb": touched, "heap_mb": now, "wanted_mb": wanted}
    return SizeVerdict("too-much", Reason("P6-heap", text, numbers), "P6", "heap", wanted)


def lower_memory(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """P7. "A likely resident size, assuming the heap-committed is a part of the application's resident set."

    The whole heap may be resident one day, so the overhead must have room beside all of it.
    """
    sizes, peaks = evidence.sizes, evidence.peaks
    if not _is_calm(rules, evidence) or not sizes.overhead_mb or not peaks.memory_known:
        return None
    used = max(peaks.outside_mb, peaks.memory_mb - sizes.heap_mb)
    wanted = math.ceil(rules.margin * used)
    if wanted > (1 - rules.worth) * sizes.overhead_mb:
        return None
    text = f"Overhead {_change_mb(sizes.overhead_mb, wanted)}: at most {format_amount(used)} MB were used."
    numbers: dict[str, Number] = {"outside_mb": used, "overhead_mb": sizes.overhead_mb, "wanted_mb": wanted}
    return SizeVerdict("too-much", Reason("P7-memory", text, numbers), "P7", "overhead", wanted)


def lower_cpu(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """P8. Fewer cores are fewer slots, as with P5, if there is one executor."""
    now, busy = evidence.sizes.cores, _max_busy(rules, evidence)
    if busy is None or now == 1:
        return None
    wanted = max(1, math.ceil(now * busy / rules.busy_aim))
    if wanted > (1 - rules.worth) * now:
        return None
    text = f"{now} → {wanted} cores per executor: slots are busy at most {format_percent(busy)} of the time."
    numbers: dict[str, Number] = {"busy": busy, "cores": now, "wanted": wanted}
    return SizeVerdict("too-much", Reason("P8-cpu", text, numbers), "P8", "cores", wanted)


ORDER: tuple[SizePolicy, ...] = (
    raise_heap,
    raise_memory,
    raise_cpu,
    raise_parallelism,
    lower_parallelism,
    lower_heap,
    lower_memory,
    lower_cpu,
)
"""Table 1, by priority."""
MEMORY_RAISES = (raise_heap, raise_memory)
SLOT_POLICIES = (raise_cpu, raise_parallelism, lower_parallelism, lower_cpu)


# --- signals ----------------------------------------------------------------------------------------------------------


def recent_windows(rules: ExecutorSizeRules, evidence: SizeEvidence) -> tuple[ExecutorWindow, ...] | None:
    windows = evidence.windows[-rules.recent :]
    return windows if len(windows) == rules.recent else None


def is_backlog_growing(rules: ExecutorSizeRules, evidence: SizeEvidence) -> bool:
    """Return whether the peak backlog rose in each recent window, by more than noise and by more than the rate.

    A job that keeps up has more records waiting when more arrive.
    """
    recent = recent_windows(rules, evidence)
    if recent is None or not all(window.behind for window in recent):
        return False
    peaks = [max(window.behind) for window in recent]
    first, last = recent[0].rate, recent[-1].rate
    rate_growth = max(1.0, last / first) if first and last else 1.0
    return all(b > a for a, b in pairwise(peaks)) and peaks[-1] >= _MIN_BACKLOG_GROWTH * rate_growth * peaks[0]


def is_collecting(rules: ExecutorSizeRules, windows: Sequence[ExecutorWindow]) -> bool:
    """Return whether collections take too long in a full heap, in every window."""
    return all(
        window.gc_share is not None and window.gc_share >= rules.gc_most and _heap_fill(window) >= rules.heap_full
        for window in windows
    )


def is_computing(rules: ExecutorSizeRules, recent: Sequence[ExecutorWindow]) -> bool:
    """Return whether slots are busy and tasks compute, on average: a batch that ends in a window began in another.

    The CPU time of Python workers is unknown, so their windows do not count as computing.
    """
    known = [(window.busy, window.cpu_share) for window in recent if window.busy is not None and not window.python]
    shares = [share for _, share in known if share is not None]
    if len(shares) < len(recent):
        return False
    busy = statistics.mean(each for each, _ in known)
    return busy >= rules.busy_most and statistics.mean(shares) >= rules.computing


def _count_collections(windows: Sequence[ExecutorWindow]) -> str:
    """Return ` (12 collections)`, or "" if a window did not count them."""
    counted = [(window.young_collections, window.full_collections) for window in windows]
    if any(None in each for each in counted):
        return ""
    return f" ({sum((young or 0) + (full or 0) for young, full in counted):,} collections)"


def _runs_over(rules: ExecutorSizeRules, window: ExecutorWindow) -> bool:
    if window.memory_mb is None or window.outside_mb is None:
        return False
    sizes = window.sizes
    return (
        window.memory_mb >= rules.memory_full * sizes.memory_mb
        and window.outside_mb >= rules.memory_full * sizes.overhead_mb
    )


def _heap_fill(window: ExecutorWindow) -> float:
    """Return the fill of the heap; 1 if it is unknown, since the collections show that it is full."""
    return 1.0 if window.heap_used_mb is None else min(1.0, window.heap_used_mb / window.sizes.heap_mb)


def _speed_up_needed(rules: ExecutorSizeRules, recent: Sequence[ExecutorWindow]) -> float:
    """Return the largest ratio of arriving to processed records, or one step if it is unknown."""
    rates = [(window.rate, window.done) for window in recent if window.rate and window.done]
    return max((rate / done for rate, done in rates if rate and done), default=rules.factor)


def _max_busy(rules: ExecutorSizeRules, evidence: SizeEvidence) -> float | None:
    """Return the largest busy share of any window, or None unless all windows are calm."""
    if not _is_calm(rules, evidence) or is_backlog_growing(rules, evidence):
        return None
    return evidence.peaks.busy


def _memory_fill(rules: ExecutorSizeRules, evidence: SizeEvidence) -> float:
    """Return the larger used share of heap and overhead, with the margin; 1 if it is unknown."""
    sizes, peaks = evidence.sizes, evidence.peaks
    if not peaks.memory_known:
        return 1.0
    overhead = peaks.outside_mb / sizes.overhead_mb if sizes.overhead_mb else 0.0
    return rules.margin * max(peaks.heap_touched_mb / sizes.heap_mb, overhead)


def _is_calm(rules: ExecutorSizeRules, evidence: SizeEvidence) -> bool:
    """Return whether the evidence is long enough and nothing ended for lack of memory."""
    return evidence.peaks.seconds >= rules.evidence_seconds and not evidence.peaks.died


def _change_mb(before: float, after: float) -> str:
    return f"{format_amount(before)} → {format_amount(after)} MB"
