"""Which size is wrong, and what it should be: Sage's policies in Sage's order (Singh et al., "Auto-sizing for Stream
Processing Applications at LinkedIn", HotCloud 2020, §4 and Table 1).

| paper                            | goes by         | here                                                         |
|----------------------------------|-----------------|--------------------------------------------------------------|
| P1 heap-allocation scale-up      | heap used, GC   | `heap_up`: GC share, the heap's fill, ends for want of heap  |
| P2 memory scale-up               | memory used     | `memory_up`: resident memory of the process tree, kills      |
| P3 CPU scale-up                  | CPU used        | `cpu_up`: busy slots whose time is CPU time                  |
| P4 parallelism scale-up          | backlog         | `parallelism_up`: a backlog that only grows                  |
| P5 parallelism scale-down        | backlog         | `parallelism_down`: busy slots, and no backlog               |
| P6 heap-allocation scale-down    | heap committed  | `heap_down`: the heap that was touched                       |
| P7 memory scale-down             | memory used     | `memory_down`: memory outside the heap                       |
| P8 CPU scale-down                | CPU used        | `cpu_down`: busy slots                                       |

    symbol   meaning                                                                    unit
    W        windows since the sizes last changed, oldest first; the last n are recent
    g        share of the tasks' time in which their JVM collected garbage              [0, 1]
    h, o     heap touched, memory outside the heap; H, B what was given of each         MB
    L        heap that lives: the least that was seen of it in use                      MB
    m, M     resident memory of an executor; H + B                                      MB
    u        share of the slots' time in which a task ran                               [0, 1]
    c        share of the tasks' time, less g, in which a core computed for them        [0, 1]
    f        factor of one step up: resources grow multiplicatively (§5)
    s        margin over what was used: nothing is given back below s · max over W

"It can rely on the policies above it in the priority order to hold": each policy is one function of what was seen, and
the first that answers is taken. Before them stands what looks like a lack and is none (§3, "Correlations in resource
use"): a job that waits for a service is not resized, one that leaks has no right size.

    short of CPU buffers more   memory that fills while all slots compute and the backlog grows with it is a symptom
    short of heap burns CPU     c leaves out the time of collections, so that they do not look like a lack of cores
    waits for a service         backlog after latency at a lag (`looks/lagged.py`), else slots that wait and compute not

differs: the paper's scale-downs look at the same window as its scale-ups. Here they look at all of W, a day by default,
so that what is given back at night is not missed at noon. And what P6 and P7 would give back is one action
(`steps.py`), where the paper takes one policy at a time: on Spark each change is a relaunch, in which the program
stands still, and both go by the same peaks.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from autotrascale.domain.decision import Number, Reason
from autotrascale.domain.executor_window import ExecutorWindow
from autotrascale.plan.control.observations.lagged_correlation import MIN_PAIRS
from autotrascale.plan.control.observations.slow_services import MIN_SLOWDOWN
from autotrascale.plan.executor_size.heap_size import choose_heap, is_raise_in_vain
from autotrascale.plan.executor_size.size_evidence import ExecutorSizeRules, SizeEvidence, SizeVerdict, has_memory_death
from autotrascale.plan.formatting import format_amount, format_percent, format_seconds

Policy = Callable[[ExecutorSizeRules, SizeEvidence], SizeVerdict | None]
# A leak, a warm-up and a state that fills look alike for a while.
_LEAK_WINDOWS = 6
_LEAK_CORRELATION = 0.9
_LEAK_GROWTH = 0.05  # of the memory there is, over these windows
_SAME_LOAD = 0.25
_GROWN = 1.15
_RAISES_OF_A_LEAK = 2  # buy time for whoever mends it


def judge_sizes(rules: ExecutorSizeRules, evidence: SizeEvidence, beyond: str = "") -> SizeVerdict:
    """The first policy that has something to say, as long as nothing else explains what is seen; `beyond` one of them,
    the first of those after it."""
    if (found := service(rules, evidence) or leak(rules, evidence)) is not None:
        return found
    buffered = buffering(rules, evidence)
    for policy in ORDER[int(beyond.removeprefix("P") or 0) :]:
        if (buffered and policy in MEMORY_UP) or (evidence.elastic and policy in SLOTS):
            continue
        if (found := policy(rules, evidence)) is not None:
            return _leaked(evidence, found) if policy in MEMORY_UP else found
    return SizeVerdict("none", Reason("hold-sizes-fit", _fit(rules, evidence)))


def service(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """Neither more executors nor larger ones make a service faster. Where nobody named one: all slots are taken, the
    backlog grows, and no core, collection or shuffle is what takes the time. differs: a correlation takes a while to
    show, so a backlog that grows while a named service has been slow for as long is not answered either."""
    if (slow := evidence.services.slow()) is not None:
        return SizeVerdict("service", slow)
    recent = _recent(rules, evidence)
    if recent is None or not grows(rules, evidence):
        return None
    for name, latencies in evidence.services.latency.items():
        usual, now = statistics.median(latencies), latencies[-rules.recent :]
        if len(latencies) >= MIN_PAIRS and min(now) >= MIN_SLOWDOWN * usual:
            text = (
                f"the backlog grows while {name} takes {format_seconds(now[-1])}, and {format_seconds(usual)} as a rule"
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
        f"tasks neither compute nor collect garbage for {format_percent(idle)} of their time, on slots that are all taken:"
        " they wait for a service, or for cores of machines that have too few"
    )
    return SizeVerdict("service", Reason("hold-waits", text, {"waiting": idle}))


def leak(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """What stays after collections, or Python's memory, only grows, at an unchanged load and beyond what state grew:
    any size is full one day. Twice it is raised all the same, once it presses."""
    collected = [window for window in evidence.windows if window.full_collections]  # young ones leave what is old
    for what, has, windows, series in (
        ("the heap after full collections", evidence.sizes.heap_mb, collected, _less_state),
        (
            "memory of Python workers",
            evidence.sizes.overhead_mb,
            list(evidence.windows),
            lambda window: window.python_mb,
        ),
    ):
        windows = windows[-_LEAK_WINDOWS:]
        known = [each for each in map(series, windows) if each is not None]
        if len(known) < _LEAK_WINDOWS or not _same_load(windows) or known[-1] - known[0] < max(_LEAK_GROWTH * has, 1.0):
            continue
        if _with_time(known) < _LEAK_CORRELATION or any(b < a - 0.02 * has for a, b in pairwise(known)):
            continue
        return _leaking(rules, evidence, what, known, windows[-1].began - windows[0].began)
    return None


def _leaking(
    rules: ExecutorSizeRules, evidence: SizeEvidence, what: str, series: Sequence[float], over: float
) -> SizeVerdict:
    hour = (series[-1] - series[0]) / over * 3600
    grew = f"from {format_amount(series[0])} to {format_amount(series[-1])} MB"
    text = f"{what} grew {grew} at an unchanged load, {format_amount(hour)} MB an hour"
    numbers: dict[str, Number] = {"from_mb": series[0], "to_mb": series[-1], "mb_an_hour": hour}
    pressed = heap_up(rules, evidence) or memory_up(rules, evidence)
    if pressed is None or evidence.raised >= _RAISES_OF_A_LEAK:
        return SizeVerdict("leak", Reason("hold-leak", f"{text}: a leak, for which no size is right", numbers))
    reason = Reason("sizes-leak", f"{text}: a leak; more memory gives time to mend it", numbers)
    return SizeVerdict("leak", reason, pressed.policy, pressed.resource, pressed.wanted)


def _leaked(evidence: SizeEvidence, found: SizeVerdict) -> SizeVerdict:
    """What ends an executor that leaks makes it small again: for some windows nothing grows."""
    if not evidence.leaked:
        return found
    if evidence.raised < _RAISES_OF_A_LEAK:
        return replace(found, fault="leak")
    text = f"{found.reason.text}; but it leaked before, and has been raised {evidence.raised} times: no size is right"
    return SizeVerdict("leak", Reason("hold-leak", text, found.reason.numbers))


def buffering(rules: ExecutorSizeRules, evidence: SizeEvidence) -> bool:
    """Short of CPU: memory fills because the backlog does, while all slots compute. Nobody has died of it."""
    recent = _recent(rules, evidence)
    if recent is None or any(map(has_memory_death, recent)) or not grows(rules, evidence):
        return False
    if not _computes(rules, recent) or any((window.gc_share or 0.0) >= rules.gc_most for window in recent):
        return False
    used = [window.memory_mb for window in recent]
    return None not in used and (used[-1] or 0.0) > (used[0] or 0.0)


def heap_up(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """P1. "Ensuring upper bounds on heap-utilization, GC time, and frequency." A JVM fills its heap before it collects,
    so that a full heap alone says nothing. differs: the paper raises as long as its bound on the time is not held; here
    it is not raised again where the last time took nothing off, and by little where it is near (`heap.py`)."""
    now, last = evidence.sizes.heap_mb, evidence.last
    wanted = math.ceil(rules.factor * now)
    dead = sum(each.why == "heap" for each in last.lost) + last.out_of_heap
    if dead:
        text = f"{dead} executors or tasks ended for want of heap: {format_amount(now)} → {format_amount(wanted)} MB"
        numbers: dict[str, Number] = {"heap_mb": now, "wanted_mb": wanted, "ended": dead}
        return SizeVerdict("heap", Reason("P1-out-of-heap", text, numbers), "P1", "heap", wanted)
    recent = _recent(rules, evidence)
    if recent is None or not all(_collects(rules, window) for window in recent) or is_raise_in_vain(rules, evidence):
        return None
    share = statistics.mean(window.gc_share or 0.0 for window in recent)
    wanted = choose_heap(rules, evidence)
    text = (
        f"tasks stand still for {format_percent(share)} of their time while garbage is collected{_how_often(recent)}, in a"
        f" heap that is full to {format_percent(max(_fill(window) for window in recent))}: {format_amount(now)} → {format_amount(wanted)} MB"
    )
    numbers = {"heap_mb": now, "wanted_mb": wanted, "gc_share": share}
    return SizeVerdict("heap", Reason("P1-heap", text, numbers), "P1", "heap", wanted)


def memory_up(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """P2. Memory beside the heap is made as large as what was seen of it; an executor that was killed was stopped
    before it had all it wanted: one step more, and two where others were killed right after an earlier step, as P7
    gives back what is unused. A heap may be full, as it never grows beyond itself: what is outside runs over."""
    sizes, last = evidence.sizes, evidence.last
    killed = sum(each.why == "memory" for each in last.lost)
    recent = _recent(rules, evidence)
    full = recent is not None and all(_runs_over(rules, window) for window in recent)
    if not sizes.overhead_mb or not (killed or full):
        return None
    seen = evidence.windows[-rules.recent :]
    used = max((window.memory_mb or 0.0 for window in seen), default=0.0)
    outside = max(used - sizes.heap_mb, *(window.outside_mb or 0.0 for window in seen))
    steps = 2 if evidence.raised and any(map(has_memory_death, evidence.windows[: rules.recent])) else 1
    least = rules.factor**steps if killed else 1 + 2 * rules.worth
    wanted = math.ceil(max(rules.margin * outside, least * sizes.overhead_mb))
    wanted = min(wanted, math.ceil(rules.factor**2 * sizes.overhead_mb))
    dead = "an executor was" if killed == 1 else f"{killed} executors were"
    why = f"{dead} killed for want of memory" if killed else f"executors use {format_amount(used)} MB"
    text = (
        f"{why}, of {format_amount(sizes.memory_mb)} MB with heap and all: beside the heap"
        f" {format_amount(sizes.overhead_mb)} → {format_amount(wanted)} MB"
    )
    numbers: dict[str, Number] = {
        "memory_mb": used,
        "overhead_mb": sizes.overhead_mb,
        "wanted_mb": wanted,
        "killed": killed,
    }
    return SizeVerdict("memory", Reason("P2-memory", text, numbers), "P2", "beside", wanted)


def cpu_up(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """P3. All slots are taken, what runs on them computes, and the backlog grows. More cores in an executor share its
    memory: where that is full, as many slots are made of more executors like those that there are."""
    recent, sizes = _recent(rules, evidence), evidence.sizes
    if recent is None or not grows(rules, evidence) or not _computes(rules, recent):
        return None
    wanted = max(sizes.cores + 1, math.floor(sizes.cores * min(rules.factor, _behind_by(rules, recent))))
    share = statistics.mean(window.cpu_share or 0.0 for window in recent)
    busy = statistics.mean(window.busy or 0.0 for window in recent)
    why = (
        f"slots are busy for {format_percent(min(1.0, busy))} of the time, compute for {format_percent(share)} of that, and the"
        " backlog grows"
    )
    numbers: dict[str, Number] = {"busy": busy, "cpu_share": share, "cores": sizes.cores}
    if _memory_filled(rules, evidence) * wanted / sizes.cores <= 1:
        text = f"{why}: {sizes.cores} → {wanted} cores an executor"
        return SizeVerdict("cpu", Reason("P3-cpu", text, {**numbers, "wanted": wanted}), "P3", "cores", wanted)
    more = math.ceil(sizes.executors * min(rules.factor, wanted / sizes.cores))
    more = max(sizes.executors + 1, more)
    text = f"{why}; their memory has no room for more tasks: {sizes.executors} → {more} executors"
    return SizeVerdict("cpu", Reason("P3-cpu", text, {**numbers, "wanted": more}), "P3", "executors", more)


def parallelism_up(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """P4. "Monitors for monotonic increases in a sliding window of backlog values": neither memory nor CPU is short, or
    a policy above would have answered. Idle slots are no lack of them: tasks are too few, or uneven."""
    recent, now = _recent(rules, evidence), evidence.sizes.executors
    if recent is None or not grows(rules, evidence):
        return None
    behind = evidence.last.behind[-1]
    busy = statistics.mean(window.busy or 0.0 for window in recent)
    if busy < rules.busy_little:
        text = (
            f"{format_amount(behind)} records wait and more come, while slots are busy for {format_percent(busy)} of the time: more"
            " of them would idle too; look for a hot key, too few partitions, or a slow driver"
        )
        return SizeVerdict("idle-slots", Reason("hold-idle-slots", text, {"behind": behind, "busy": busy}))
    wanted = max(now + 1, math.ceil(now * min(rules.factor, _behind_by(rules, recent))))
    text = f"{format_amount(behind)} records wait and ever more come: {now} → {wanted} executors"
    numbers: dict[str, Number] = {"behind": behind, "busy": busy, "executors": now, "wanted": wanted}
    return SizeVerdict("parallelism", Reason("P4-parallelism", text, numbers), "P4", "executors", wanted)


def parallelism_down(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """P5. In one step and not by and by. Fewer executors have more of the load and the state each: only as far as the
    memory that each of them has is enough for that too."""
    now, busy = evidence.sizes.executors, _busiest(rules, evidence)
    if busy is None or now == 1:
        return None
    wanted = max(1, math.ceil(now * max(busy / rules.busy_aim, _memory_filled(rules, evidence))))
    if wanted > (1 - rules.worth) * now:
        return None
    text = f"slots are busy for {format_percent(busy)} of the time at most: {now} → {wanted} executors"
    numbers: dict[str, Number] = {"busy": busy, "executors": now, "wanted": wanted}
    return SizeVerdict("too-much", Reason("P5-parallelism", text, numbers), "P5", "executors", wanted)


def heap_down(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """P6. "By bounding the heap-allocation using heap-committed": what was touched stays, with a margin. Where what is
    outside has taken room of the heap's, that stays too. A JVM collects young objects however large its heap is; where
    it did so for long, so much is left that P1 does not call it full at once."""
    now, peaks = evidence.sizes.heap_mb, evidence.peaks
    most, outside, share = peaks.heap_touched_mb, peaks.outside_mb, peaks.gc_share
    if not _calm(rules, evidence) or not peaks.memory_known or share is None:
        return None
    room = rules.margin if share <= rules.gc_little else rules.margin / rules.heap_full
    wanted = math.ceil(max(room * most, rules.margin * (most + outside) - evidence.sizes.overhead_mb))
    if wanted > (1 - rules.worth) * now:
        return None
    text = f"{format_amount(most)} MB of a heap of {format_amount(now)} MB were ever touched: {format_amount(now)} → {format_amount(wanted)} MB"
    numbers: dict[str, Number] = {"heap_touched_mb": most, "heap_mb": now, "wanted_mb": wanted}
    return SizeVerdict("too-much", Reason("P6-heap", text, numbers), "P6", "heap", wanted)


def memory_down(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """P7. "A likely resident size, assuming the heap-committed is a part of the application's resident set": the whole
    heap may be resident one day, so what is beside it must have room beside all of it."""
    sizes, peaks = evidence.sizes, evidence.peaks
    if not _calm(rules, evidence) or not sizes.overhead_mb or not peaks.memory_known:
        return None
    most = max(peaks.outside_mb, peaks.memory_mb - sizes.heap_mb)
    wanted = math.ceil(rules.margin * most)
    if wanted > (1 - rules.worth) * sizes.overhead_mb:
        return None
    text = (
        f"{format_amount(most)} of {format_amount(sizes.overhead_mb)} MB beside the heap were used at most:"
        f" {format_amount(sizes.overhead_mb)} → {format_amount(wanted)} MB"
    )
    numbers: dict[str, Number] = {"outside_mb": most, "overhead_mb": sizes.overhead_mb, "wanted_mb": wanted}
    return SizeVerdict("too-much", Reason("P7-memory", text, numbers), "P7", "beside", wanted)


def cpu_down(rules: ExecutorSizeRules, evidence: SizeEvidence) -> SizeVerdict | None:
    """P8. Fewer cores are fewer slots: as P5, where there is one executor."""
    now, busy = evidence.sizes.cores, _busiest(rules, evidence)
    if busy is None or now == 1:
        return None
    wanted = max(1, math.ceil(now * busy / rules.busy_aim))
    if wanted > (1 - rules.worth) * now:
        return None
    text = f"slots are busy for {format_percent(busy)} of the time at most: {now} → {wanted} cores an executor"
    numbers: dict[str, Number] = {"busy": busy, "cores": now, "wanted": wanted}
    return SizeVerdict("too-much", Reason("P8-cpu", text, numbers), "P8", "cores", wanted)


ORDER: tuple[Policy, ...] = (
    heap_up,
    memory_up,
    cpu_up,
    parallelism_up,
    parallelism_down,
    heap_down,
    memory_down,
    cpu_down,
)
"""Table 1, by priority."""
MEMORY_UP = (heap_up, memory_up)
SLOTS = (cpu_up, parallelism_up, parallelism_down, cpu_down)


def grows(rules: ExecutorSizeRules, evidence: SizeEvidence) -> bool:
    """The backlog of the recent windows only grew: the most of each is above that of the one before, and the last above
    the first by more than noise and by more than the rate grew: whoever keeps up has more waiting when more comes."""
    recent = _recent(rules, evidence)
    if recent is None or not all(window.behind for window in recent):
        return False
    peaks = [max(window.behind) for window in recent]
    first, last = recent[0].rate, recent[-1].rate
    more = max(1.0, last / first) if first and last else 1.0
    return all(b > a for a, b in pairwise(peaks)) and peaks[-1] >= _GROWN * more * peaks[0]


def _how_often(windows: Sequence[ExecutorWindow]) -> str:
    """Nothing, where some window did not count them."""
    counted = [(window.young_collections, window.full_collections) for window in windows]
    if any(None in each for each in counted):
        return ""
    return f" ({sum((young or 0) + (full or 0) for young, full in counted):,} collections)"


def _recent(rules: ExecutorSizeRules, evidence: SizeEvidence) -> tuple[ExecutorWindow, ...] | None:
    windows = evidence.windows[-rules.recent :]
    return windows if len(windows) == rules.recent else None


def _collects(rules: ExecutorSizeRules, window: ExecutorWindow) -> bool:
    share = window.gc_share
    return share is not None and share >= rules.gc_most and _fill(window) >= rules.heap_full


def _runs_over(rules: ExecutorSizeRules, window: ExecutorWindow) -> bool:
    if window.memory_mb is None or window.outside_mb is None:
        return False
    sizes = window.sizes
    return (
        window.memory_mb >= rules.memory_full * sizes.memory_mb
        and window.outside_mb >= rules.memory_full * sizes.overhead_mb
    )


def _fill(window: ExecutorWindow) -> float:
    """A heap of which nobody says how full it is counts as full: the collections say so."""
    return 1.0 if window.heap_used_mb is None else min(1.0, window.heap_used_mb / window.sizes.heap_mb)


def _computes(rules: ExecutorSizeRules, recent: Sequence[ExecutorWindow]) -> bool:
    """On the average of the windows: a batch that ends in one has run in the one before too."""
    known = [(window.busy, window.cpu_share) for window in recent if window.busy is not None and not window.python]
    shares = [share for _, share in known if share is not None]
    if len(shares) < len(recent):
        return False  # what Python workers compute is not known
    busy = statistics.mean(each for each, _ in known)
    return busy >= rules.busy_most and statistics.mean(shares) >= rules.computing


def _behind_by(rules: ExecutorSizeRules, recent: Sequence[ExecutorWindow]) -> float:
    """How many times as fast it would have to be."""
    rates = [(window.rate, window.done) for window in recent if window.rate and window.done]
    return max((rate / done for rate, done in rates if rate and done), default=rules.factor)


def _busiest(rules: ExecutorSizeRules, evidence: SizeEvidence) -> float | None:
    """The most of any window, where all are calm."""
    if not _calm(rules, evidence) or grows(rules, evidence):
        return None
    return evidence.peaks.busy


def _memory_filled(rules: ExecutorSizeRules, evidence: SizeEvidence) -> float:
    """Share of the memory of each kind that is used, with the margin; 1 where that is not known."""
    sizes, peaks = evidence.sizes, evidence.peaks
    if not peaks.memory_known:
        return 1.0
    beside = peaks.outside_mb / sizes.overhead_mb if sizes.overhead_mb else 0.0
    return rules.margin * max(peaks.heap_touched_mb / sizes.heap_mb, beside)


def _calm(rules: ExecutorSizeRules, evidence: SizeEvidence) -> bool:
    """Seen for long enough, and nothing went wrong in any window of it."""
    return evidence.peaks.seconds >= rules.evidence_seconds and not evidence.peaks.died


def _less_state(window: ExecutorWindow) -> float | None:
    """State that fills is no leak; it is spread over the executors, and may be outside their heaps."""
    if window.heap_least_mb is None:
        return None
    return max(0.0, window.heap_least_mb - (window.state_mb or 0.0) / window.sizes.executors)


def _same_load(windows: Sequence[ExecutorWindow]) -> bool:
    """Of the first half and the second."""
    half = len(windows) // 2
    first, second = ([w.rate for w in part if w.rate is not None] for part in (windows[:half], windows[half:]))
    if not first or not second:
        return False
    return statistics.mean(second) <= (1 + _SAME_LOAD) * statistics.mean(first)


def _with_time(series: Sequence[float]) -> float:
    return statistics.correlation(range(len(series)), series) if len(set(series)) > 1 else 0.0


def _fit(rules: ExecutorSizeRules, evidence: SizeEvidence) -> str:
    recent = _recent(rules, evidence)
    if recent is not None and all(_collects(rules, window) for window in recent) and is_raise_in_vain(rules, evidence):
        share = statistics.mean(window.gc_share or 0.0 for window in recent)
        return f"collections take {format_percent(share)} of the tasks' time, as before the heap was raised: more would not help"
    if evidence.peaks.seconds < rules.evidence_seconds:
        seen, needed = evidence.peaks.seconds / 3600, rules.evidence_seconds / 3600
        return f"nothing is short; {format_amount(seen)} of the {format_amount(needed)} hours were seen before something is given back"
    return "nothing is short, and nothing that is worth a restart can be given back"
